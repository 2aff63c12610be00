"""After a fork, the child process must not use the extensions of its parent.

The two would share the pipes, and replies would go to whichever process reads first.
"""

import os
import weakref
from typing import Protocol

__all__ = ["disown_in_copies"]


class Disownable(Protocol):
    """An object that only the process that made it may use."""

    def disown(self) -> None: ...


# Not a WeakSet, which takes three times the memory. Dead references are removed from time to time.
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


def _disown_all() -> None:
    for reference in tuple(_known):
        owned = reference()
        if owned is not None:
            owned.disown()


os.register_at_fork(after_in_child=_disown_all)
