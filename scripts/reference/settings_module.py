"""The module `config.extension_settings`: the keys of an entry as TypedDicts, for a type checker.

The types come from the JSON Schemas of the keys (`model.documents.keys`).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from exthost.config.entry import ENTRY_KEYS
from exthost.model.documents import keys
from exthost.model.documents.keys import Key
from exthost.model.documents.setting_keys import SETTING_KEYS

_HEAD = '''\
"""The keys of an `[[extensions]]` entry as TypedDicts, for programs that pass them to `connect`.
Written by `make reference`: do not edit.

At run time the values are checked like those of a file, by `entry` and `documents.settings`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

Duration: TypeAlias = float | str
"""Seconds, or text with a unit such as "500ms"."""

Size: TypeAlias = int | str
"""Bytes, or text with a unit such as "256MiB"."""
'''

_GROUPS = {
    "limits": "LimitSettings",
    "restart": "RestartSettings",
    "breaker": "BreakerSettings",
    "pool": "PoolSettings",
    "permissions": "PermissionSettings",
}

# `connect` takes the command and the dialect by themselves.
_OWN_ARGUMENTS = {"source", "dialect"}

# Types that the schema does not express: a reader accepts more than the schema says, or less.
_TYPES = {
    "protocol": 'Literal["stdio"]',
    "env": "Mapping[str, str | Mapping[str, str]] | Sequence[str]",
    "hooks": "Mapping[str, Any]",
    **_GROUPS,
}


def settings_module() -> dict[str, str]:
    """Return the text of the module, by its path below `src/exthost/`."""
    parts = [_HEAD]
    for name, class_name in _GROUPS.items():
        parts.append(_typed_dict(class_name, SETTING_KEYS[name].type.keys))
    entry = {
        name: key
        for name, key in {**ENTRY_KEYS, **SETTING_KEYS}.items()
        if name not in _OWN_ARGUMENTS
    }
    doc = "The keyword arguments of `connect`, besides the command and the dialect."
    parts.append(_typed_dict("ExtensionSettings", entry, doc))
    return {"config/extension_settings.py": "\n\n".join(parts)}


def _typed_dict(class_name: str, members: Mapping[str, Key], doc: str = "") -> str:
    lines = [
        f"class {class_name}(TypedDict, total=False):",
        *([f'    """{doc}"""', ""] if doc else []),
    ]
    lines += [
        f"    {name}: {_TYPES.get(name) or _annotation(key.type.schema)}"
        for name, key in members.items()
    ]
    return "\n".join(lines) + "\n"


def _annotation(schema: Mapping[str, Any]) -> str:
    if schema == keys.DURATION.schema:
        return "Duration"
    if schema == keys.SIZE.schema:
        return "Size"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_annotation, schema["anyOf"])))
    if choices := [*schema.get("enum", ()), *_one(schema, "const")]:
        return f"Literal[{', '.join(map(json.dumps, choices))}]"
    match schema.get("type"):
        case "object":
            values = {_annotation(item) for item in _values(schema)}
            return f"Mapping[str, {values.pop() if len(values) == 1 else 'Any'}]"
        case "array":
            return f"Sequence[{_annotation(schema['items'])}]"
        case name:
            simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
            return simple.get(str(name), "Any")


def _values(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from schema.get("properties", {}).values()
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield schema["additionalProperties"]


def _one(schema: Mapping[str, Any], key: str) -> list[Any]:
    return [schema[key]] if key in schema else []
