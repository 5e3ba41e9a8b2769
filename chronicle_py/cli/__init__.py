"""The `chronicle` command: a thin face over the public API.

Nothing imports this package. Each module holds the commands of one concern; they share the app and its way of ending
(app.py), how stores and places are named (options.py), and how things are printed (output.py, preview.py, graph.py).
What a command prints is kept apart from what it does: everything that can be computed without a terminal is a plain
function. `rich` is imported at the moment something is drawn, so that `chronicle --help` stays quick.
"""


def main() -> None:
    """The entry point of the installed command."""
    import sys
    from io import TextIOWrapper

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a letter is no reason to fail
    try:
        from chronicle_py.cli.commands import app

        app(prog_name="chronicle")
    except KeyboardInterrupt:  # while it was still starting
        sys.exit(130)
