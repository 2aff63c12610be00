"""The two pipes to the first process of a namespace, which is ours (`sandbox/init.c`).

What we write are signals for the program's process group; that our end is closed, by us or by our
own death, means the end of everything in there. What we read is how the program ended, exactly:
the wrapper between us can only pass on a number.

Knows the words that make a wrapper start our init; knows nothing of why a program is wrapped.
"""

import errno
import os
import platform
import signal
import struct
import time
from collections.abc import Mapping, Sequence

from exthost.model import LaunchPlan, ResourceLimit, Wrapper
from exthost.process.environment import Variables
from exthost.process.exits import ExitStatus
from exthost.sandbox.limits import CPU, FILE_SIZE

__all__ = ["Leash", "check_program", "children_of", "descendants", "file_of", "kill_children"]

_GONE = -1

# A fork bomb grows while it is counted; this is more than any ceiling, and ends the count.
_MOST_COUNTED = 10_000

# The number of the system call, on each machine that there is an init for; and its one flag.
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_MFD_CLOEXEC = 1

# Variables by which the loader and the C library load code, write files or read others than usual:
# what they ignore in a set-user-ID program. By their beginnings.
_LOADER_VARIABLES = (
    *("LD_", "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH", "MALLOC_"),
    *("HOSTALIASES", "LOCALDOMAIN", "RESOLV_HOST_CONF", "RES_OPTIONS", "NIS_PATH", "TZDIR"),
)

# How long a cut leash may take to end what is inside: milliseconds, unless the wrapper hangs.
CUT_SECONDS = 0.5


class Leash:
    """Our ends of the two pipes, and, until the spawn is over, what the child inherits."""

    __slots__ = ("_control", "_cut_at", "_inherited", "_limits", "_status", "_words", "env")

    def __init__(
        self, wrapper: Wrapper, stdin: int, stdout: int, env: Mapping[str, str], group: int = 0
    ) -> None:
        """`env` are the variables of the program; `self.env` those of the wrapper."""
        self.env = env
        self._cut_at = 0.0
        self._limits = wrapper.limits
        self._inherited: list[int] = []
        self._control = self._status = _GONE
        try:
            control, self._control = os.pipe()
            self._inherited.append(control)
            self._status, status = os.pipe()
            os.set_blocking(self._status, False)
            self._inherited.append(status)
            init = file_of("exthost-init", wrapper.init)
            self._inherited.append(init)
            options = wrapper.options
            if options:
                self.env, loader_variables = _split(env)
                for name, value in loader_variables.items():
                    options = (*options, "--setenv", name, value)
            if wrapper.filter:
                rules = file_of("exthost-filter", wrapper.filter)
                self._inherited.append(rules)
                options = (*options, "--seccomp", str(rules))
        except BaseException:
            self.spawned()
            self.close()
            raise
        makes = not options  # nobody else makes a namespace
        numbers = (control, status, stdin, stdout, int("PWD" in env), int(makes), group)
        limits = (number for limit in wrapper.limits for number in limit)
        settings = ",".join(str(number) for number in (*numbers, *limits))
        start = (f"/proc/self/fd/{init}", settings)
        self._words = start if makes else (*options, "--", *start)

    @property
    def words(self) -> tuple[str, ...]:
        """What stands before the program and its words."""
        return self._words

    @property
    def inherited(self) -> tuple[int, ...]:
        """What the wrapper must be given besides stdin, stdout and stderr."""
        return tuple(self._inherited)

    def spawned(self) -> None:
        """What was inherited is the child's now; begun or not, it is not ours."""
        for fd in self._inherited:
            os.close(fd)
        self._inherited.clear()

    @property
    def held(self) -> list[int]:
        """The descriptors that we hold of it."""
        return [fd for fd in (self._control, self._status) if fd != _GONE]

    def send(self, number: int) -> None:
        """A signal to the program's process group."""
        if self._control != _GONE:
            try:
                os.write(self._control, bytes((number,)))
            except OSError:
                pass  # it has ended

    def cut(self) -> bool:
        """End everything inside. False if that was done some time ago, and so was not enough."""
        if self._control == _GONE:
            return time.monotonic() - self._cut_at < CUT_SECONDS
        os.close(self._control)
        self._control = _GONE
        self._cut_at = time.monotonic()
        return True

    def read(self, wrapper: ExitStatus) -> ExitStatus:
        """How the program ended, where the wrapper ended like this."""
        try:
            told = os.read(self._status, 64)
        except OSError:
            told = b""
        words = struct.unpack(f"={len(told) // 4}i", told[: len(told) // 4 * 4])
        if words and words[0] < 0:
            return ExitStatus(None, None, f"{os.strerror(-words[0])} ({_name(-words[0])})")
        if words and os.WIFSIGNALED(words[0]):
            used = words[1] / 1000 if len(words) > 1 else 0.0
            number = os.WTERMSIG(words[0])
            return ExitStatus(None, number, why=_exceeded(number, used, self._limits))
        if words:
            return ExitStatus(os.WEXITSTATUS(words[0]), None)
        if self._control == _GONE or wrapper.code is None:
            return ExitStatus(None, wrapper.signal or signal.SIGKILL)
        if wrapper.code > 128:  # our init was killed from outside
            return ExitStatus(None, wrapper.code - 128)
        return ExitStatus(None, None, f"what was to hold it failed and {wrapper}")

    def close(self) -> None:
        self.cut()
        if self._status != _GONE:
            os.close(self._status)
            self._status = _GONE


def _split(env: Mapping[str, str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the variables that a wrapper may be started with, and those that it sets for the
    program instead. The wrapper is loaded outside of what it makes, as the host's user: a variable
    that names code to load would run that code there."""
    loader = {name: env[name] for name in env if name.startswith(_LOADER_VARIABLES)}
    if not loader:
        return env, loader
    return Variables({name: env[name] for name in env if name not in loader}), loader


def _exceeded(number: int, cpu_seconds: float, limits: Sequence[ResourceLimit]) -> str:
    """Which limit a signal is the kernel's answer to; "" if to none."""
    for limit in limits:
        if limit.resource == CPU and (
            number == signal.SIGXCPU or (number == signal.SIGKILL and cpu_seconds >= limit.soft)
        ):
            return f"it used up its processor time (limits.cpu is {limit.soft} s)"
        if limit.resource == FILE_SIZE and number == signal.SIGXFSZ:
            return f"it wrote a file of more than {limit.soft} bytes (limits.fsize)"
    return ""


def check_program(plan: LaunchPlan) -> None:
    """Raise what executing the program would raise: it is executed where we cannot see it fail."""
    program = plan.argv[0]
    if "/" not in program:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if plan.cwd is not None and not os.path.isdir(plan.cwd):  # noqa: PTH112 - on every start
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), plan.cwd)
    _check(program)
    try:
        with open(program, "rb", buffering=0) as file:  # noqa: PTH123 - on every start
            head = file.read(256)
    except OSError:
        return  # executable and unreadable is not against any rule
    if head.startswith(b"#!"):
        # As the system reads it: a carriage return before the line's end is part of the name.
        interpreter = head[2:].split(b"\n", 1)[0].replace(b"\t", b" ").strip(b" ").split(b" ")[0]
        if interpreter:
            _check(os.fsdecode(interpreter))
    elif b"\0" not in head:  # no machine's code, so only a shell would make something of it
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), program)


