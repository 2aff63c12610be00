"""Takes pipes and connections away from a forked copy of the host.

After `os.fork` both processes have the same file descriptors. A reply would go to whichever process
reads first, and the other end of a pipe would not see that the original has closed its own. So
objects that own descriptors register here, and are told in the copy to release them.
"""

import os
import weakref
from collections.abc import Iterable
from typing import Protocol

__all__ = ["disown_in_copies", "replace_by_null"]


class Disownable(Protocol):
    """An object that only the process that made it may use."""

    def disown(self) -> None: ...


# A WeakSet would take three times the memory. Dead references are removed when the list has
# doubled.
_known: "list[weakref.ref[Disownable]]" = []
_LEAST_ENTRIES = 64
_sweep_at = _LEAST_ENTRIES


def disown_in_copies(owned: Disownable) -> None:
    """Call `owned.disown()` in each process that is forked from this one."""
    global _sweep_at
    if len(_known) >= _sweep_at:
        _known[:] = [reference for reference in _known if reference() is not None]
        _sweep_at = max(_LEAST_ENTRIES, 2 * len(_known))
    _known.append(weakref.ref(owned))


def replace_by_null(fds: Iterable[int]) -> None:
    """Replace descriptors by /dev/null; negative ones are skipped. They are not closed, since a
    copied event loop knows them by number."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        if fd >= 0:
            os.dup2(null, fd, inheritable=False)
    os.close(null)


def _disown_all() -> None:
    for reference in tuple(_known):
        owned = reference()
        if owned is not None:
            owned.disown()


os.register_at_fork(after_in_child=_disown_all)
