"""Writes TOML, for the manifest files of extensions. The standard library can only read it.

>>> toml_entries(id="text", args=["-x"])
['id = "text"', 'args = ["-x"]']
"""

import json
from typing import Any


def toml_entries(**values: Any) -> list[str]:
    """Return the lines of a TOML table. A value that is "" is left out."""
    return [f"{key} = {toml_value(value)}" for key, value in values.items() if value != ""]


def toml_value(value: Any) -> str:
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
            f"{json.dumps(key)} = {toml_value(item)}"
            for key, item in value.items()
            if item is not None
        ]
        return f"{{ {', '.join(members)} }}" if members else "{}"
    return f"[{', '.join(toml_value(item) for item in value if item is not None)}]"
