"""The plan for `lifetime = "tree"`: a PID namespace, and nothing else is taken from the program.

The kernel ends every process of a PID namespace when its first process ends, however far it ran,
whatever it ignores. Our init (`init.c`) makes the namespace and is that first process. It ends when
the program does or when the host's end of a pipe is gone: nothing is left, even if the host gets
SIGKILL. A second line is that it asks the kernel to be killed when its parent is.

No program of others is needed for this, and starting one would take as long as all the rest. But
where namespaces are forbidden to all programs but some, bubblewrap may be one of those.

Files, network, variables and the uid stay as they are. What differs is said in docs/security.md:
the program sees the pids of its namespace only, and cannot gain rights by setuid programs.
"""

from exthost.model import LaunchPlan, ResourceLimit, Wrapper
from exthost.sandbox.initcode import INIT

__all__ = ["HELD", "wrapped"]

# What holds it then, as data.
HELD = "pidns"


def wrapped(machine: str, bwrap: str = "", limits: tuple[ResourceLimit, ...] = ()) -> Wrapper:
    """The wrapper, the same for every program, on a machine of this kind; with a `bwrap` to make
    the namespace, or without."""
    return Wrapper(options=(bwrap, *_WORDS) if bwrap else (), init=INIT[machine], limits=limits)


def probe(machine: str, bwrap: str = "") -> LaunchPlan:
    """A program that ends at once, held in the same way."""
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=wrapped(machine, bwrap))


_WORDS = (
    *("--unshare-pid", "--as-pid-1", "--die-with-parent"),
    *("--dev-bind", "/", "/", "--proc", "/proc"),
)
