"""What we would say of our own accord while a child waits for our answer to its own question.

Many children are one plain loop: having asked, they take the next message for the answer. So for
dialects that want it (the trait `answers_first`) notices, asides and further calls are kept back
from the moment a question is taken in until it was answered, and then go out in the order in which
they arose. Calls wait at the desk, within their own time. Which answers count, `inbound` says.
"""

from collections.abc import Callable

from exthost.session.desk import Desk


class Holding:
    """What is kept back for one child."""

    __slots__ = ("_desk", "_kept")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._kept: list[Callable[[], object]] | None = None

    def begin(self) -> None:
        """From now on."""
        self._kept = []
        self._desk.hold()

    def end(self) -> None:
        """It heard its answer, or nobody is left to hear it."""
        kept, self._kept = self._kept or [], None
        for say in kept:
            say()
        self._desk.release()

    def keeps(self, say: Callable[[], object]) -> bool:
        """Whether this is said later, and not now."""
        if self._kept is None:
            return False
        self._kept.append(say)
        return True
