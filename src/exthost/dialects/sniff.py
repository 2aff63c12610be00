"""What a child's first bytes look like, to tell a user that the wrong dialect was chosen."""

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from exthost.dialects.find import iter_packages
from exthost.dialects.package import FirstBytes
from exthost.wire.framing import Framing


class Sniffed(NamedTuple):
    """The framing of some bytes, what to call it, and the dialects that have it."""

    framing: Callable[[int], Framing]
    form: str
    dialects: tuple[str, ...]


def sniff(first: bytes) -> Sniffed | None:
    """Return what these bytes look like, or None if no dialect recognises them."""
    matching = [
        (pattern, name) for pattern, name in _known(tuple(sys.path)) if pattern.match(first)
    ]
    if not matching:
        return None
    framing, form = matching[0][0].framing, matching[0][0].form
    return Sniffed(
        framing, form, tuple(name for pattern, name in matching if pattern.framing is framing)
    )


@lru_cache(maxsize=2)  # many handshakes may fail at once, and looking for packages takes long
def _known(_: tuple[str, ...]) -> tuple[tuple[FirstBytes, str], ...]:
    """Return what the first bytes of each dialect look like, for these folders of packages."""
    return tuple(
        (package.first_bytes, package.name)
        for package in iter_packages()
        if package.first_bytes is not None
    )
