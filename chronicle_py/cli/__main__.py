"""`python -m chronicle_py.cli` is `chronicle`."""

from chronicle_py.cli import main

main()
