"""Arguments checked against a tool's input schema, before the tool is bothered with them.

A service to the caller, not a wall: the extension must check for itself. So whatever cannot be
checked (no schema, an invalid one, one that asks for something remote) is let through, with a
warning that says why. Nothing here raises.

The schema is the extension's, and an extension may be hostile; the checker is native code, which
no timeout can interrupt. Seen with jsonschema-rs 0.60: two dozen `$ref`s that fork hold the thread
for minutes, and a long chain of them, or deep arguments under a schema that refers to itself,
overflow the stack and kill the process. Hence `_Survey`: schemas are walked once, as the
checker would, with a budget; those that exceed it are not checked. For schemas that refer to
themselves the cost also depends on the arguments, so their depth is looked at in each call.

Nothing is ever fetched: a `$ref` that leaves the schema makes it unchecked.
jsonschema-rs is imported at the first schema, since `exthost --help` must not pay for it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

# Enough to mend a call; the sixth problem is usually a consequence of the first.
MAX_PROBLEMS = 5

# Subschemas that may be met in one walk, each counted as often as it is reached: 2,000 branches
# that all fail took 9 ms.
_MAX_VISITS = 2_000

# The same for a schema that refers to itself, multiplied out over the depth of the arguments.
_MAX_RECURSIVE_VISITS = 20_000

# Tables and lists in the whole schema, used or not: reading 20,000 took 40 ms.
_MAX_PARTS = 20_000

# Subschemas within one another. One was seen to cost 4 KiB of stack; threads may have 512 KiB.
_MAX_DEPTH = 40

# The same for a schema that refers to itself: its own depth times that of the arguments.
_MAX_RECURSIVE_DEPTH = 200

_MAX_PROBLEM_CHARS = 300

_KNOWN_DRAFTS = re.compile(
    r"https?://json-schema\.org/(draft-0[467]|draft/2019-09|draft/2020-12)/schema#?"
)

# Keywords whose value is a schema or a list of them, and those whose value is a table of schemas.
# A name inside such a table is a property of the arguments, whatever keyword it looks like.
_HOLD_SCHEMAS = frozenset(
    (
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "prefixItems"),
        *("additionalItems", "unevaluatedItems", "contains", "additionalProperties"),
        *("unevaluatedProperties", "propertyNames", "contentSchema"),
    )
)
_HOLD_TABLES = frozenset(["properties", "patternProperties", "dependentSchemas", "dependencies"])


class _Validator(Protocol):
    def is_valid(self, instance: Any) -> bool: ...
    def iter_errors(self, instance: Any) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class Checker:
    """One tool's schema, ready. `warning` says why it is checked not at all, or otherwise."""

    warning: str = ""
    _validator: _Validator | None = None
    _forks: int = 0
    _visits: int = 0
    _depth: int = 0

    @classmethod
    def of(cls, schema: Any) -> "Checker | None":
        """The checker of this schema; None when there is nothing to check."""
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
            if not _is_the_checkers(error):
                raise
            said = str(getattr(error, "message", error)) or type(error).__name__
            return cls(f"the input schema is invalid ({_cut(said)}); arguments are not checked")
        return cls(warning, validator, survey.forks, survey.visits, survey.depth)

    @property
    def passes(self) -> Callable[[Any], bool] | None:
        """A quick test: arguments that pass it have no problems. None where no test is quick or
        safe. It is native code: what it raises, `problems` handles."""
        if self._validator is None or self._forks:
            return None
        return self._validator.is_valid

    def problems(self, arguments: Any, called: str = "arguments") -> list[str]:
        """What is wrong with these arguments, or with what else they are `called`, in words; empty
        when nothing is, or unchecked."""
        if self._validator is None or (self._forks and not self._affordable(arguments)):
            return []
        try:
            if self._validator.is_valid(arguments):  # half the price of looking for what is wrong
                return []
            errors = islice(self._validator.iter_errors(arguments), MAX_PROBLEMS)
            told = [_told(error, called) for error in errors if not _undecided(error)]
        except BaseException as error:
            if not _is_the_checkers(error):
                raise
            return []  # e.g. lone surrogates, which JSON can carry and the checker cannot
        return list(dict.fromkeys(told))

    def _affordable(self, arguments: Any) -> bool:
        most = _MAX_RECURSIVE_DEPTH // self._depth
        depth = _depth_of(arguments, most + 1)
        return depth <= most and self._visits * self._forks**depth <= _MAX_RECURSIVE_VISITS


