"""Builds the wrapper for `lifetime = "tree"`: a PID namespace, and no other restriction.

When the first process of a PID namespace ends, the kernel kills every other process in it; no
process can prevent that. Our init (`init.c`) makes the namespace and is its first process. It exits
when the program exits, or when the host's end of the control pipe is closed, which also happens if
the host gets SIGKILL. So no process of the extension outlives the host.

As a rule our init makes the namespace itself, since starting another program would double the time
of a start. But some systems allow only certain programs to make namespaces, and bubblewrap may be
one of them. Then bubblewrap makes the namespace and starts our init in it.

Files, network, variables and uid are those of the host. The program sees only the pids of its
namespace, and set-user-ID programs give it no rights (docs/security.md).
"""

from exthost.launch_plan import LaunchPlan, ResourceLimit, Wrapper
from exthost.sandbox.initcode import INIT

__all__ = ["ENFORCED", "plan_probe", "plan_wrapper"]

# The value of `enforced["pids"]`.
ENFORCED = "pidns"

_OPTIONS = (
    *("--unshare-pid", "--as-pid-1"),
    *("--dev-bind", "/", "/", "--proc", "/proc"),
)


def plan_wrapper(machine: str, bwrap: str = "", limits: tuple[ResourceLimit, ...] = ()) -> Wrapper:
    """Return the wrapper for a machine of this architecture. If `bwrap` is the path of bubblewrap,
    that makes the namespace; if it is "", our init does. `limits` apply to each process."""
    return Wrapper(options=(bwrap, *_OPTIONS) if bwrap else (), init=INIT[machine], limits=limits)


def plan_probe(machine: str, bwrap: str = "") -> LaunchPlan:
    """Return a plan that runs /bin/true in a PID namespace, to find out whether it works."""
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=plan_wrapper(machine, bwrap))
