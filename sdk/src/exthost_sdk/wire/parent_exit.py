"""Detects the exit of the parent process.

An extension must end when its host, which is its parent process, has ended. End of input shows that
the host has ended, unless another process has inherited the other end of the pipe and keeps it
open. So a thread also waits for the exit of the parent. On a system without pidfds it polls the
parent's pid. If the parent is outside of the PID namespace of this process, as in a sandbox,
nothing is watched.
"""

import os
import select
import threading
import time
from collections.abc import Callable

_POLL_SECONDS = 1.0


def watch_parent(on_end: Callable[[], None]) -> None:
    """Call a function, in a separate thread, when the parent process has ended."""
    parent = os.getppid()
    # 0: the parent is outside of the PID namespace. 1: the parent is init, which also adopts the
    # processes whose parent has ended.
    if parent <= 1:
        return
    thread = threading.Thread(
        target=_wait_for_end, args=(parent, on_end), name="exthost-parent", daemon=True
    )
    thread.start()


def _wait_for_end(parent: int, on_end: Callable[[], None]) -> None:
    """Wait until this process has another parent, and call `on_end`."""
    try:
        fd = os.pidfd_open(parent)
    except (AttributeError, OSError):
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
    else:
        if os.getppid() == parent:  # otherwise the pid may belong to another process by now
            poll = select.poll()  # select.select would take no descriptor above 1023
            poll.register(fd, select.POLLIN)
            poll.poll()
        os.close(fd)
    on_end()
