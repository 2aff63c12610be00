"""After a fork, the copy of our process must not use the extensions of the original.

The pipes would be shared, and replies would go to whichever process reads first.
"""

import os
import weakref
from typing import Protocol


class Disownable(Protocol):
    """What belongs to the process that made it."""

    def disown(self) -> None: ...


_known: "weakref.WeakSet[Disownable]" = weakref.WeakSet()


def disown_in_copies(owned: Disownable) -> None:
    """Have `owned.disown()` called in each copy that a fork makes of this process."""
    _known.add(owned)


def _disown_all() -> None:
    for owned in tuple(_known):
        owned.disown()


os.register_at_fork(after_in_child=_disown_all)
