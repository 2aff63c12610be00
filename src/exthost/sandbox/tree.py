"""The plan for `lifetime = "tree"`: a PID namespace, and nothing else is taken from the program.

The kernel ends every process of a PID namespace when its first process ends, however far it ran,
whatever it ignores. Our init is that first process, and ends when the program does or when the
host's end of a pipe is gone (`init.c`): nothing is left, even if the host gets SIGKILL. A second
line is the wrapper's own, which asks the kernel to be killed when its parent is.

Files, network, variables and the uid stay as they are. What differs is said in docs/security.md:
the program sees the pids of its namespace only, and cannot gain rights by setuid programs.
"""

from exthost.model import LaunchPlan, ResourceLimit, Wrapper
from exthost.sandbox.initcode import INIT
from exthost.sandbox.means import Tools

__all__ = ["HELD", "wrapped"]

# What holds it then, as data.
HELD = "pidns"


def wrapped(tools: Tools, limits: tuple[ResourceLimit, ...] = ()) -> Wrapper:
    """The wrapper, the same for every program."""
    return Wrapper(options=_options(tools.bwrap), init=INIT[tools.machine], limits=limits)


def probe(tools: Tools) -> LaunchPlan:
    """A program that ends at once, held in the same way."""
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=wrapped(tools))


def _options(bwrap: str) -> tuple[str, ...]:
    return (
        bwrap,
        "--unshare-pid",
        "--as-pid-1",
        "--die-with-parent",
        "--dev-bind",
        "/",
        "/",
        "--proc",
        "/proc",
    )
