"""Names and manifest of an extension in nexo's second contract (manifest version 2).

nexo has two contracts: versions of its protocol with different methods. In the second one the names
of tools begin with the id of the extension, and the extension sends its manifest in the handshake.
The tool `shout` of the extension `text` is `text_shout`. This module does no I/O.
"""

import re
from collections.abc import Iterable
from typing import Any

HOOKS = ("before_message", "after_message", "before_tool_call", "after_tool_call")

# Every version of nexo that has the contract.
MIN_VERSION = ">=0.1.0"

# The maximum length of an id.
ID_CHARS = 64


def plugin_id(name: str) -> str:
    """Return the id of an extension of this name: lower-case letters, digits and `_`."""
    id = re.sub(r"[^a-z0-9_]", "_", name.lower())[:ID_CHARS]
    return id if id[:1].isalpha() else f"p{id}"[:ID_CHARS]


def tool_name(id: str, name: str) -> str:
    """Return the name of a tool in this contract, which begins with the id."""
    # nexo accepts both prefixes.
    return name if name.startswith((f"{id}_", f"ext_{id}_")) else f"{id}_{name}"


def manifest(
    name: str, version: str, description: str, tools: Iterable[str], hooks: Iterable[str]
) -> dict[str, Any]:
    """Return the manifest of an extension with these tools and hooks, without its entrypoint."""
    id = plugin_id(name)
    plugin = {
        "id": id,
        "version": version,
        "name": name,
        "description": description or name,  # it must not be blank
        "min_nexo_version": MIN_VERSION,
        "extends": {
            "tools": [tool_name(id, tool) for tool in tools],
            "hooks": [hook for hook in hooks if hook in HOOKS],
        },
    }
    return {"manifest_version": 2, "plugin": plugin}