def _compiled(schema: dict[str, Any]) -> tuple[_Validator, str]:
    import jsonschema_rs

    warning = ""
    draft = schema.get("$schema")
    if draft is not None and not (isinstance(draft, str) and _KNOWN_DRAFTS.fullmatch(draft)):
        # Left in place, the checker would want to fetch it.
        del schema["$schema"]
        warning = f"the input schema's $schema ({_cut(repr(draft))}) is unknown; read as 2020-12"
    validator = jsonschema_rs.validator_for(schema, retriever=_refuse, mask="the value")
    return validator, warning


def _refuse(uri: str) -> Any:
    raise ValueError("a schema may not refer to anything outside itself")


def _is_the_checkers(error: BaseException) -> bool:
    """Rust panics arrive as a BaseException of their own; Ctrl-C must pass."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _undecided(error: Any) -> bool:
    """A pattern that was given up on says nothing about the arguments."""
    kind = type(error.kind).__name__
    return "BacktrackLimit" in kind or "RegexEngineFailure" in kind


def _told(error: Any, where: str) -> str:
    for step in error.instance_path:
        where += f"[{step}]" if isinstance(step, int) else f".{step}"
    return _cut(f"{where}: {error.message}")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_PROBLEM_CHARS else f"{text[:_MAX_PROBLEM_CHARS]}…"


def _depth_of(value: Any, enough: int) -> int:
    """How deep a JSON value is nested, not looked at beyond `enough`."""
    depth, level = 0, [value]
    while depth < enough:
        # By identity, so that a value that holds itself twice does not double with each level.
        inner = {
            id(item): item
            for one in level
            if isinstance(one, dict | list | tuple)
            for item in (one.values() if isinstance(one, dict) else one)
        }
        if not inner:
            return depth
        level = list(inner.values())
        depth += 1
    return depth


class _TooMuchError(Exception):
    """The survey's budget is spent, or the schema uses what it does not follow."""


class _Survey:
    """One walk over a schema as the checker would walk it, references followed.

    visits   subschemas met, each as often as it is reached
    depth    the longest way in
    forks    references that lead back to where the walk came from
    refusal  why the schema should not be given to the checker; "" when it may
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.root = schema
        self.visits = self.depth = self.forks = 0
        self.refusal = ""
        self.open: set[int] = set()
        try:
            self._look_over(schema)
            self._visit(schema, 1)
        except (_TooMuchError, RecursionError) as error:
            self.refusal = str(error) or "is nested too deep"

    def _look_over(self, schema: Mapping[str, Any]) -> None:
        """Everything in it, once: its size, and whether some inner part has a name of its own.

        An inner `$id` changes what `#/…` means below it, and is rare enough not to be followed.
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
                raise _TooMuchError(f"has more than {_MAX_PARTS} parts")
            if isinstance(value, Mapping):
                if isinstance(value.get(name), str):
                    raise _TooMuchError(f"holds further schemas with an {name} of their own")
                values.extend(value.values())
            else:
                values.extend(value)

    def _visit(self, schema: Any, depth: int) -> None:
        if not isinstance(schema, Mapping):
            return
        if id(schema) in self.open:
            self.forks += 1
            return
        self.visits += 1
        self.depth = max(self.depth, depth)
        if self.visits > _MAX_VISITS:
            raise _TooMuchError(f"comes to more than {_MAX_VISITS} subschemas")
        if depth > _MAX_DEPTH:
            raise _TooMuchError(f"is more than {_MAX_DEPTH} subschemas deep")
        self.open.add(id(schema))
        for inner in self._inner(schema):
            self._visit(inner, depth + 1)
        self.open.discard(id(schema))

    def _inner(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for keyword, held in schema.items():
            if keyword in _HOLD_SCHEMAS:
                yield from held if isinstance(held, list | tuple) else (held,)
            elif keyword in _HOLD_TABLES and isinstance(held, Mapping):
                yield from held.values()
            elif keyword == "$ref" and isinstance(held, str):
                yield self._target(held)
            elif keyword in {"$dynamicRef", "$recursiveRef"}:
                raise _TooMuchError("uses dynamic references")

    def _target(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise _TooMuchError(f"refers to {_cut(reference)!r}, which is not a path within it")
        found: Any = self.root
        for step in reference.split("/")[1:]:
            name = _unescaped(step)
            if isinstance(found, Mapping):
                found = found.get(name)
            elif isinstance(found, list | tuple) and name.isdecimal() and len(name) < 6:
                found = found[int(name)] if int(name) < len(found) else None
            else:
                found = None
        return found


def _unescaped(step: str) -> str:
    """One step of a JSON pointer in a URI fragment."""
    if "%" in step:
        from urllib.parse import unquote

        step = unquote(step)
    return step.replace("~1", "/").replace("~0", "~")
