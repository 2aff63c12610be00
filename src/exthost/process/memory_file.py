"""Files in memory, without a path: the code of our init, and seccomp filters for bubblewrap."""

import errno
import os

__all__ = ["memory_file"]

# The number of the system call on each machine that has an init, and its flag.
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_MFD_CLOEXEC = 1


def memory_file(name: str, data: bytes) -> int:
    """Return a descriptor of a new file with this content, at its beginning."""
    fd = _create(name)
    try:
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _create(name: str) -> int:
    """Create a memory file. A Python that was built against glibc before 2.27 lacks
    `os.memfd_create`, although the kernel has the system call: then it is called by its number.

    A temporary file would not do: its file system may be mounted noexec, and a file cannot be
    executed while another thread's fork still has it open for writing."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    number = _MEMFD_CREATE.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "this Python has no os.memfd_create")
    import ctypes  # only here: its import takes as long as a program takes to start

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(ctypes.c_long(number), name.encode(), ctypes.c_uint(_MFD_CLOEXEC)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"memfd_create: {os.strerror(ctypes.get_errno())}")
    return fd
