"""The figures of docs/benchmarks.md: what chronicle-py promises in speed and size, measured beside plain LMDB.

`python -m bench` prints the table. A module is about one group of figures; `figure.py` says what a figure is. Timing is
never a test: whatever the table shows, the exit code is 0 unless a measurement itself fails.
"""
