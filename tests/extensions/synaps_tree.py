"""Helpers that write plugins of the dialect synaps, for tests of their discovery.

A synaps plugin is a folder with a manifest `.synaps-plugin/plugin.json`.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHILD = Path(__file__).parent / "synaps_child.py"
# Permissions in the manifest, which a plugin needs for its requests to the host.
ALL = (
    "tools.register",
    "providers.register",
    "tools.intercept",
    "privacy.llm_content",
    "session.lifecycle",
    "memory.read",
    "memory.write",
    "config.write",
    "config.subscribe",
)


def command(behaviour: dict[str, Any] | None = None) -> list[str]:
    """Return the command of `synaps_child.py`, without a manifest."""
    return [sys.executable, "-S", "-E", str(CHILD), json.dumps(behaviour or {})]


def write_plugin(
    folder: Path,
    behaviour: dict[str, Any] | None = None,
    *,
    permissions: Sequence[str] = ALL,
    hooks: Sequence[Any] = (),
    **extension: Any,
) -> Path:
    """Write a plugin that runs `synaps_child.py`; return its folder, whose name is the id.

    `behaviour` is what synaps_child.py does, and `extension` has further keys of the manifest.
    """
    manifest = folder / ".synaps-plugin" / "plugin.json"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    program, *args = command(behaviour)
    entry = {
        "protocol_version": 1,
        "runtime": "process",
        "command": program,
        "args": args,
        "permissions": list(permissions),
        "hooks": list(hooks),
        **extension,
    }
    manifest.write_text(json.dumps({"name": folder.name, "version": "1.0.0", "extension": entry}))
    return folder
