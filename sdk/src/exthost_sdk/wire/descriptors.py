"""Moves the connection to the host (the wire) to separate file descriptors.

The host talks to the extension over descriptors 0 and 1, which every library and every child
process uses as well. `claim` moves the wire to two new descriptors that children do not inherit,
redirects descriptor 1 to stderr and descriptor 0 to /dev/null. From then on `print`, C's `printf`
and the output of children end up in the host's log, and only the SDK reads the host's requests.

Output that was flushed before `claim` cannot be taken back.
"""

import fcntl
import os
import stat
import sys
from typing import NamedTuple


class Wire(NamedTuple):
    """The two descriptors that lead to the host."""

    reader: int
    writer: int


_claimed: Wire | None = None
_is_closed = False  # true in a forked copy of the extension, which has closed the wire


def claim() -> Wire:
    """Move the wire away from descriptors 0 and 1, and return the new descriptors. A second call
    returns the same ones."""
    global _claimed
    if _claimed is not None:
        return _claimed
    # Number 2 is not used, even if it is free because the program was started without stderr: what
    # the program writes to stderr must not reach the host as a message.
    reader, writer = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    wire = Wire(reader, writer)
    # sys.stdout is not flushed first: buffered output must go to stderr as well.
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    if empty != 2:  # otherwise the program was started without stderr, and gets this one
        os.close(empty)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # like stderr: whole lines are logged
    _claimed = wire
    os.register_at_fork(after_in_child=_close_after_fork)
    return wire


def claim_early() -> None:
    """Claim the wire if a host seems to have started the program: if descriptors 0 and 1 are pipes
    or sockets."""
    try:
        modes = [os.fstat(fd).st_mode for fd in (0, 1)]
    except OSError:
        return
    if all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes):
        claim()


def _close_after_fork() -> None:
    """Close the wire in a process that `os.fork` has made. Otherwise that process would keep the
    wire open, and the host would not notice that the extension has ended. A copy of that process
    closes nothing: the numbers may be those of other files by then."""
    global _is_closed
    if _claimed is None or _is_closed:
        return
    _is_closed = True
    for fd in _claimed:
        try:
            os.close(fd)
        except OSError:
            pass
