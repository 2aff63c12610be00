"""Converts tools to the form that a model API accepts, and reports what had to be changed. No I/O.

`host.tools.as_anthropic()` and the methods for other APIs use it. A tool for Anthropic is

    {"name": "ext_weather_forecast", "description": "…", "input_schema": {"type": "object", …}}

Each API requires the JSON schema of an object with `properties`. The APIs of OpenAI and Anthropic
also reject some keywords at the top level of a schema, and limit lengths and characters. An API
answers the whole request with an error if one tool in it is not acceptable. So what it would reject
is removed where possible, and reported.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Form: TypeAlias = Literal["openai", "responses", "anthropic", "gemini", "mcp"]
FORMS: Final[tuple[Form, ...]] = ("openai", "responses", "anthropic", "gemini", "mcp")

# The APIs that reject some keywords, and what their errors call them.
_STRICT_APIS: Final[dict[Form, str]] = {
    "openai": "openai",
    "responses": "openai",
    "anthropic": "anthropic",
}

# Where each form has the schema of the arguments.
_SCHEMA_KEYS: Final[dict[Form, str]] = {
    "openai": "parameters",
    "responses": "parameters",
    "anthropic": "input_schema",
    "gemini": "parametersJsonSchema",
    "mcp": "inputSchema",
}

# The APIs of OpenAI and Anthropic answer 400 if one of these keywords is at the top level.
_REJECTED_KEYWORDS: Final = ("oneOf", "anyOf", "allOf", "not", "enum")

# OpenAI rejects longer descriptions.
_MAX_DESCRIPTION_CHARS: Final = 1024

# Anthropic rejects names of arguments that do not match this.
_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ModelTool(NamedTuple):
    """A tool in the form of an API, and a sentence for each change or problem."""

    data: dict[str, Any]
    changes: tuple[str, ...]


def model_tool(form: Form, name: str, description: str, schema: Any) -> ModelTool:
    """Return a tool in this form. `schema` is its input schema, or None if it has none."""
    changes: list[str] = []
    parameters = _object_schema(schema, changes)
    if form in _STRICT_APIS:
        parameters = _remove_rejected(_STRICT_APIS[form], parameters, changes)
    if _STRICT_APIS.get(form) == "openai" and len(description) > _MAX_DESCRIPTION_CHARS:
        description = description[: _MAX_DESCRIPTION_CHARS - 1] + "…"
        changes.append(f"its description is cut to {_MAX_DESCRIPTION_CHARS} characters")
    data: dict[str, Any] = {
        "name": name,
        "description": description,
        _SCHEMA_KEYS[form]: parameters,
    }
    if form == "openai":
        data = {"type": "function", "function": data}
    elif form == "responses":
        # Without it the API demands schemas of a stricter kind.
        data = {"type": "function", **data, "strict": False}
    return ModelTool(data, tuple(f"{name}: {change}" for change in changes))


def request_tools(form: Form, tools: Iterable[ModelTool]) -> list[Any]:
    """Return the `tools` of a request. Gemini has one list inside another."""
    data = [tool.data for tool in tools]
    return [{"functionDeclarations": data}] if form == "gemini" and data else data


def _object_schema(schema: Any, changes: list[str]) -> dict[str, Any]:
    """Return the schema as that of an object with `properties`, which every API requires."""
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        if schema is not None and schema is not True:
            changes.append("its schema is not one of an object, so any object is accepted")
        return {"type": "object", "properties": {}}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        if properties is not None:
            changes.append("`properties` of its schema is not an object, so it is removed")
        properties = {}
    if invalid := [name for name, value in properties.items() if not _is_schema(value)]:
        names = ", ".join(map(repr, invalid))
        changes.append(f"the schema of the argument {names} is not valid, so any value is accepted")
        properties = {**properties, **{name: {} for name in invalid}}
    parameters = {**schema, "type": "object", "properties": properties}
    if "required" in schema and not _is_list_of_names(schema["required"]):
        changes.append("`required` of its schema is not a list of names, so it is removed")
        del parameters["required"]
    return parameters


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping | bool)


def _is_list_of_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _remove_rejected(api: str, schema: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """Return the schema without the keywords that the API rejects. Add to `changes` what was
    removed, and what the API will not accept or follow."""
    rejected = [keyword for keyword in _REJECTED_KEYWORDS if keyword in schema]
    if rejected:
        keywords = ", ".join(f"`{keyword}`" for keyword in rejected)
        changes.append(f"{keywords} at the top of its schema is removed: {api} rejects it")
    external_refs = sorted({ref for ref in _references(schema) if not ref.startswith("#")})
    if external_refs:
        changes.append(f"`$ref` to {', '.join(external_refs)}: {api} cannot follow it")
    if api == "anthropic":
        rejected_names = [
            key for key in schema["properties"] if not _ARGUMENT_NAME.fullmatch(str(key))
        ]
        if rejected_names:
            names = ", ".join(map(repr, rejected_names))
            changes.append(f"the argument {names}: {api} rejects such names")
    return {key: value for key, value in schema.items() if key not in rejected}


def _references(value: Any) -> Iterator[str]:
    """Yield every `$ref` in a schema, of its first 20,000 nodes."""
    # An explicit stack and a limit, because the schema comes from an extension, which may nest it
    # too deeply for recursion.
    stack = [value]
    nodes_left = 20_000
    while stack and nodes_left:
        nodes_left -= 1
        item = stack.pop()
        if isinstance(item, Mapping):
            if isinstance(item.get("$ref"), str):
                yield item["$ref"]
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
