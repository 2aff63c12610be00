"""Builds the wrapper for `lifetime = "tree"`: a PID namespace, and no other restriction.

When the first process of a PID namespace ends, the kernel kills every other process in it; no
process can prevent that. Our init (`init.c`) makes the namespace and is its first process. It exits
when the program exits, or when the host's end of the control pipe is closed, which also happens if
the host gets SIGKILL. So no process of the extension outlives the host.

Usually our init makes the namespace itself, since starting another program would double the time
of a start. But some systems allow only certain programs, such as bubblewrap, to make namespaces. On
these, bubblewrap makes the namespace and starts our init in it.

The program has the host's files, network, environment variables and uid. It sees only the pids of
its namespace, and gains no rights by executing a set-user-ID program (docs/security.md). Its own
pid is the same inside and outside, because programs of several namespaces put files that are named
after their pid into the same folders. If bubblewrap makes the namespace, our init lacks the right
to choose a pid, and the program has the first free one.
"""

from exthost.launch.sandbox.initcode import INIT
from exthost.model.launch_plan import LaunchPlan, ResourceLimit, Wrapper

# The values of `enforced["pid"]`: how the program's own pid is chosen.
SAME_PID, NAMESPACE_PID = "same as outside", "first of its namespace"

_OPTIONS = (
    *("--unshare-pid", "--as-pid-1"),
    *("--dev-bind", "/", "/", "--proc", "/proc"),
)


def plan_wrapper(machine: str, bwrap: str = "", limits: tuple[ResourceLimit, ...] = ()) -> Wrapper:
    """Return the wrapper (what is executed around a program). `machine` is the architecture, as
    `uname -m` prints it. `bwrap` is the path of bubblewrap, which then makes the namespace; if it
    is "", our init makes it. `limits` apply to each process."""
    return Wrapper(options=(bwrap, *_OPTIONS) if bwrap else (), init=INIT[machine], limits=limits)


def describe(*, keeps_pid: bool) -> dict[str, str]:
    """Return what is enforced, as data for users. `keeps_pid` is whether the program has the same
    pid inside and outside."""
    return {"pids": "pidns", "pid": SAME_PID if keeps_pid else NAMESPACE_PID}


def plan_probe(machine: str, bwrap: str = "") -> LaunchPlan:
    """Return a plan that runs /bin/true in a PID namespace, to find out whether it works."""
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=plan_wrapper(machine, bwrap))
