"""Checks the arguments of a call against the tool's input schema, before anything is sent.

This helps the caller and is not a security boundary: the extension must check for itself. Arguments
that cannot be checked (no schema, an invalid one, one that refers to something remote) are
accepted; an unusable schema gives a warning with the reason. No function raises.

The schema comes from the extension, which may be hostile, and the validator is native code, which
no timeout can interrupt. With jsonschema-rs 0.60, two dozen `$ref`s that fork block the thread for
minutes; a long chain of them, or deep arguments under a schema that refers to itself, overflow the
stack and kill the process. So `Survey` first walks each schema as the validator would, with a
budget, and a schema that exceeds the budget is not used. For a schema that refers to itself the
cost also depends on the arguments, so each call checks their depth.

The cost of a regular expression is its compiled size times the length of the text: without limits,
one of 20 characters took eight minutes for 120 kB. So both are limited here.

Nothing is ever fetched: a schema with a `$ref` to the outside is not used. jsonschema-rs is
lazily imported with the first schema, so that `exthost --help` starts faster.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from exthost.errors import UsageError
from exthost.model.schema_survey import Survey, shorten
from exthost.wire import jsontext

# Enough to correct a call; the sixth problem is usually a consequence of the first.
MAX_PROBLEMS = 5

# The largest number of visits to subschemas if a schema refers to itself. How many there are then
# depends on the depth of the arguments.
_MAX_RECURSIVE_VISITS = 20_000

# The deepest nesting for a schema that refers to itself: its own depth times that of the arguments.
_MAX_RECURSIVE_DEPTH = 200

# The largest size of a compiled regular expression. The validator's own limit is 10 MB, and one of
# that size took 4 ms for each character of a text.
_MAX_PATTERN_BYTES = 300_000

# The steps that an expression with look-around or back references may take, about a millisecond.
_MAX_BACKTRACKS = 10_000

# The characters of all texts in the arguments, multiplied by the number of regular expressions.
_MAX_PATTERN_CHARS = 20_000

_KNOWN_DRAFTS = re.compile(
    r"https?://json-schema\.org/(draft-0[467]|draft/2019-09|draft/2020-12)/schema#?"
)

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
    for a usable schema. `_validator` is None if values are not checked. The other private fields
    are the results of the `Survey`, which explains them.
    """

    warning: str = ""
    _validator: _Validator | None = None
    _forks: int = 0
    _visits: int = 0
    _depth: int = 0
    _patterns: int = 0

    @classmethod
    def of(cls, schema: Any) -> "Checker | None":
        """Return the checker for this schema, or None if the schema accepts every value."""
        if schema is None or schema is True or schema == {}:
            return None
        if not isinstance(schema, Mapping):
            return cls("the input schema is not an object; arguments are not checked")
        survey = Survey(schema)
        if survey.refusal:
            return cls(f"the input schema {survey.refusal}; arguments are not checked")
        try:
            validator, warning = _compiled(dict(schema))
        except BaseException as error:
            if not _is_from_validator(error):
                raise
            # The search for the mistake would compile every expression, of any size.
            reason = "" if survey.patterns else schema_problem(schema)
            reason = reason or str(getattr(error, "message", error))
            reason = reason or type(error).__name__
            return cls(
                f"the input schema is invalid ({shorten(reason)}); arguments are not checked"
            )
        return cls(warning, validator, survey.forks, survey.visits, survey.depth, survey.patterns)

    @property
    def passes(self) -> Callable[[Any], bool] | None:
        """A fast test: arguments that pass it have no problems. None if no test is fast and safe.

        It is native code and may raise; a caller then uses `problems`, which handles the error.
        """
        if self._validator is None or self._forks or self._patterns:
            return None
        return self._validator.is_valid

    def problems(self, arguments: Any, noun: str = "arguments") -> list[str]:
        """Return a sentence for each problem of these arguments.

        The list is empty if there is no problem or nothing can be checked. `noun` is what the
        sentences call the value.
        """
        try:
            return self._find_problems(arguments, noun)
        except BaseException as error:
            if not _is_from_validator(error):
                raise
        # The validator does not know the type of a value: bytes, a set, a dataclass. The value that
        # would be sent instead is checked.
        try:
            return self._find_problems(jsontext.decode(jsontext.encode(arguments)), noun)
        except BaseException as error:
            if not isinstance(error, UsageError) and not _is_from_validator(error):
                raise
            return []  # for example lone surrogates, which JSON allows and the validator does not

    def _find_problems(self, arguments: Any, noun: str) -> list[str]:
        """Return the problems, or raise an error of the validator."""
        if self._validator is None or not self._can_check(arguments):
            return []
        if self._validator.is_valid(arguments):  # takes half the time of `iter_errors`
            return []
        errors = islice(self._validator.iter_errors(arguments), MAX_PROBLEMS)
        sentences = [_describe_error(error, noun) for error in errors if not _is_undecided(error)]
        return list(dict.fromkeys(sentences))

    def _can_check(self, arguments: Any) -> bool:
        """Return whether these arguments are shallow enough for a schema that refers to itself, and
        short enough for its regular expressions."""
        repetitions = 1  # how often the validator may walk the whole schema
        if self._forks:  # the schema refers to itself: each level of the arguments may fork again
            max_depth = _MAX_RECURSIVE_DEPTH // self._depth
            depth = _measure_depth(arguments, max_depth + 1)
            repetitions = self._forks**depth
            if depth > max_depth or self._visits * repetitions > _MAX_RECURSIVE_VISITS:
                return False
        if not self._patterns:
            return True
        max_chars = _MAX_PATTERN_CHARS // (self._patterns * repetitions)
        return _has_at_most_chars(arguments, max_chars)


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Return why a schema is not valid JSON Schema, with the path of the mistake. Return "" for a
    valid schema, and for one that is not safe to check."""
    if Survey(schema).refusal:
        return ""
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(dict(schema))
    except BaseException as error:
        if not _is_from_validator(error):
            raise
        return _describe_schema_error(error) if hasattr(error, "instance_path") else ""
    return ""


def is_widely_readable(schema: Mapping[str, Any]) -> bool:
    """Return whether the validators of other programs can be expected to compile this schema.

    It is read as draft 7, which they have in common. References that only lead in a circle are
    accepted by the host's own validator, but overflow the stack of others. A schema that is too
    large to be compiled here counts as readable, because nothing is known against it.
    """
    survey = Survey(schema)
    if survey.endless or survey.outside:
        return False
    if survey.refusal:
        return True
    import jsonschema_rs

    without_draft = {name: value for name, value in schema.items() if name != "$schema"}
    try:
        jsonschema_rs.Draft7Validator(
            without_draft, retriever=_refuse_to_fetch, pattern_options=_make_pattern_options()
        )
    except BaseException as error:
        if not _is_from_validator(error):
            raise
        return False
    return True


def _make_pattern_options() -> Any:
    """Return the limits of the validator for regular expressions."""
    import jsonschema_rs

    return jsonschema_rs.FancyRegexOptions(
        backtrack_limit=_MAX_BACKTRACKS, size_limit=_MAX_PATTERN_BYTES
    )


def _describe_schema_error(error: Any) -> str:
    """Return a sentence about a mistake in a schema, which begins with its path."""
    path = list(error.instance_path)
    place = "".join(f"/{step}" for step in path) or "/"
    if path[-1:] == ["type"]:
        types = "array, boolean, integer, null, number, object or string"
        return shorten(f"{place} is {error.instance!r}, and a type is {types}")
    return shorten(f"{place}: {error.message}")


def _compiled(schema: dict[str, Any]) -> tuple[_Validator, str]:
    """Return a validator for this schema, and a warning or "". Raises an error of the validator if
    the schema is not valid."""
    import jsonschema_rs

    warning = ""
    draft = schema.get("$schema")
    if draft is not None and not (isinstance(draft, str) and _KNOWN_DRAFTS.fullmatch(draft)):
        # The validator would try to fetch an unknown draft.
        del schema["$schema"]
        warning = f"the input schema's $schema ({shorten(repr(draft))}) is unknown; read as 2020-12"
    validator = jsonschema_rs.validator_for(
        schema,
        retriever=_refuse_to_fetch,
        mask="the value",
        pattern_options=_make_pattern_options(),
    )
    return validator, warning


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError("a schema cannot refer to anything outside itself")


def _is_from_validator(error: BaseException) -> bool:
    """Return whether the validator raised this: one of its own errors, an error of Python for a
    value that it cannot convert, or the BaseException of a Rust panic.

    Any other exception, such as KeyboardInterrupt or a time limit, is of a signal handler, and says
    nothing about the schema.
    """
    return isinstance(error, ValueError | TypeError | ArithmeticError | RecursionError) or type(
        error
    ).__name__ in ("ReferencingError", "PanicException")


def _is_undecided(error: Any) -> bool:
    """Return whether the validator gave up on a regular expression. Such an error does not mean
    that the arguments are invalid."""
    kind = type(error.kind).__name__
    return "BacktrackLimit" in kind or "RegexEngineFailure" in kind


def _describe_error(error: Any, noun: str) -> str:
    """Return a sentence about an error of the validator, such as "arguments.days: 9 is greater than
    the maximum of 7"."""
    branch = _find_branch_of_right_type(error)
    if branch is not None:
        return _describe_error(branch[0], noun)
    where = noun
    for step in error.instance_path:
        where += f"[{step}]" if isinstance(step, int) else f".{step}"
    types = _list_branch_types(error)
    return shorten(f"{where}: {f'the value is not {types}' if types else error.message}")


def _find_branch_of_right_type(error: Any) -> Any:
    """Return the errors of the only branch of `anyOf` or `oneOf` that accepts the value's type, or
    None. If the schema is "an integer up to 7, or null", and the value is 9, the error of the first
    branch is more helpful than that no branch fits."""
    if type(error.kind).__name__ == "OneOfMultipleValid":  # the branches with errors do not matter
        return None
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
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


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


def _has_at_most_chars(value: Any, limit: int) -> bool:
    """Return whether the texts and the keys in a JSON value have at most `limit` characters
    together. Each value and key counts as one more."""
    values = [value]
    while values:
        item = values.pop()
        limit -= 1
        if isinstance(item, str):
            limit -= len(item)
        elif isinstance(item, dict):
            limit -= sum(len(str(key)) for key in item)
            values.extend(item.values())
        elif isinstance(item, list | tuple):
            values.extend(item)
        if limit < 0:
            return False
    return True
