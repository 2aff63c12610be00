"""Checks of `options` in a config: the names that a dialect has, and their valid values.

    [[extensions]]
    name = "files"
    dialect = "mcp"
    options = { log_level = "debug" }     # mcp declares {"log_level": TEXT.described("…")}

One table may contain options of several dialects, for example in `[defaults]`. Therefore a dialect
ignores a name that it does not have, unless the name looks like a misspelling of one that it has.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.names import nearest


class Option(NamedTuple):
    """One option.

    fits      returns whether a value is valid
    expected  describes the valid values in an error message, after "must be"
    schema    the JSON Schema of the valid values, for editors
    about     one sentence that describes the option, for the documentation
    """

    fits: Callable[[Any], bool]
    expected: str
    schema: Mapping[str, Any] = EMPTY_MAPPING
    about: str = ""

    def described(self, about: str) -> "Option":
        """Return the option with a sentence about what it does."""
        return self._replace(about=about)


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(type(item) is str for item in value)


_TEXT_LIST_SCHEMA: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}

TEXT = Option(lambda value: type(value) is str, "text", {"type": "string"})
TEXTS = Option(_is_text_list, "a list of text", _TEXT_LIST_SCHEMA)
FLAG = Option(lambda value: type(value) is bool, "true or false", {"type": "boolean"})
TABLES = Option(
    lambda value: (
        isinstance(value, Mapping) and all(isinstance(item, Mapping) for item in value.values())
    ),
    "a table of tables",
    {"type": "object", "additionalProperties": {"type": "object"}},
)
EVENT_KINDS = Option(
    lambda value: isinstance(value, Mapping) and _is_text_list(value.get("kinds", ())),
    "a table with `kinds`, a list of text",
    {"type": "object", "properties": {"kinds": _TEXT_LIST_SCHEMA}},
)

# Options that every dialect has.
COMMON_OPTIONS: Mapping[str, Option] = {
    "host_version": TEXT.described("The version of the host that is reported to the extension.")
}


def one_of(*values: str) -> Option:
    """Return an option whose value is one of these."""
    return Option(
        lambda value: type(value) is str and value in values,
        " or ".join(values),
        {"enum": list(values)},
    )


def some_of(*values: str) -> Option:
    """Return an option whose value is a list of some of these."""
    allowed = set(values)
    return Option(
        lambda value: _is_text_list(value) and allowed.issuperset(value),
        f"a list of: {', '.join(values)}",
        {"type": "array", "items": {"enum": list(values)}},
    )


def find_option_problem(options: Mapping[str, Any], declared: Mapping[str, Option]) -> str:
    """Return the first mistake in these options, or "". `declared` are those of the dialect; if it
    declares none, names are not checked."""
    known = {**COMMON_OPTIONS, **declared} if declared else declared
    for name, value in options.items():
        option = known.get(name)
        if option is not None:
            if not option.fits(value):
                return f"options.{name} must be {option.expected}"
        elif known and (near := nearest(name, known)) is not None:
            return f"options.{name} is not known; did you mean `{near}`?"
    return ""
