"""What the host reports about how each limit of an extension is enforced.

    rlimit    the kernel, for each process
    cgroup    the kernel, for all processes of the extension together
    watchdog  a thread of the host that measures all processes together
    open      nothing

`Limits` are those of each process, and a `Ceiling` has those of all processes together.
"""

import pytest

from exthost.launch.containment import _enforced_limits
from exthost.model.launch_plan import Ceiling, Cgroup
from exthost.model.spec import Limits

CGROUP = Cgroup(base="/sys/fs/cgroup", settings=(("memory.max", "1"), ("pids.max", "1")))


@pytest.mark.parametrize(
    ("limits", "total", "cgroup", "enforced"),
    [
        (Limits(), Ceiling(), None, {"memory": "open"}),
        (Limits(nofile=9), Ceiling(), None, {"memory": "open", "nofile": "rlimit"}),
        (Limits(fsize=9), Ceiling(), None, {"memory": "open", "fsize": "rlimit"}),
        (Limits(nproc=9), Ceiling(), None, {"memory": "open", "processes": "rlimit"}),
        (Limits(), Ceiling(memory=9), None, {"memory": "watchdog"}),
        (Limits(), Ceiling(memory=9), CGROUP, {"memory": "cgroup"}),
        (Limits(), Ceiling(cpu=9), None, {"memory": "open", "cpu": "watchdog+rlimit"}),
        (Limits(), Ceiling(processes=9), None, {"memory": "open", "processes": "watchdog"}),
        (
            Limits(nproc=9),
            Ceiling(processes=9),
            None,
            {"memory": "open", "processes": "watchdog+rlimit"},
        ),
        (
            Limits(nproc=9),
            Ceiling(processes=9),
            CGROUP,
            {"memory": "open", "processes": "watchdog+cgroup"},
        ),
    ],
)
def test_each_limit_is_reported_with_its_enforcement(
    limits: Limits, total: Ceiling, cgroup: Cgroup | None, enforced: dict[str, str]
) -> None:
    assert _enforced_limits(limits, total, cgroup) == enforced
