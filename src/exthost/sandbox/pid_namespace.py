"""Builds the wrapper for `lifetime = "tree"`: a PID namespace, and no other restriction.

When the first process of a PID namespace ends, the kernel kills every other process in it; no
process can prevent that. Our init (`init.c`) makes the namespace and is its first process. It exits
when the program exits, or when the host's end of the control pipe is closed, which also happens if
the host gets SIGKILL. So no process of the extension outlives the host.

Usually our init makes the namespace itself, since starting another program would double the time
of a start. But some systems allow only certain programs, such as bubblewrap, to make namespaces. On
these, bubblewrap makes the namespace and starts our init in it.

The program has the host's files, network, environment variables and uid. It sees only the pids of
its namespace, and gains no rights by executing a set-user-ID program (docs/security.md).
"""

from exthost.launch_plan import LaunchPlan, ResourceLimit, Wrapper
from exthost.sandbox.initcode import INIT

__all__ = ["ENFORCED", "plan_probe", "plan_wrapper"]

# The value of `enforced["pids"]`, in which users see how processes are kept together.
ENFORCED = "pidns"

_OPTIONS = (
    *("--unshare-pid", "--as-pid-1"),
    *("--dev-bind", "/", "/", "--proc", "/proc"),
)


def plan_wrapper(machine: str, bwrap: str = "", limits: tuple[ResourceLimit, ...] = ()) -> Wrapper:
    """Return the wrapper (what is executed around a program). `machine` is the architecture, as
    `uname -m` prints it. `bwrap` is the path of bubblewrap, which then makes the namespace; if it
    is "", our init makes it. `limits` apply to each process."""
    return Wrapper(options=(bwrap, *_OPTIONS) if bwrap else (), init=INIT[machine], limits=limits)


def plan_probe(machine: str, bwrap: str = "") -> LaunchPlan:
    """Return a plan that runs /bin/true in a PID namespace, to find out whether it works."""
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=plan_wrapper(machine, bwrap))
