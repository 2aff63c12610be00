"""Helpers to run `roder_child.py`, a test extension of the dialect roder.

A roder extension has a manifest (TOML) with its tools and services, and an entry in the config
under `[[process_extensions]]`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exthost.config import config_from_mapping
from exthost.config.discovery.configfile import read_named_manifest
from exthost.dialects.roder.dialect import DIALECT
from exthost.events import Bus
from exthost.extension.extension import Extension

CHILD = Path(__file__).parent / "roder_child.py"
TOOLS = (
    *("echo", "heard", "environment", "emit", "raw", "go"),
    *("fail", "malformed", "refuse", "die", "hang"),
)
SERVICES = ("inference_engine", "subagent_dispatcher", "task_executor", "event_sink")


def manifest_text(id: str = "wire", *, tools: tuple[str, ...] = TOOLS, more: str = "") -> str:
    """Return a manifest with every service; `more` is inserted before the services."""
    lines = [f'id = "{id}"', f'name = "{id}"', 'version = "0.3.0"', 'api_version = "^0.1"', more]
    lines += ["[[provides]]", 'type = "tool_provider"', f'id = "{id}-tools"']
    for tool in tools:
        lines += ["[[provides.tools]]", f'name = "{tool}"', 'description = ""']
        lines += ['parameters = { type = "object" }']
    for service in SERVICES:
        lines += ["[[provides]]", f'type = "{service}"', f'id = "{id}-{service}"']
    return "\n".join(lines) + "\n"


def config_entry(folder: Path, *words: str, id: str = "toy", text: str = "", **more: Any) -> Any:
    """Return a `[[process_extensions]]` entry for the child, and write its manifest to `folder`.

    `words` are arguments of the child, `text` replaces the manifest, and `more` are further keys.
    """
    manifest = folder / f"{id}.toml"
    manifest.write_text(text or manifest_text())
    args = ["-S", "-E", str(CHILD), str(manifest), *words]
    entry = {"id": id, "manifest": str(manifest), "command": sys.executable, "args": args}
    return entry | {"startup_timeout_ms": 60_000} | more


def roder_extension(folder: Path, *words: str, bus: Bus | None = None, **more: Any) -> Extension:
    """Return the extension, not started. The caller must close it."""
    document: Mapping[str, Any] = {"process_extensions": [config_entry(folder, *words, **more)]}
    (spec,) = config_from_mapping(document, folder=str(folder)).specs
    return Extension(read_named_manifest(spec), DIALECT, bus=bus)


async def received_params(ext: Extension, method: str) -> list[Any]:
    """Return the params of each message with this method that the child received."""
    received = (await ext.call_tool("heard")).data
    return [message["params"] for message in received if message.get("method") == method]
