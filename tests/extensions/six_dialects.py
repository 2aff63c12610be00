"""A config with one extension of each dialect (protocol), each with a tool that can be called.

`document` returns the config, and TOOLS has the tools.
"""

from pathlib import Path
from typing import Any, NamedTuple

from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.roder import config_entry as roder_entry
from tests.extensions.synaps_tree import CHILD as SYNAPS
from tests.faces.gateway.gateway_process import ROOT, extension

FOLDER = ROOT / "tests" / "extensions"


class CallableTool(NamedTuple):
    """A tool of one of the extensions: the id of the extension, the name of the tool, arguments,
    and a text that its result contains."""

    extension: str
    name: str
    arguments: dict[str, Any]
    shown: str


TOOLS = {
    "morphir": CallableTool("text", "shout", {"text": "hi"}, "HI"),
    "nexo": CallableTool("agent", "echo", {"a": "one"}, "one"),
    "cigen": CallableTool("ci", "generate", {"schema": {"version": "1"}}, "heard.json"),
    "synaps": CallableTool("plugin", "echo", {"a": "two"}, "two"),
    "roder": CallableTool("wire", "echo", {"a": "three"}, "three"),
    "mcp": CallableTool("server", "echo", {"a": "four"}, "four"),
}


def document(folder: Path, **settings: dict[str, Any]) -> dict[str, Any]:
    """Return the config. `settings` are further keys of the entry of a dialect."""
    text = str(ROOT / "examples" / "morphir" / "text.py")
    rows = {
        "morphir": ("text", "-S", "-E", text),
        "nexo": ("agent", "-S", "-E", str(NEXO)),
        "cigen": ("ci", str(FOLDER / "cigen_child.py")),
        "synaps": ("plugin", "-S", "-E", str(SYNAPS), "{}"),
        "mcp": ("server", "-S", "-E", str(FOLDER / "mcp_child.py")),
    }
    entries = [
        extension(name, dialect, *words, **settings.get(dialect, {}))
        for dialect, (name, *words) in rows.items()
    ]
    wire = roder_entry(folder, id="wire")
    return {
        "extensions": entries,
        "process_extensions": [wire],
        "overrides": {"wire": settings.get("roder", {})},
    }
