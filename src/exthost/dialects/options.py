"""The keys of `options` that a dialect has, and what each must be.

Options of several dialects may be in one table, in `[defaults]` for example. A name that a dialect
does not have is ignored, unless it is nearly one of its own.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from exthost.empty_mapping import EMPTY_MAPPING
from exthost.names import nearest


class Option(NamedTuple):
    """One option.

    fits      returns whether a value is valid
    expected  describes the valid values in an error message, after "must be"
    schema    the JSON Schema of the valid values, for editors
    about     one sentence about what the option does, for the documentation
    """

    fits: Callable[[Any], bool]
    expected: str
    schema: Mapping[str, Any] = EMPTY_MAPPING
    about: str = ""

    def described(self, about: str) -> "Option":
        """Return the option with a sentence about what it does."""
        return self._replace(about=about)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(type(item) is str for item in value)


_TEXTS_SCHEMA: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}

TEXT = Option(lambda value: type(value) is str, "text", {"type": "string"})
TEXTS = Option(_is_texts, "a list of text", _TEXTS_SCHEMA)
FLAG = Option(lambda value: type(value) is bool, "true or false", {"type": "boolean"})
EVENT_KINDS = Option(
    lambda value: isinstance(value, Mapping) and _is_texts(value.get("kinds", ())),
    "a table with `kinds`, a list of text",
    {"type": "object", "properties": {"kinds": _TEXTS_SCHEMA}},
)

# In every dialect.
COMMON_OPTIONS: Mapping[str, Option] = {
    "host_version": TEXT.described("The version of the host that the extension is told.")
}


def one_of(*words: str) -> Option:
    """Return an option whose value is one of these words."""
    return Option(
        lambda value: type(value) is str and value in words,
        " or ".join(words),
        {"enum": list(words)},
    )


def some_of(*words: str) -> Option:
    """Return an option whose value is a list of some of these words."""
    known = set(words)
    return Option(
        lambda value: _is_texts(value) and known.issuperset(value),
        f"a list of: {', '.join(words)}",
        {"type": "array", "items": {"enum": list(words)}},
    )


def find_option_problem(options: Mapping[str, Any], known: Mapping[str, Option]) -> str:
    """Return what is wrong with these options, or ""."""
    known = {**COMMON_OPTIONS, **known} if known else known
    for name, value in options.items():
        option = known.get(name)
        if option is not None:
            if not option.fits(value):
                return f"options.{name} must be {option.expected}"
        elif known and (near := nearest(name, known)) is not None:
            return f"options.{name} is not known; did you mean `{near}`?"
    return ""
