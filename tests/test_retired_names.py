"""Names that were replaced by plain ones do not come back.

Only identifiers count: a word may still be used in a sentence. Whoever retires a name adds it.
"""

import io
import tokenize
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "exthost"

# Retired name → what it is called now.
RETIRED = {
    "Alone": "Connection",
    "Answering": "HostApi",
    "Asked": "Args",
    "CATALOGUE": "error_catalog.load",
    "Configs": "StoredSettings",
    "Elsewhere": "ExternalChanges",
    "Heard": "WarningHandler",
    "Logbook": "ExtensionLogs",
    "Mirrored": "Forwarded",
    "Spout": "NonblockingWriter",
    "completed_now": "read_stored_settings",
    "face_for": "display_for",
    "found_out": "detect_dialect",
    "holding_options": "sandbox_options",
    "lines_of": "positions_of",
    "steer": "run_control_verb",
    "talking_bus": "printing_bus",
}

# Modules that have another name now.
RETIRED_MODULES = {
    "answering", "blocking", "catalogue", "chapters", "elsewhere", "eventsinks", "faces", "folder",
    "fragments", "frame", "heard", "logbook", "services", "spout", "steer", "switch", "switching",
    "toolloop", "watching", "yamlform",
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_retired_name_is_used(path: Path) -> None:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    used = {token.string for token in tokens if token.type == tokenize.NAME}
    assert {name: RETIRED[name] for name in used & RETIRED.keys()} == {}


def test_no_module_has_a_retired_name() -> None:
    names = {part for path in SOURCE.rglob("*.py") for part in path.relative_to(SOURCE).parts[:-1]}
    names |= {path.stem for path in SOURCE.rglob("*.py")}
    assert names & RETIRED_MODULES == set()
