"""Checks the arguments of a call against the tool's input schema, before anything is sent.

This helps the caller and is not a security boundary: the extension must check for itself. Arguments
that cannot be checked (no schema, an invalid one, one that refers to something remote) are
accepted; an unusable schema gives a warning with the reason. No function raises.

The schema comes from the extension, which may be hostile, and the validator is native code, which
no timeout can interrupt. With jsonschema-rs 0.60, two dozen `$ref`s that fork block the thread for
minutes; a long chain of them, or deep arguments under a schema that refers to itself, overflow the
stack and kill the process. So `_Survey` first walks each schema as the validator would, with a
budget, and a schema that exceeds the budget is not used. For a schema that refers to itself the
cost also depends on the arguments, so each call checks their depth.

Nothing is ever fetched: a schema with a `$ref` to the outside is not used. jsonschema-rs is
lazily imported with the first schema, so that `exthost --help` starts faster.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

# Enough to correct a call; the sixth problem is usually a consequence of the first.
MAX_PROBLEMS = 5

# The largest number of subschemas in one walk, each counted as often as it is reached. 2,000
# branches that all fail take 9 ms.
_MAX_VISITS = 2_000

# The same for a schema that refers to itself, multiplied by the depth of the arguments.
_MAX_RECURSIVE_VISITS = 20_000

# The largest number of objects and lists in the whole schema. Reading 20,000 takes 40 ms.
_MAX_PARTS = 20_000

# The deepest nesting of subschemas. Each level takes 4 KiB of stack; a thread may have 512 KiB.
_MAX_DEPTH = 40

# The same for a schema that refers to itself: its own depth times that of the arguments.
_MAX_RECURSIVE_DEPTH = 200

_MAX_PROBLEM_CHARS = 300

_KNOWN_DRAFTS = re.compile(
    r"https?://json-schema\.org/(draft-0[467]|draft/2019-09|draft/2020-12)/schema#?"
)

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


_TYPE_NOUNS = {
    "array": "an array",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


class _Validator(Protocol):
    def is_valid(self, instance: Any) -> bool: ...
    def iter_errors(self, instance: Any) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class Checker:
    """Checks values against one schema.

    `warning` is the reason why values are not checked, or why the schema is not read as written; ""
    for a usable schema. The private fields are the results of the `_Survey`.
    """

    warning: str = ""
    _validator: _Validator | None = None
    _forks: int = 0
    _visits: int = 0
    _depth: int = 0

    @classmethod
    def of(cls, schema: Any) -> "Checker | None":
        """Return the checker for this schema, or None if the schema accepts every value."""
        if schema is None or schema is True or schema == {}:
            return None
        if not isinstance(schema, Mapping):
            return cls("the input schema is not an object; arguments are not checked")
        survey = _Survey(schema)
        if survey.refusal:
            return cls(f"the input schema {survey.refusal}; arguments are not checked")
        try:
            validator, warning = _compiled(dict(schema))
        except BaseException as error:
            if not _is_from_validator(error):
                raise
            reason = schema_problem(schema) or str(getattr(error, "message", error))
            reason = reason or type(error).__name__
            return cls(
                f"the input schema is invalid ({_shorten(reason)}); arguments are not checked"
            )
        return cls(warning, validator, survey.forks, survey.visits, survey.depth)

    @property
    def passes(self) -> Callable[[Any], bool] | None:
        """A fast test: arguments that pass it have no problems. None if no test is fast and safe.

        It is native code and may raise; a caller then uses `problems`, which handles the error.
        """
        if self._validator is None or self._forks:
            return None
        return self._validator.is_valid

    def problems(self, arguments: Any, noun: str = "arguments") -> list[str]:
        """Return a sentence for each problem of these arguments.

        The list is empty if there is no problem or nothing can be checked. `noun` is what the
        sentences call the value.
        """
        if self._validator is None or (self._forks and not self._can_check(arguments)):
            return []
        try:
            if self._validator.is_valid(arguments):  # takes half the time of `iter_errors`
                return []
            errors = islice(self._validator.iter_errors(arguments), MAX_PROBLEMS)
            sentences = [
                _describe_error(error, noun) for error in errors if not _is_undecided(error)
            ]
        except BaseException as error:
            if not _is_from_validator(error):
                raise
            return []  # for example lone surrogates, which JSON allows and the validator does not
        return list(dict.fromkeys(sentences))

    def _can_check(self, arguments: Any) -> bool:
        """Return whether these arguments are shallow enough for a schema that refers to itself."""
        max_depth = _MAX_RECURSIVE_DEPTH // self._depth
        depth = _measure_depth(arguments, max_depth + 1)
        return depth <= max_depth and self._visits * self._forks**depth <= _MAX_RECURSIVE_VISITS


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Return why a schema is not valid JSON Schema, with the path of the mistake. Return "" for a
    valid schema, and for one that is not safe to check."""
    if _Survey(schema).refusal:
        return ""
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(dict(schema))
    except BaseException as error:
        if not _is_from_validator(error):
            raise
        return _describe_schema_error(error) if hasattr(error, "instance_path") else ""
    return ""


def _describe_schema_error(error: Any) -> str:
    path = list(error.instance_path)
    place = "".join(f"/{step}" for step in path) or "/"
    if path[-1:] == ["type"]:
        types = "array, boolean, integer, null, number, object or string"
        return _shorten(f"{place} is {error.instance!r}, and a type is {types}")
    return _shorten(f"{place}: {error.message}")


