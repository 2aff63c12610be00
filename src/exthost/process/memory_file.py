"""Creates files that exist only in memory and have no path (memfd).

Our init (`sandbox/init.c`) is executed from such a file, and seccomp filters and lists of paths are
passed to sandboxes in them.
"""

import errno
import fcntl
import os

# The number of the system call memfd_create on each architecture for which there is an init, and
# its close-on-exec flag.
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_MFD_CLOEXEC, _MFD_ALLOW_SEALING = 1, 2

# The request to the kernel that seals a file, and the seals: no further seals, and no growth.
_F_ADD_SEALS, _SEALS = 1033, 1 | 4


def memory_file(name: str, data: bytes, size: int = 0) -> int:
    """Return a file descriptor of a new file in memory with this content, positioned at its start.
    With `size`, the file is that long at least, and cannot grow: its memory belongs to no process,
    so no limit would count what a sandboxed process writes to it."""
    fd = _create(name, _MFD_CLOEXEC | (_MFD_ALLOW_SEALING if size else 0))
    try:
        while data:  # a limit of file sizes makes the first write short, and the next one fail
            data = data[os.write(fd, data) :]
        if size:
            os.ftruncate(fd, max(size, os.fstat(fd).st_size))
            fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _create(name: str, flags: int) -> int:
    """Create an empty file in memory. A Python that was built with a glibc before 2.27 lacks
    `os.memfd_create`, even if the kernel has the system call; then the call is made by its number.

    A temporary file on disk cannot replace it: its file system may be mounted noexec, and a file
    cannot be executed while a process that another thread forked still has it open for writing."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, flags)
    number = _MEMFD_CREATE.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "this Python has no os.memfd_create")
    import ctypes  # imported lazily: the import takes as long as the start of a program

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(ctypes.c_long(number), name.encode(), ctypes.c_uint(flags)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"memfd_create: {os.strerror(ctypes.get_errno())}")
    return fd
