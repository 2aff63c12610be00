"""The end of the parent process.

End of input tells that the host has gone, unless another process has inherited the other end of
the pipe and keeps it open. So the parent is watched as well, by a thread that costs nothing while
it waits. Where the system cannot tell a process's end, the thread asks for the parent's id from
time to time; where the parent is outside of our namespace, there is nothing to watch.
"""

import os
import select
import threading
import time
from collections.abc import Callable

_ASK_SECONDS = 1.0


def watch_parent(on_end: Callable[[], None]) -> None:
    """Call a function, in a thread of its own, when the parent process has ended."""
    parent = os.getppid()
    if parent <= 1:
        return
    thread = threading.Thread(
        target=_wait_for_end, args=(parent, on_end), name="exthost-parent", daemon=True
    )
    thread.start()


def _wait_for_end(parent: int, on_end: Callable[[], None]) -> None:
    try:
        fd = os.pidfd_open(parent)
    except (AttributeError, OSError):
        while os.getppid() == parent:
            time.sleep(_ASK_SECONDS)
    else:
        if os.getppid() == parent:  # its number was not given to another process meanwhile
            select.select([fd], [], [])
        os.close(fd)
    on_end()