def _check(program: str) -> None:
    os.stat(program)  # noqa: PTH116 - raises for what is not there
    if not os.path.isfile(program) or not os.access(program, os.X_OK):  # noqa: PTH113
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)


def children_of(pid: int) -> list[int]:
    """The children of a process, whichever of its threads started them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - many times a second
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    except OSError:  # it is gone, or the kernel does not tell
        pass
    return found


def descendants(*pids: int) -> list[int]:
    """These processes, and all that they started."""
    ahead, found = [*pids], list[int]()
    while ahead and len(found) < _MOST_COUNTED:
        found.append(ahead.pop())
        ahead += children_of(found[-1])
    return found


def kill_children(pid: int) -> None:
    """SIGKILL to the children of a process that is ours and not reaped."""
    for child in children_of(pid):
        try:
            fd = os.pidfd_open(child)
        except AttributeError:  # this Python has none: the pid was read an instant ago
            _kill(child)
            continue
        except OSError:
            continue
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except OSError:
            pass
        finally:
            os.close(fd)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def file_of(name: str, data: bytes) -> int:
    """A file without a place on any disk, read from its beginning."""
    fd = _memory_file(name)
    try:
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _memory_file(name: str) -> int:
    """Create a memory file. A Python that was built against glibc before 2.27 lacks
    `os.memfd_create`, although the kernel has the system call: then it is called by its number.

    Not a temporary file instead: it may lie on a file system without exec rights, and cannot be
    executed while another thread's fork still holds it open for writing."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    number = _MEMFD_CREATE.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, "this Python has no os.memfd_create")
    import ctypes  # only here: it takes as long to import as a program takes to start

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(ctypes.c_long(number), name.encode(), ctypes.c_uint(_MFD_CLOEXEC)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"memfd_create: {os.strerror(ctypes.get_errno())}")
    return fd


def _name(number: int) -> str:
    return errno.errorcode.get(number, str(number))
