"""Waiting for a session to have nothing under way, when it gets no more calls.

For a process that is to be replaced or let go: what it was asked it may answer, each call within
its own limits, each stream to its end. Costs a session nothing until then: its tables are swapped
for ones that tell when they are empty.
"""

from typing import TYPE_CHECKING

from exthost.session.bell import Bell

if TYPE_CHECKING:
    from exthost.session.session import Session


def is_quiet(session: "Session") -> bool:
    """Whether no call of a user's and no stream is under way on it."""
    asked = any(not call.aside for call in list(session.pending.values()))
    return not asked and not session.state.streams()


async def quiet(session: "Session") -> None:
    """Return when it is quiet, or over. Its desk must send it nothing more."""
    bell = Bell(session.desk.loop)
    with session.lock:  # other threads put their calls into these tables
        session.state.watch(bell.set)
        session.pending = session.state.pending
    session.ended.add_done_callback(lambda _: bell.set())
    # An operation of several exchanges has nothing pending between two of them, for a moment
    # within one step: whoever wakes here comes after that step.
    while not (session.ended.done() or is_quiet(session)):
        bell.clear()
        await bell.wait()
