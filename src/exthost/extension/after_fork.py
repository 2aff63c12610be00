"""After a fork, the child process must not use the extensions of its parent.

The two would share the pipes, and replies would go to whichever process reads first.
"""

import os
import weakref
from typing import Protocol


class Disownable(Protocol):
    """An object that only the process that made it may use."""

    def disown(self) -> None: ...


_known: "weakref.WeakSet[Disownable]" = weakref.WeakSet()


def disown_in_copies(owned: Disownable) -> None:
    """Call `owned.disown()` in each process that is forked from this one."""
    _known.add(owned)


def _disown_all() -> None:
    for owned in tuple(_known):
        owned.disown()


os.register_at_fork(after_in_child=_disown_all)
