"""The long tests: stores killed, starved of space, shared by many and fed with rubbish, and asked what they lost.

`make soak` (or `python -m soak`, from `tests/`) runs all of them and prints a table; `tests/test_soak.py` calls the
same functions with small counts. One module is one harness; `result.py` says what each returns.
"""
