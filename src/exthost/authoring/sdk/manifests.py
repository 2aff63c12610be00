"""Writes the manifest of an extension from its registered handlers.

roder and synaps require a manifest, and nexo discovers extensions by it. `python ext.py --manifest
roder` prints it, and `--print-manifest` that of nexo's second contract. morphir, mcp and cigen have
no manifests.
"""

import json
from collections.abc import Sequence
from typing import Any

from exthost.authoring.sdk.dialects import nexo_second
from exthost.authoring.sdk.dialects.endpoint import Identity
from exthost.authoring.sdk.errors import SdkUsageError

FILES = {
    "nexo": "plugin.toml",
    "roder": "roder-extension.toml",
    "synaps": ".synaps-plugin/plugin.json",
}

# The permission that each hook of synaps needs.
SYNAPS_HOOKS = {
    "before_tool_call": "tools.intercept",
    "after_tool_call": "tools.intercept",
    "before_message": "privacy.llm_content",
    "on_message_complete": "privacy.llm_content",
    "on_compaction": "privacy.llm_content",
    "on_session_start": "session.lifecycle",
    "on_session_end": "session.lifecycle",
    "on_usage": "privacy.llm_content",
}


def manifest_text(identity: Identity, dialect: str, command: Sequence[str]) -> str:
    """Return the manifest for a dialect; `command` is what starts the extension from its folder.
    Raises UsageError for a dialect that has none."""
    writers = {"nexo": _nexo, "roder": _roder, "synaps": _synaps}
    if dialect not in writers:
        raise SdkUsageError(f"the {dialect} dialect has no manifest; {', '.join(writers)} have")
    return writers[dialect](identity, list(command))


def second_nexo_manifest(identity: Identity, command: Sequence[str]) -> str:
    """Return the manifest of nexo's second contract; `command` is what starts the extension from
    its folder."""
    registry = identity.registry
    document = nexo_second.manifest(
        identity.name,
        identity.version,
        identity.description,
        registry.callables,
        registry.hooks,
    )
    plugin = document["plugin"]
    extends = plugin.pop("extends")
    lines = [
        *_entries(manifest_version=2),
        "",
        "[plugin]",
        *_entries(**plugin),
        "",
        "[plugin.entrypoint]",
        *_entries(command=command[0], args=list(command[1:])),
        "",
        "[plugin.extends]",
        *_entries(**extends),
    ]
    return "\n".join(lines) + "\n"


def _nexo(identity: Identity, command: list[str]) -> str:
    hooks = [name for name in identity.registry.hooks if name in nexo_second.HOOKS]
    lines = [
        "[plugin]",
        *_entries(id=identity.name, version=identity.version, description=identity.description),
        "",
        "[capabilities]",
        *_entries(tools=list(identity.registry.callables), hooks=hooks),
        "",
        "[transport]",
        *_entries(kind="stdio", command=command[0], args=command[1:]),
    ]
    return "\n".join(lines) + "\n"


def _roder(identity: Identity, command: list[str]) -> str:
    registry = identity.registry
    lines = [
        *_entries(id=identity.name, name=identity.name, version=identity.version),
        *_entries(api_version="^0.1", description=identity.description),
        "",
        "[launch]",
        *_entries(command=command[0], args=command[1:]),
    ]
    if registry.callables:
        lines += ["", "[[provides]]", *_entries(type="tool_provider", id=f"{identity.name}-tools")]
    for name, function in registry.callables.items():
        lines += ["", "[[provides.tools]]"]
        lines += _entries(name=name, description=function.description)
        lines += [f"parameters = {_toml(function.input_schema)}"]
    for name in registry.streams:
        lines += ["", "[[provides]]", *_entries(type="task_executor", id=name)]
    for name in registry.providers:
        lines += ["", "[[provides]]", *_entries(type="inference_engine", id=name)]
    return "\n".join(lines) + "\n"


def _synaps(identity: Identity, command: list[str]) -> str:
    registry = identity.registry
    hooks = [name for name in registry.hooks if name in SYNAPS_HOOKS]
    permissions = dict.fromkeys(SYNAPS_HOOKS[name] for name in hooks)
    if registry.tools or registry.streams:
        permissions["tools.register"] = None
    if registry.providers:
        permissions["providers.register"] = None
    if registry.replaces_output and "after_tool_call" in hooks:
        permissions["tools.transform_output"] = None
    extension = {
        "protocol_version": 2 if "on_usage" in hooks else 1,
        "runtime": "process",
        "command": command[0],
        "args": command[1:],
        "permissions": list(permissions),
        "hooks": [{"hook": name} for name in hooks],
    }
    document = {
        "name": identity.name,
        "version": identity.version,
        "description": identity.description,
        "extension": extension,
    }
    return json.dumps(document, indent=2) + "\n"


def _entries(**values: Any) -> list[str]:
    """Return the lines of a TOML table. A value that is "" is left out."""
    return [f"{key} = {_toml(value)}" for key, value in values.items() if value != ""]


def _toml(value: Any) -> str:
    """Return a value in TOML. TOML has no null, so None is left out of tables and lists."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # A JSON string is a valid TOML string, except that TOML requires DEL to be escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        members = [
            f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items() if item is not None
        ]
        return f"{{ {', '.join(members)} }}" if members else "{}"
    return f"[{', '.join(_toml(item) for item in value if item is not None)}]"
