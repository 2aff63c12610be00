"""Creates files that exist only in memory and have no path (memfd).

Our init (`sandbox/init.c`) is executed from such a file, and seccomp filters and lists of paths are
passed to sandboxes in them.
"""

import errno
import os

# The number of the system call memfd_create on each architecture for which there is an init, and
# its close-on-exec flag.
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_MFD_CLOEXEC = 1


def memory_file(name: str, data: bytes) -> int:
    """Return a file descriptor of a new file in memory with this content, positioned at its
    start."""
    fd = _create(name)
    try:
        while data:  # a limit of file sizes makes the first write short, and the next one fail
            data = data[os.write(fd, data) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _create(name: str) -> int:
    """Create an empty file in memory. A Python that was built with a glibc before 2.27 lacks
    `os.memfd_create`, even if the kernel has the system call; then the call is made by its number.

    A temporary file on disk cannot replace it: its file system may be mounted noexec, and a file
    cannot be executed while a process that another thread forked still has it open for writing."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    number = _MEMFD_CREATE.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "this Python has no os.memfd_create")
    import ctypes  # imported lazily: the import takes as long as the start of a program

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(ctypes.c_long(number), name.encode(), ctypes.c_uint(_MFD_CLOEXEC)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"memfd_create: {os.strerror(ctypes.get_errno())}")
    return fd
