"""Descriptions from a docstring: of a function, and of each parameter.

Three styles are read: an `Args:` section with indented lines, Sphinx's `:param name:`, and a
`Parameters` section underlined with dashes. What comes before the first section describes the
function.
"""

import inspect
import re
from typing import NamedTuple

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
    """What a docstring says."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Return the description, and the description of each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    section, entry, is_underlined = "", "", False
    for position, line in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if not line.startswith(" ") and _SECTION.match(line) and _opens(line, following):
            section, entry = line.strip().rstrip(":").lower(), ""
            is_underlined = _is_rule(following)
        elif match := _SPHINX.match(line.strip()):
            section, entry = "sphinx", match[1]
            parameters[entry] = [match[2]]
        elif line.startswith(":"):
            section, entry = "sphinx", ""
        elif not section:
            description.append(line)
        elif section in _PARAMETER_SECTIONS and not _is_rule(line):
            pattern = _NUMPY_ENTRY if is_underlined else _ENTRY
            depth = len(line) - len(line.lstrip())
            match = pattern.match(line.strip())
            if match and line.strip() and depth <= (0 if is_underlined else 4):
                entry = match[1]
                parameters[entry] = [] if is_underlined else [match[2]]
            elif entry:
                parameters[entry].append(line.strip())
        elif section == "sphinx" and entry:
            parameters[entry].append(line.strip())
    known = {name: " ".join(filter(None, words)) for name, words in parameters.items()}
    return Docstring("\n".join(description).strip(), known)


def _opens(line: str, following: str) -> bool:
    return line.rstrip().endswith(":") or _is_rule(following)


def _is_rule(line: str) -> bool:
    return len(line.strip()) >= 3 and set(line.strip()) == {"-"}
