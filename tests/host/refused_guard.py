"""Helpers for tests: a config with tools, and with a guard that the host refuses for a reason.

A guard is an extension whose hook decides about tool calls. A host refuses an extension that it
must not start, for example because its manifest is invalid. While the guard is refused, no call may
reach the tools:

    refused = RefusedGuard(tmp_path, "wrong_pin")
    ...  # make calls with refused.document as the config
    refused.check_no_call_passed()
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.extensions.synaps_tree import write_plugin

TOOL = "ext_tools_echo"
BEFORE = {"hook": "before_tool_call"}
ALLOW = {"hooks": {"before_tool_call": {"action": "continue"}}}


def manifest_path(folder: Path) -> Path:
    return folder / ".synaps-plugin" / "plugin.json"


def rewrite(folder: Path, **extension: Any) -> None:
    """Change the manifest of a plugin."""
    path = manifest_path(folder)
    document = json.loads(path.read_text())
    document["extension"] |= extension
    path.write_text(json.dumps(document))


def unknown_permission(guard: Path) -> dict[str, Any]:
    rewrite(guard, permissions=["tools.intercept", "tools.dream"])
    return {}


def unknown_protocol(guard: Path) -> dict[str, Any]:
    rewrite(guard, protocol_version=99)
    return {}


def broken_json(guard: Path) -> dict[str, Any]:
    path = manifest_path(guard)
    path.write_text(path.read_text()[:-3])
    return {}


def wrong_pin(guard: Path) -> dict[str, Any]:
    return {"overrides": {"guard": {"sha256": {"program": "0" * 64}}}}


def writable_by_another(guard: Path) -> dict[str, Any]:
    """Let the plugin `aa` write the manifest of the guard, so that the guard is not trusted."""
    grant = {"filesystem": [f"{guard}:rw"], "network": False}
    return {"overrides": {"aa": {"permissions": grant, "sandbox": "best-effort"}}}


# By name: each function changes the guard so that the host refuses it, or returns keys of a config
# that make the host refuse it.
REASONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    function.__name__: function
    for function in (
        unknown_permission,
        unknown_protocol,
        broken_json,
        wrong_pin,
        writable_by_another,
    )
}


class RefusedGuard:
    """A folder with tools, and with a guard that is refused for this reason."""

    def __init__(self, folder: Path, reason: str, **config_keys: Any) -> None:
        """`config_keys` are added to the config."""
        self.folder = folder
        self._received = folder / "heard"  # the tools write the messages to it
        self.plugins = folder / "plugins"
        write_plugin(self.plugins / "tools", {"heard": str(self._received)})
        if reason == "writable_by_another":
            write_plugin(self.plugins / "aa")
        self.guard = write_plugin(self.plugins / "guard", ALLOW, hooks=[BEFORE])
        config = REASONS[reason](self.guard)
        self.document = {
            "discovery": {"search_paths": [str(self.plugins)]},
            **config,
            **config_keys,
        }

    def check_no_call_passed(self) -> None:
        """Check that the tools have received no call."""
        messages = self._received.read_text() if self._received.exists() else ""
        assert "tool.call" not in messages
