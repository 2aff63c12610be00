"""Takes pipes and connections away from a forked copy of the host.

After `os.fork` both processes have the same file descriptors. A reply would go to whichever process
reads first, and the other end of a pipe would not see that the original has closed its own. So
objects that own descriptors register here, and `disown` is called on them in the copy, where they
release the descriptors.
"""

import os
import weakref
from collections.abc import Iterable
from typing import Protocol


class Disownable(Protocol):
    """An object that may be used only in the process that created it."""

    def disown(self) -> None: ...


# A list of weak references takes a third of the memory of a WeakSet. Dead references are removed
# when the list has doubled since the last removal.
_known: "list[weakref.ref[Disownable]]" = []
_LEAST_ENTRIES = 64
_sweep_at = _LEAST_ENTRIES


def disown_after_fork(owned: Disownable) -> None:
    """Call `owned.disown()` in each process that is forked from this one."""
    global _sweep_at
    if len(_known) >= _sweep_at:
        _known[:] = [reference for reference in _known if reference() is not None]
        _sweep_at = max(_LEAST_ENTRIES, 2 * len(_known))
    _known.append(weakref.ref(owned))


def replace_by_null(fds: Iterable[int]) -> None:
    """Replace file descriptors by /dev/null; negative numbers are skipped. The descriptors are not
    closed, since the copied event loop still refers to their numbers."""
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
