"""Tools in the form that the API of a model accepts, and what had to be changed for that.

Pure. Each API wants a schema of an object, with `properties`. Beyond that they differ: those of
OpenAI and Anthropic reject some keywords at the top of a schema, and limit lengths and characters.
What they would reject is taken out and reported, so that one tool does not fail every request.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

__all__ = ["FORMS", "Form", "ModelTool", "model_tool"]

Form: TypeAlias = Literal["openai", "anthropic", "mcp"]
FORMS: Final[tuple[Form, ...]] = ("openai", "anthropic", "mcp")

# Both APIs answer 400 for these beside `type` and `properties` of the whole schema.
_REJECTED_AT_TOP: Final = ("oneOf", "anyOf", "allOf", "not", "enum")

# Longer descriptions of a function are rejected by OpenAI.
_MAX_DESCRIPTION_CHARS: Final = 1024

# Anthropic rejects other names of arguments.
_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ModelTool(NamedTuple):
    """A tool as an API wants it, and a sentence for each thing that had to be changed."""

    data: dict[str, Any]
    changes: tuple[str, ...]


def model_tool(form: Form, name: str, description: str, schema: Any) -> ModelTool:
    """Return a tool in this form. `schema` is its input schema, or None."""
    changes: list[str] = []
    parameters = _object_schema(schema, changes)
    if form != "mcp":
        parameters = _accepted(form, parameters, changes)
    if form == "openai" and len(description) > _MAX_DESCRIPTION_CHARS:
        description = description[: _MAX_DESCRIPTION_CHARS - 1] + "…"
        changes.append(f"its description is cut to {_MAX_DESCRIPTION_CHARS} characters")
    about = {"name": name, "description": description}
    data: dict[str, Any]
    if form == "openai":
        data = {"type": "function", "function": {**about, "parameters": parameters}}
    else:
        data = {**about, "input_schema" if form == "anthropic" else "inputSchema": parameters}
    return ModelTool(data, tuple(f"{name}: {change}" for change in changes))


def _object_schema(schema: Any, changes: list[str]) -> dict[str, Any]:
    """Return the schema as one of an object with properties, which every API requires."""
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        if schema is not None and schema is not True:
            changes.append("its schema is not one of an object, so any object is accepted")
        return {"type": "object", "properties": {}}
    return {**schema, "type": "object", "properties": schema.get("properties") or {}}


def _accepted(form: Form, schema: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    rejected = [keyword for keyword in _REJECTED_AT_TOP if keyword in schema]
    if rejected:
        words = ", ".join(f"`{keyword}`" for keyword in rejected)
        changes.append(f"{words} at the top of its schema is left out: {form} rejects it")
    outside = sorted({ref for ref in _references(schema) if not ref.startswith("#")})
    if outside:
        changes.append(f"`$ref` to {', '.join(outside)}: {form} cannot follow it")
    if form == "anthropic":
        odd = [key for key in schema["properties"] if not _ARGUMENT_NAME.fullmatch(str(key))]
        if odd:
            changes.append(f"the argument {', '.join(map(repr, odd))}: {form} rejects such names")
    return {key: value for key, value in schema.items() if key not in rejected}


def _references(value: Any) -> Iterator[str]:
    # A stack and not recursion: a schema comes from an extension, which may nest it without end.
    stack, nodes_left = [value], 20_000
    while stack and nodes_left:
        nodes_left -= 1
        item = stack.pop()
        if isinstance(item, Mapping):
            if isinstance(item.get("$ref"), str):
                yield item["$ref"]
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
