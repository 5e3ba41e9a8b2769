"""Damaged files: reading a store's pages without the engine below, naming what is broken, saving what is not.

Nothing here hands a page to LMDB. `layout` knows where things lie on a page, `walk` checks a whole file, `reading` puts
the sound pages behind the interface of `kv.py`, and `salvaging` builds a new store of what verifies.
"""
