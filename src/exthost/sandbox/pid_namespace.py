"""The launch plan for `lifetime = "tree"`: a PID namespace, and no other restriction.

When the first process of a PID namespace ends, the kernel kills every other process in it, whatever
they ignore. Our init (`init.c`) makes the namespace and is its first process. It exits when the
program does, or when the host's end of the control pipe is closed. So no process survives, even if
the host gets SIGKILL.

This needs no other program, and starting one would take as long as the rest of the start. But some
systems allow namespaces only to certain programs, and bubblewrap may be one of them.

Files, network, variables and uid stay the same. docs/security.md lists the differences: the program
sees only the pids of its namespace, and gains no rights from set-user-ID programs.
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
    """Return the wrapper for a machine of this architecture. With `bwrap`, bubblewrap makes the
    namespace instead of our init."""
    return Wrapper(options=(bwrap, *_OPTIONS) if bwrap else (), init=INIT[machine], limits=limits)


def plan_probe(machine: str, bwrap: str = "") -> LaunchPlan:
    """Return a plan that runs /bin/true in such a namespace."""
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=plan_wrapper(machine, bwrap))
