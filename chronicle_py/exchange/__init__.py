"""Exchange: stores as files. Exports as JSON Lines, and imports of those.

    from chronicle_py import exchange

    with open("backup.jsonl", "wb") as file:
        file.writelines(exchange.export_lines(store))
    exchange.import_file(other, "backup.jsonl")

Built on the engine; the engine does not know it. docs/cli.md describes the lines of an export. Conversations of other
programs are imported by `chronicle_py.context.importers`.
"""

from chronicle_py.exchange.blobs import find_blob
from chronicle_py.exchange.exporting import export_lines
from chronicle_py.exchange.faults import Fault, Imported, MalformedFile
from chronicle_py.exchange.importing import import_file, import_lines, is_export
from chronicle_py.exchange.json_form import from_json, to_json

__all__ = [
    "Fault",
    "Imported",
    "MalformedFile",
    "export_lines",
    "find_blob",
    "from_json",
    "import_file",
    "import_lines",
    "is_export",
    "to_json",
]
