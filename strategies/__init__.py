"""Context strategies: pure reducers that fold a conversation into what a model should see.

Installed as `chronicle_py.strategies`. Nothing here does I/O, reads a clock or writes to a store.
"""

__all__: list[str] = []
