"""If a cluster has no room for one more process, a restart ends an old process first.

A restart of a pool normally starts a new process before it ends an old one, so that the extension
always serves calls. `Processes.make_room` is called when the cluster finds no place for the new
process. It must not end the only process, which still serves calls.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.extension.processes import Processes


def make_room(*, workers: int, outdated: int, has_session: bool) -> tuple[bool, list[str]]:
    """Return whether the start has made room, and the processes that were dismissed for it.

    `outdated` of the `workers` are to be replaced. `has_session`: the new process runs already.
    """
    dismissed: list[str] = []
    processes: Any = SimpleNamespace(
        workers=dict.fromkeys(range(workers)),
        outdated=[f"old {number}" for number in range(outdated)],
        dismiss=dismissed.append,
    )
    start: Any = SimpleNamespace(session=object() if has_session else None, has_made_room=False)
    Processes.make_room(processes, start)
    return start.has_made_room, dismissed


def test_the_first_old_process_ends_before_the_new_one_starts() -> None:
    assert make_room(workers=2, outdated=2, has_session=False) == (True, ["old 0"])


@pytest.mark.parametrize(
    ("workers", "outdated", "has_session"),
    [(1, 1, False), (2, 0, False), (2, 2, True)],
    ids=["it is the only one", "none is replaced", "the new one has its place already"],
)
def test_no_process_ends_if_that_would_not_help(
    workers: int, outdated: int, has_session: bool
) -> None:
    made_room = make_room(workers=workers, outdated=outdated, has_session=has_session)
    assert made_room == (False, [])