def _compiled(schema: dict[str, Any]) -> tuple[_Validator, str]:
    import jsonschema_rs

    warning = ""
    draft = schema.get("$schema")
    if draft is not None and not (isinstance(draft, str) and _KNOWN_DRAFTS.fullmatch(draft)):
        # The validator would try to fetch an unknown draft.
        del schema["$schema"]
        warning = (
            f"the input schema's $schema ({_shorten(repr(draft))}) is unknown; read as 2020-12"
        )
    validator = jsonschema_rs.validator_for(schema, retriever=_refuse_to_fetch, mask="the value")
    return validator, warning


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError("a schema may not refer to anything outside itself")


def _is_from_validator(error: BaseException) -> bool:
    """Return whether the validator raised this: an Exception, or the BaseException of a Rust panic.

    A KeyboardInterrupt is neither and must not be caught.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _is_undecided(error: Any) -> bool:
    """Return whether the validator gave up on a regular expression. Such an error does not mean
    that the arguments are invalid."""
    kind = type(error.kind).__name__
    return "BacktrackLimit" in kind or "RegexEngineFailure" in kind


def _describe_error(error: Any, noun: str) -> str:
    branch = _find_branch_of_right_type(error)
    if branch is not None:
        return _describe_error(branch[0], noun)
    where = noun
    for step in error.instance_path:
        where += f"[{step}]" if isinstance(step, int) else f".{step}"
    types = _list_branch_types(error)
    return _shorten(f"{where}: {f'the value is not {types}' if types else error.message}")


def _find_branch_of_right_type(error: Any) -> Any:
    """Return the errors of the only branch of `anyOf` or `oneOf` that accepts the value's type, or
    None. Of an integer or null, with bounds, the reader wants to know which bound is violated."""
    branches = [
        branch
        for branch in getattr(error.kind, "context", None) or ()
        if branch and not any(_is_type_error(part, error) for part in branch)
    ]
    return branches[0] if len(branches) == 1 else None


def _is_type_error(part: Any, error: Any) -> bool:
    """Return whether `part`, an error of a branch of `error`, is about the type of the value."""
    return type(part.kind).__name__ == "Type" and bool(part.instance_path == error.instance_path)


def _list_branch_types(error: Any) -> str:
    """Return the types that the branches of `anyOf` or `oneOf` accept, in words; "" if a branch
    rejects the value for something else than its type."""
    types: dict[str, None] = {}
    for branch in getattr(error.kind, "context", None) or ():
        for part in branch:
            if not _is_type_error(part, error):
                return ""
            types |= dict.fromkeys(part.kind.types)
    words = [_TYPE_NOUNS.get(name, name) for name in types]
    return " or ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_PROBLEM_CHARS else f"{text[:_MAX_PROBLEM_CHARS]}…"


def _measure_depth(value: Any, limit: int) -> int:
    """Return how deep a JSON value is nested, or `limit` if it is at least that deep."""
    depth, level = 0, [value]
    while depth < limit:
        # The key is id(item), so that a value that contains itself twice does not double the items
        # at each level.
        inner = {
            id(item): item
            for parent in level
            if isinstance(parent, dict | list | tuple)
            for item in (parent.values() if isinstance(parent, dict) else parent)
        }
        if not inner:
            return depth
        level = list(inner.values())
        depth += 1
    return depth


class _UnsafeSchemaError(Exception):
    """The schema exceeds the survey's budget, or uses something that the survey cannot follow."""


class _Survey:
    """One walk over a schema, as the validator would walk it; references are followed.

    visits   the number of subschemas, each counted as often as it is reached
    depth    the deepest nesting
    forks    the number of references to a subschema that encloses them
    refusal  why the schema must not be given to the validator; "" if it may
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.root = schema
        self.visits = self.depth = self.forks = 0
        self.refusal = ""
        self.enclosing: set[int] = set()  # id() of the subschemas that enclose the current one
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
        if not isinstance(schema, Mapping):
            return
        if id(schema) in self.enclosing:
            self.forks += 1
            return
        self.visits += 1
        self.depth = max(self.depth, depth)
        if self.visits > _MAX_VISITS:
            raise _UnsafeSchemaError(f"has more than {_MAX_VISITS} subschemas")
        if depth > _MAX_DEPTH:
            raise _UnsafeSchemaError(f"is more than {_MAX_DEPTH} subschemas deep")
        self.enclosing.add(id(schema))
        for inner in self._iter_subschemas(schema):
            self._visit(inner, depth + 1)
        self.enclosing.discard(id(schema))

    def _iter_subschemas(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for keyword, value in schema.items():
            if keyword in _SCHEMA_KEYWORDS:
                yield from value if isinstance(value, list | tuple) else (value,)
            elif keyword in _TABLE_KEYWORDS and isinstance(value, Mapping):
                yield from value.values()
            elif keyword == "$ref" and isinstance(value, str):
                yield self._resolve_reference(value)
            elif keyword in {"$dynamicRef", "$recursiveRef"}:
                raise _UnsafeSchemaError("uses dynamic references")

    def _resolve_reference(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise _UnsafeSchemaError(
                f"refers to {_shorten(reference)!r}, which is not a path within it"
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
