"""Walks the schema of a tool as a validator would, and refuses one that would take too long.

The schema comes from an extension, which may be hostile. `model.schema` gives it to a validator,
which no timeout can interrupt, only if this walk stays within its budget. In this schema, for
example, each of `b`, `c`, `d` and so on is reached twice as often as the one before:

    {"$ref": "#/$defs/a", "$defs": {
        "a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]},
        "b": {"allOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/c"}]}, …}}

The module uses no validator, and raises nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

# The largest number of subschemas in one walk, each counted as often as it is reached. 2,000
# branches that all fail take 9 ms.
_MAX_VISITS = 2_000

# The largest number of objects and lists in the whole schema. Reading 20,000 takes 40 ms.
_MAX_PARTS = 20_000

# The deepest nesting of subschemas. Each level takes 4 KiB of stack; a thread may have 512 KiB.
_MAX_DEPTH = 40

# The most regular expressions in one walk, each counted as often as it is reached.
_MAX_PATTERNS = 100

_MAX_PROBLEM_CHARS = 300

# Keywords whose value is a schema or a list of schemas, and those whose value is a table of them.
# A name inside such a table is a property of the arguments, even if it looks like a keyword.
_SCHEMA_KEYWORDS = frozenset(
    (
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "prefixItems"),
        *("additionalItems", "unevaluatedItems", "contains", "additionalProperties"),
        *("unevaluatedProperties", "propertyNames", "contentSchema"),
    )
)
_TABLE_KEYWORDS = frozenset(["properties", "patternProperties", "dependentSchemas", "dependencies"])


def shorten(text: str) -> str:
    """Return the text, cut to the length of a message about a schema or arguments."""
    return text if len(text) <= _MAX_PROBLEM_CHARS else f"{text[:_MAX_PROBLEM_CHARS]}…"


class _UnsafeSchemaError(Exception):
    """The schema exceeds the survey's budget, or uses something that the survey cannot follow."""


class Survey:
    """One walk over a schema, as the validator would walk it; references are followed.

    visits   the number of subschemas, each counted as often as it is reached
    depth    the deepest nesting
    forks    the number of references to a subschema that encloses them, so that the schema refers
             to itself
    patterns the number of regular expressions, each counted as often as it is reached
    endless  whether a reference leads through references alone back to itself
    outside  whether a reference leads out of the schema
    refusal  why the schema must not be given to the validator; "" if it may
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.root = schema
        self.visits = self.depth = self.forks = self.patterns = 0
        self.refusal = ""
        self.endless = self.outside = False
        # id() of the references that are known to end at a subschema that is not a reference.
        self._ending_references: set[int] = set()
        self._enclosing: set[int] = set()  # id() of the subschemas that enclose the current one
        try:
            self._check_parts(schema)
            self._visit(schema, 1)
        except (_UnsafeSchemaError, RecursionError) as error:
            self.refusal = str(error) or "is nested too deep"

    def _check_parts(self, schema: Mapping[str, Any]) -> None:
        """Check the size of the schema, and that no inner schema has an `$id`.

        An inner `$id` changes what `#/…` means below it, and is too rare to be worth following.
        """
        name = "id" if "draft-04" in str(schema.get("$schema")) else "$id"
        values: list[Any] = list(schema.values())
        seen: set[int] = set()
        while values:
            value = values.pop()
            if not isinstance(value, Mapping | list | tuple) or id(value) in seen:
                continue
            seen.add(id(value))
            if len(seen) > _MAX_PARTS:
                raise _UnsafeSchemaError(f"has more than {_MAX_PARTS} parts")
            if isinstance(value, Mapping):
                if isinstance(value.get(name), str):
                    raise _UnsafeSchemaError(f"contains inner schemas with an {name}")
                values.extend(value.values())
            else:
                values.extend(value)

    def _visit(self, schema: Any, depth: int) -> None:
        """Walk this subschema, which is at this depth, and all inside it."""
        if not isinstance(schema, Mapping):
            return
        if id(schema) in self._enclosing:
            self.forks += 1
            return
        self.visits += 1
        self.depth = max(self.depth, depth)
        if self.visits > _MAX_VISITS:
            raise _UnsafeSchemaError(f"has more than {_MAX_VISITS} subschemas")
        if depth > _MAX_DEPTH:
            raise _UnsafeSchemaError(f"is more than {_MAX_DEPTH} subschemas deep")
        self._count_patterns(schema)
        self._enclosing.add(id(schema))
        for inner in self._iter_subschemas(schema):
            self._visit(inner, depth + 1)
        self._enclosing.discard(id(schema))

    def _count_patterns(self, schema: Mapping[str, Any]) -> None:
        """Count the regular expressions of this subschema itself."""
        named = schema.get("patternProperties")
        self.patterns += len(named) if isinstance(named, Mapping) else 0
        self.patterns += "pattern" in schema
        if self.patterns > _MAX_PATTERNS:
            raise _UnsafeSchemaError(f"has more than {_MAX_PATTERNS} regular expressions")
        if schema.get("format") == "regex":
            # The validator would compile texts in the arguments as regular expressions, whose
            # compiled size cannot be limited.
            raise _UnsafeSchemaError("uses the format regex")

    def _iter_subschemas(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the subschemas directly inside this one, and the targets of its references."""
        for keyword, value in schema.items():
            if keyword in _SCHEMA_KEYWORDS:
                yield from value if isinstance(value, list | tuple) else (value,)
            elif keyword in _TABLE_KEYWORDS and isinstance(value, Mapping):
                yield from value.values()
            elif keyword == "$ref" and isinstance(value, str):
                target = self._resolve_reference(value)
                self.endless = self.endless or self._is_endless(target)
                yield target
            elif keyword in {"$dynamicRef", "$recursiveRef"}:
                raise _UnsafeSchemaError("uses dynamic references")

    def _is_endless(self, target: Any) -> bool:
        """Return whether the references from this target on lead back to one of them, and never to
        a subschema that is not a reference."""
        passed: set[int] = set()
        while isinstance(target, Mapping) and isinstance(target.get("$ref"), str):
            if id(target) in passed:
                return True
            if id(target) in self._ending_references:
                break
            passed.add(id(target))
            target = self._resolve_reference(target["$ref"])
        self._ending_references |= passed
        return False

    def _resolve_reference(self, reference: str) -> Any:
        """Return the part of the schema to which a reference such as `#/$defs/point` leads; None if
        there is no such part."""
        if reference != "#" and not reference.startswith("#/"):
            self.outside = not reference.startswith("#")  # otherwise it is the name of a part
            raise _UnsafeSchemaError(
                f"refers to {shorten(reference)!r}, which is not a path within it"
            )
        target: Any = self.root
        for step in reference.split("/")[1:]:
            name = _unescape(step)
            if isinstance(target, Mapping):
                target = target.get(name)
            elif isinstance(target, list | tuple) and name.isdecimal() and len(name) < 6:
                target = target[int(name)] if int(name) < len(target) else None
            else:
                target = None
        return target


def _unescape(step: str) -> str:
    """Return the key that one step of a JSON pointer in a URI fragment stands for."""
    if "%" in step:
        from urllib.parse import unquote

        step = unquote(step)
    return step.replace("~1", "/").replace("~0", "~")
