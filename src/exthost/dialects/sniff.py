"""Recognises dialects by the first bytes of a process's output.

If a handshake fails because the extension speaks another dialect, the error can name that dialect.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from exthost.dialects.find import iter_packages
from exthost.dialects.package import FirstBytes
from exthost.wire.framing import Framing


class Sniffed(NamedTuple):
    """The recognised framing: its class, its name for an error (`form`), and its dialects."""

    framing: Callable[[int], Framing]
    form: str
    dialects: tuple[str, ...]


def sniff(first: bytes) -> Sniffed | None:
    """Return the framing of output with these first bytes; None if no dialect recognises them."""
    matching = [
        (pattern, name) for pattern, name in _load_patterns(tuple(sys.path)) if pattern.match(first)
    ]
    if not matching:
        return None
    # Several dialects may use one framing. The first match decides which framing it is.
    framing, form = matching[0][0].framing, matching[0][0].form
    return Sniffed(
        framing, form, tuple(name for pattern, name in matching if pattern.framing is framing)
    )


# Cached, because many handshakes may fail at once, and finding the packages is slow.
@lru_cache(maxsize=2)
def _load_patterns(search_path: tuple[str, ...]) -> tuple[tuple[FirstBytes, str], ...]:
    """Return the first bytes of each dialect, with its name. The function does not use
    `search_path`, which is `sys.path`: it is the key of the cache, because a new folder in it may
    have further dialects."""
    return tuple(
        (package.first_bytes, package.name)
        for package in iter_packages()
        if package.first_bytes is not None
    )
