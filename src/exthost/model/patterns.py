"""Patterns of names and texts, as the config has them: `*` matches any text, `?` one character.

Every other character stands for itself, and case matters: `get_*` fits `get_user`, and not
`Get_user` or `forget_user`. A pattern is compiled once. Matching never goes back over text that a
`*` has passed, so no pattern takes long.
"""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache
from typing import TypeAlias

Matches: TypeAlias = Callable[[str], object]
"""Returns a true value if a text fits the pattern."""


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Matches:
    """Return a function that returns whether a whole text matches the pattern."""
    if is_exact(pattern):
        return pattern.__eq__
    # `translate` makes an atomic group of each `*`, so that its regular expressions do not
    # backtrack. "[" would begin a set of characters there.
    return re.compile(translate(pattern.replace("[", "[[]"))).match


def is_exact(pattern: str) -> bool:
    """Return whether the pattern fits only itself."""
    return "*" not in pattern and "?" not in pattern


def fits_any(text: str, patterns: Iterable[str]) -> bool:
    """Return whether a text fits one of the patterns."""
    return any(compile_pattern(pattern)(text) for pattern in patterns)
