"""Reads the description of a function, and of each of its parameters, from its docstring.

Three styles are supported: Google's `Args:` section with indented lines, Sphinx's `:param name:`,
and NumPy's `Parameters` section underlined with dashes. The text before the first section is the
description of the function. In this docstring of Google's style, the description is "Upper case."
and that of `text` is "the text to shout":

    Upper case.

    Args:
        text: the text to shout
"""

import inspect
import re
from typing import NamedTuple

# The heading of a section; `:param name: text`; an entry of Google's style, such as
# `name (int): text`; and one of NumPy's, such as `name : int`, with its text on the next lines.
_SECTION = re.compile(
    r"(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?|attributes)"
    r":?\s*$",
    re.IGNORECASE,
)
_PARAMETER_SECTIONS = ("args", "arguments", "parameters", "params")
_SPHINX = re.compile(r":param\s+(?:[^:\s]+\s+)?(\w+)\s*:\s*(.*)")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"(\w+)\s*(?::.*)?$")


class Docstring(NamedTuple):
    """The description of a function, and the description of each parameter by its name."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Return the descriptions in a docstring. Both are empty for None."""
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    section, entry = "", ""  # the section and the parameter that the line belongs to; "" for none
    is_underlined = False  # whether that section has NumPy's style
    for position, line in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if not line.startswith(" ") and _SECTION.match(line) and _is_heading(line, following):
            section, entry = line.strip().rstrip(":").lower(), ""
            is_underlined = _is_underline(following)
        elif match := _SPHINX.match(line.strip()):
            section, entry = "sphinx", match[1]
            parameters[entry] = [match[2]]
        elif line.startswith(":"):  # another field of Sphinx, such as `:returns:`
            section, entry = "sphinx", ""
        elif not section:
            description.append(line)
        elif section in _PARAMETER_SECTIONS and not _is_underline(line):
            # A new entry, or a line that continues the last one.
            pattern = _NUMPY_ENTRY if is_underlined else _ENTRY
            depth = len(line) - len(line.lstrip())
            # The entries of NumPy's style are not indented. Deeper lines continue an entry.
            max_depth = 0 if is_underlined else 4
            match = pattern.match(line.strip())
            if match and line.strip() and depth <= max_depth:
                entry = match[1]
                parameters[entry] = [] if is_underlined else [match[2]]
            elif entry:
                parameters[entry].append(line.strip())
        elif section == "sphinx" and entry:
            parameters[entry].append(line.strip())
    joined = {name: " ".join(filter(None, texts)) for name, texts in parameters.items()}
    return Docstring("\n".join(description).strip(), joined)


def _is_heading(line: str, following: str) -> bool:
    """Return whether a line with the name of a section begins it: it ends with a colon, or the next
    line underlines it."""
    return line.rstrip().endswith(":") or _is_underline(following)


def _is_underline(line: str) -> bool:
    return len(line.strip()) >= 3 and set(line.strip()) == {"-"}
