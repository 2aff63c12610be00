"""The two pipes to the first process of a namespace: "our init", a program of the host
(`launch/sandbox/init.c`).

The host writes signal numbers to the control pipe, and init sends these signals to the process
group of the program. When the host closes its end, or dies, init ends every process in the
namespace.

Init writes to the status pipe how the program ended. The host cannot learn that from the wrapper
(the process between host and init), which can only pass on an exit code, not the number of a
signal.

This module also builds the command line with which a wrapper starts our init.
"""

import errno
import os
import signal
import struct
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.launch_plan import ExpectedPath, ResourceLimit, Wrapper
from exthost.process.environment import Variables
from exthost.process.exit_status import ExitStatus
from exthost.process.memory_file import memory_file
from exthost.process.procfs import max_pid
from exthost.process.resource_limits import CPU, FILE_SIZE

# The value of a descriptor that is closed.
_CLOSED = -1

# The environment variables that make the dynamic loader and the C library load code, or read and
# write files. The C library ignores them in set-user-ID programs. The names are exact: others with
# the same beginning may be those of secrets (LD_SDK_KEY), which must not be on a command line.
_LOADER_VARIABLES = frozenset(
    (
        *("LD_ASSUME_KERNEL", "LD_AUDIT", "LD_BIND_NOT", "LD_BIND_NOW", "LD_DEBUG"),
        *("LD_DEBUG_OUTPUT", "LD_DYNAMIC_WEAK", "LD_HWCAP_MASK", "LD_LIBRARY_PATH"),
        *("LD_LIBRARY_VERSION", "LD_ORIGIN_PATH", "LD_POINTER_GUARD", "LD_PREFER_MAP_32BIT_EXEC"),
        *("LD_PRELOAD", "LD_PROFILE", "LD_PROFILE_OUTPUT", "LD_SHOW_AUXV", "LD_USE_LOAD_BIAS"),
        *("LD_TRACE_LOADED_OBJECTS", "LD_TRACE_PRELINKING", "LD_VERBOSE", "LD_WARN"),
        *("GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "TZDIR"),
        *("HOSTALIASES", "LOCALDOMAIN", "NIS_PATH", "RESOLV_HOST_CONF", "RES_OPTIONS"),
        *("MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST", "MALLOC_CHECK_", "MALLOC_MMAP_MAX_"),
        *("MALLOC_MMAP_THRESHOLD_", "MALLOC_PERTURB_", "MALLOC_TCACHE_COUNT", "MALLOC_TOP_PAD_"),
        *("MALLOC_TRACE", "MALLOC_TRIM_THRESHOLD_"),
    )
)

# The reason if our init found another file at a path than the host did before the start.
_REPLACED = "a file or folder that it is shown was replaced while it was started"

# The reason if it was not forked from its template. The start is then repeated without a template.
_NOT_FORKED = "it was not forked from its template"

# How long a namespace may take to end after the control pipe was closed. It takes milliseconds,
# unless the wrapper hangs.
NAMESPACE_END_SECONDS = 0.5


class TemplateEnds(NamedTuple):
    """The file descriptors by which a start uses a template.

    under    a pidfd of the first process of the template's namespace
    join     the end of a socket that our init has; the process that joins has the other end
    sandbox  the sandbox of the template, of which our init makes a copy; None for a PID namespace
    """

    under: int
    join: int
    sandbox: "SandboxCopy | None" = None


class SandboxCopy(NamedTuple):
    """What our init needs to make a copy of a template's sandbox.

    outer        the user namespace that made the mounts
    view         the private file systems (`make_private` in init.c)
    change_user  the command that changes the user first; () for none
    """

    outer: int
    view: bytes
    change_user: tuple[str, ...]


class InitSettings(NamedTuple):
    """The numbers that our init gets as its first argument, in this order (see the beginning of
    init.c). Most are file descriptors; except for stdin, 0 stands for none.

    control         the end of the control pipe from which init reads
    status          the end of the status pipe to which init writes
    stdin, stdout   the ends of the pipes for the program
    keeps_pwd       1 if the program gets the variable PWD
    mode            NEW_NAMESPACE, IN_NAMESPACE or RESET_SIGNALS
    cgroup          the file cgroup.procs of the cgroup that the program enters
    paths           a file with the files that must be at the visible paths
    max_pid         the number that all pids outside the namespace are smaller than
    proxy           a Unix socket to the proxy of the network
    keeps_namespace 1 if the namespace stays when the program has ended
    under, join     as in `TemplateEnds`
    outer           as in `SandboxCopy`
    view            a file with the private file systems of a sandbox (`SandboxCopy.view`)
    """

    control: int = 0
    status: int = 0
    stdin: int = 0
    stdout: int = 1
    keeps_pwd: int = 1
    mode: int = 0
    cgroup: int = 0
    paths: int = 0
    max_pid: int = 0
    proxy: int = 0
    keeps_namespace: int = 0
    under: int = 0
    join: int = 0
    outer: int = 0
    view: int = 0

    def as_argument(self, limits: Sequence[ResourceLimit] = ()) -> str:
        """Return the argument for our init, with the resource limits of the program."""
        limit_numbers = (number for limit in limits for number in limit)
        return ",".join(map(str, (*self, *limit_numbers)))


# The modes of our init: it runs in a namespace that another program made, it makes the namespace,
# or it only resets the handling of signals and executes the program.
IN_NAMESPACE, NEW_NAMESPACE, RESET_SIGNALS = 0, 1, 2


class InitChannel:
    """The host's ends of the two pipes and, until the spawn is over, the file descriptors that the
    wrapper inherits."""

    __slots__ = (
        "_argv_prefix",
        "_closed_at",
        "_control",
        "_inherited",
        "_is_forked",
        "_limits",
        "_status",
        "env",
        "lost_template",
        "program_pid",
    )

    def __init__(
        self,
        wrapper: Wrapper,
        stdin: int,
        stdout: int,
        env: Mapping[str, str],
        cgroup: int = 0,
        *,
        proxy: int = 0,
        keeps_namespace: bool = False,
        template: TemplateEnds | None = None,
    ) -> None:
        """Create the pipes, and the command line of the wrapper.

        stdin, stdout    the child's ends of the pipes to the program
        env              the environment variables of the program; `self.env` are those of the
                         wrapper
        cgroup           a file descriptor of the cgroup.procs that the program enters; 0 for none
        proxy            a Unix socket to the proxy of the network; 0 for none
        keeps_namespace  whether the namespace stays when the program has ended, until it is killed
        template         the template that the program is forked from; None if our init executes the
                         program

        `self.program_pid` is the pid that the program had in its namespace, 0 before its exit.
        `self.lost_template` is whether it was not started because no process of the template has
        joined its sandbox, False before its exit."""
        self.env = env
        self.program_pid = 0
        self.lost_template = False
        self._closed_at = 0.0
        self._limits = wrapper.limits
        self._is_forked = template is not None
        self._inherited: tuple[int, ...] = () if template is None else (template.join,)
        self._argv_prefix: tuple[str, ...] = ()
        self._control = self._status = _CLOSED
        under = outer = 0
        try:
            if template is not None:
                under = os.dup(template.under)
                self._inherited += (under,)
            control, self._control = os.pipe()
            self._inherited += (control,)
            self._status, status = os.pipe()
            os.set_blocking(self._status, False)
            self._inherited += (status,)
            init = memory_file("exthost-init", wrapper.init)
            self._inherited += (init,)
            sandbox = None if template is None else template.sandbox
            view = 0
            if sandbox is not None:  # our init executes nothing, so it needs no variables
                self.env = EMPTY_MAPPING
                view = memory_file("exthost-view", sandbox.view)
                self._inherited += (view,)
                outer = os.dup(sandbox.outer)
                self._inherited += (outer,)
            options = wrapper.options if sandbox is None else ()
            if options:
                self.env, loader_variables = split_loader_variables(env)
                for name, value in loader_variables.items():
                    options = (*options, "--setenv", name, value)
            paths = 0
            if wrapper.paths:
                paths = memory_file("exthost-paths", b"".join(map(_encode_path, wrapper.paths)))
                self._inherited += (paths,)
            if wrapper.filter and sandbox is None:
                seccomp = memory_file("exthost-filter", wrapper.filter)
                self._inherited += (seccomp,)
                options = (*options, "--seccomp", str(seccomp))
        except BaseException:
            self.close_inherited()
            self.close()
            raise
        settings = InitSettings(
            control=control,
            status=status,
            stdin=stdin,
            stdout=stdout,
            keeps_pwd=int("PWD" in env),
            mode=IN_NAMESPACE if options else NEW_NAMESPACE,
            cgroup=cgroup,
            paths=paths,
            max_pid=max_pid(),
            proxy=proxy,
            keeps_namespace=int(keeps_namespace),
            under=under,
            join=0 if template is None else template.join,
            outer=outer,
            view=view,
        )
        start_init = (f"/proc/self/fd/{init}", settings.as_argument(wrapper.limits))
        self._argv_prefix = start_init if sandbox is None else (*sandbox.change_user, *start_init)
        if not options:
            return
        # Bubblewrap is the wrapper: it makes the namespace, and starts our init there.
        wrapper_argv: tuple[str, ...] = (*options, "--", *start_init)
        # If the host ignores SIGCHLD, the wrapper inherits that, and would not learn that our init
        # has exited. So our init is executed once more before it: it resets the signal, and
        # executes the wrapper in its place.
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            reset_signals = InitSettings(mode=RESET_SIGNALS, stdout=0).as_argument()
            wrapper_argv = (f"/proc/self/fd/{init}", reset_signals, *wrapper_argv)
        self._argv_prefix = wrapper_argv

    @property
    def argv_prefix(self) -> tuple[str, ...]:
        """The command line to which the program and its arguments are appended."""
        return self._argv_prefix

    @property
    def inherited(self) -> tuple[int, ...]:
        """The file descriptors that the wrapper inherits besides stdin, stdout and stderr."""
        return self._inherited

    def close_inherited(self) -> None:
        """Close the inherited file descriptors in the host, after the spawn, even if it failed. The
        variables are forgotten, because they may be secrets."""
        for fd in self._inherited:
            os.close(fd)
        self._inherited = self._argv_prefix = ()
        self.env = EMPTY_MAPPING

    @property
    def descriptors(self) -> list[int]:
        """The host's ends of the pipes that are open."""
        return [fd for fd in (self._control, self._status) if fd != _CLOSED]

    def send_signal(self, number: int) -> None:
        """Send a signal to the program's process group."""
        if self._control != _CLOSED:
            try:
                os.write(self._control, bytes((number,)))
            except OSError:
                pass  # init has ended

    def close_control(self) -> bool:
        """Request init to end every process in the namespace, by closing the control pipe. Return
        False if that was requested NAMESPACE_END_SECONDS ago or earlier: the wrapper hangs."""
        if self._control == _CLOSED:
            return time.monotonic() - self._closed_at < NAMESPACE_END_SECONDS
        os.close(self._control)
        self._control = _CLOSED
        self._closed_at = time.monotonic()
        return True

    def read_status(self, wrapper: ExitStatus) -> ExitStatus:
        """Return how the program ended, given how the wrapper ended.

        Init writes a negative errno if the program was not executed. Otherwise it writes the status
        of the program as waitpid returns it, the processor time in milliseconds, and the pid that
        the program had."""
        try:
            data = os.read(self._status, 64)
        except OSError:
            data = b""
        numbers = struct.unpack(f"={len(data) // 4}i", data[: len(data) // 4 * 4])
        if numbers and numbers[0] < 0:
            error = -numbers[0]
            if error == errno.EAGAIN and self._is_forked:  # init has waited for the template
                self.lost_template = True
                return ExitStatus(None, None, _NOT_FORKED)
            if error == errno.ESTALE:
                return ExitStatus(None, None, _REPLACED)
            return ExitStatus(None, None, f"{os.strerror(error)} ({_error_name(error)})")
        if len(numbers) > 2:
            self.program_pid = numbers[2]
        if numbers and os.WIFSIGNALED(numbers[0]):
            cpu_seconds = numbers[1] / 1000 if len(numbers) > 1 else 0.0
            number = os.WTERMSIG(numbers[0])
            return ExitStatus(
                None, number, limit=_describe_limit(number, cpu_seconds, self._limits)
            )
        if numbers:
            return ExitStatus(os.WEXITSTATUS(numbers[0]), None)
        if self._control == _CLOSED or wrapper.code is None:
            return ExitStatus(None, wrapper.signal or signal.SIGKILL)
        if wrapper.code > 128:  # our init was killed from outside
            return ExitStatus(None, wrapper.code - 128)
        return ExitStatus(None, None, f"its sandbox could not be set up: the wrapper {wrapper}")

    def close(self) -> None:
        """Close the host's ends."""
        self.close_control()
        if self._status != _CLOSED:
            os.close(self._status)
            self._status = _CLOSED


def _encode_path(path: ExpectedPath) -> bytes:
    """Return a path, and the file that is expected there, in the form that our init reads."""
    device, inode = path.device, path.inode
    return os.fsencode(f"{os.major(device)},{os.minor(device)},{inode},{path.path}\0")


def split_loader_variables(env: Mapping[str, str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the environment variables that the wrapper is started with, and those that the wrapper
    sets for the program only. The wrapper starts outside the sandbox, as the host's user: there, a
    variable such as LD_PRELOAD would execute code of the extension."""
    loader_variables = {name: env[name] for name in env if name in _LOADER_VARIABLES}
    if not loader_variables:
        return env, loader_variables
    others = Variables({name: env[name] for name in env if name not in loader_variables})
    return others, loader_variables


def _describe_limit(number: int, cpu_seconds: float, limits: Sequence[ResourceLimit]) -> str:
    """Return a description of the limit for which the kernel sent the signal `number`; "" if it was
    sent for another reason."""
    for limit in limits:
        if limit.resource == CPU and (
            number == signal.SIGXCPU or (number == signal.SIGKILL and cpu_seconds >= limit.soft)
        ):
            return f"it used up its processor time (limits.cpu is {limit.soft} s)"
        if limit.resource == FILE_SIZE and number == signal.SIGXFSZ:
            return f"it wrote a file of more than {limit.soft} bytes (limits.fsize)"
    return ""


def _error_name(number: int) -> str:
    return errno.errorcode.get(number, str(number))
