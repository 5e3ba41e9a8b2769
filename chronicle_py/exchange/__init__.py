"""Exchange: stores and conversations as files. Exports as JSON Lines; imports of those, and of other programs' forms.

    from chronicle_py import exchange

    with open("backup.jsonl", "wb") as file:
        file.writelines(exchange.export_lines(store))
    exchange.import_file(store, "run.traj")

Built on the engine; the engine does not know it. docs/cli.md describes the lines of an export.
"""

from chronicle_py.exchange.blobs import find_blob
from chronicle_py.exchange.exporting import export_lines
from chronicle_py.exchange.faults import Fault, Imported, MalformedFile
from chronicle_py.exchange.importing import import_file
from chronicle_py.exchange.json_form import from_json, to_json

__all__ = ["Fault", "Imported", "MalformedFile", "export_lines", "find_blob", "from_json", "import_file", "to_json"]
