"""A running process of an extension on this machine (`Child`).

A `Child` spawns the command of a launch plan, owns the host's ends of the pipes to stdin, stdout
and stderr, reports how the process ended, and can kill it.

Spawning uses `subprocess.Popen`, because it uses vfork, whose cost does not grow with the memory of
the host; uvloop's spawn and `Popen(user=…)` do not use vfork. Each child leads its own session and
process group, so that the whole group can be signalled. This module knows no protocol.

A plan may have a wrapper, which runs the program in a namespace. Then the spawned process is the
wrapper, and an `InitChannel` connects the host with "our init", the first process in the namespace,
which is a program of the host (`launch/sandbox/init.c`). A plan may have a cgroup, which the
program enters before it is executed. A plan may have a list of hosts, which the program reaches
through a proxy, a separate process (`network_proxy`). A program can be forked from a template
instead of being executed (`template`).

A `Child` that is garbage-collected while its process runs kills the process.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from exthost.model.launch_plan import NO_CEILING
from exthost.process.after_fork import disown_after_fork, replace_by_null
from exthost.process.child_process import PipeEnds
from exthost.process.exit_status import ExitWatch
from exthost.process.init_channel import InitChannel, InitSettings
from exthost.process.memory_file import memory_file
from exthost.process.pipe_ends import FdReadEnd, FdWriteEnd
from exthost.process.procfs import children_of, kill_children, wrapper_processes
from exthost.process.program_check import check_program
from exthost.process.spawn_errors import spawn_error

if TYPE_CHECKING:
    import asyncio

    from exthost.model.launch_plan import LaunchPlan
    from exthost.process import cgroups
    from exthost.process.exit_status import ExitStatus
    from exthost.process.init_channel import TemplateEnds
    from exthost.process.network_proxy import NetworkProxy


# The value of an attribute for a file descriptor that was closed.
CLOSED = -1

# A command that cannot be executed, for a start that fails if its template does not fork it.
_NOTHING = ("/dev/null",)


class TemplateStart(Protocol):
    """A start from a template, as `Child` uses it. `waits` is whether the process is started in
    advance, before a call needs it: then our init does not execute the program if it cannot be
    forked from the template."""

    waits: bool

    def ends(self) -> TemplateEnds:
        """Return the descriptors for our init. The caller closes the one named `join`."""

    def send(self, pid: int, descriptors: Sequence[int]) -> None:
        """Let the template fork the program. `pid` is that of the wrapper, and `descriptors` are
        the program's ends of stdin, stdout and stderr."""

    def close(self) -> None:
        """Handle that the process has ended."""


class Child:
    """A process with its pipes. It implements `child_process.ChildProcess`.

    pid                    the pid of the wrapper, if there is one, else of the program
    stdin, stdout, stderr  the host's ends of the pipes, as file descriptors; CLOSED after closing
    status                 how the process ended; None until `poll_exit` has found that out
    protected_paths        the paths in its writable folders that it cannot write
    """

    __slots__ = (
        "__weakref__",
        "_ceiling",
        "_group",
        "_init_channel",
        "_limit_exceeded",
        "_private_mounts",
        "_start",
        "_stop_watchdog",
        "_watch",
        "argv",
        "cwd",
        "network_proxy",
        "pid",
        "protected_paths",
        "spawn_seconds",
        "status",
        "stderr",
        "stdin",
        "stdout",
    )

    def __init__(
        self,
        plan: LaunchPlan,
        extension: str = "",
        *,
        start: TemplateStart | None = None,
        is_template: bool = False,
    ) -> None:
        """Start the process. Raises SpawnFailed with a reason that a person can act on.

        start        forks the program from a template; the plan must have a wrapper
        is_template  whether other processes will be forked from this one: its stdin is then a
                     socket, and its namespace stays until it is killed"""
        self._start = start
        self._watch: ExitWatch | None = None
        self._init_channel: InitChannel | None = None
        self._stop_watchdog: Callable[[], None] | None = None
        self._group: cgroups.Group | None = None
        self.network_proxy: NetworkProxy | None = None
        self._ceiling = plan.ceiling
        self._limit_exceeded = ""
        self._private_mounts = plan.wrapper.private_mounts if plan.wrapper is not None else ()
        self.argv = plan.argv  # without the environment, which may have secrets and is large
        self.cwd = plan.cwd or ""
        self.protected_paths = plan.wrapper.protected if plan.wrapper is not None else ()
        self.status: ExitStatus | None = None
        spawn_began = time.perf_counter()
        # The descriptors that the child inherits: its ends of the three pipes, and perhaps the file
        # by which it enters a cgroup. The host closes them after the spawn.
        child_ends: list[int] = []
        our_ends: list[int] = []
        try:
            for child_reads in (True, False, False):  # stdin, stdout, stderr
                if is_template and child_reads:
                    read_end, write_end = (end.detach() for end in socket.socketpair())
                else:
                    read_end, write_end = os.pipe()
                child_ends.append(read_end if child_reads else write_end)
                our_ends.append(write_end if child_reads else read_end)
            if plan.wrapper is not None and (uid := plan.wrapper.uid) is not None:
                for end in child_ends:
                    os.fchown(end, uid, uid)  # so that the program can open /dev/stderr
            if plan.group is not None:
                from exthost.process import cgroups

                self._group = cgroups.create(plan.group)
            if self._group is not None:
                child_ends.append(self._group.entry)
            # A process that is forked from a template uses the proxy of the template.
            if plan.network is not None and start is None:
                from exthost.process.network_proxy import NetworkProxy

                self.network_proxy = NetworkProxy(plan.network, extension)
            process, channel = _spawn(
                plan,
                child_ends,
                self._group,
                self.network_proxy,
                start=start,
                keeps_namespace=is_template,
            )
            if start is not None:
                start.send(process.pid, child_ends[:3])
        except BaseException as error:
            if start is not None:
                start.close()
            self._release(our_ends)
            if isinstance(error, OSError | ValueError):
                raise spawn_error(error, plan, extension) from None
            raise
        finally:
            for fd in child_ends:
                os.close(fd)
            if self.network_proxy is not None:
                self.network_proxy.close_child_end()
        self.stdin, self.stdout, self.stderr = our_ends
        self.pid = process.pid
        self._init_channel = channel
        try:
            self._watch = ExitWatch(process.pid)
        except (OSError, RuntimeError) as error:  # out of descriptors, or of threads
            if channel is not None:
                channel.close()
            process.kill()
            process.wait()
            self._release(our_ends)
            raise spawn_error(error, plan, extension) from None
        # The exit watch reaps the process. With a return code set, Popen's destructor does not.
        process.returncode = 0
        disown_after_fork(self)
        self.spawn_seconds = time.perf_counter() - spawn_began

    def _release(self, our_ends: Sequence[int]) -> None:
        """Release what was made for a process that could not be started."""
        self._close_group()
        self._close_proxy()
        for fd in our_ends:
            os.close(fd)

    # The members of `ChildProcess` that are about other nodes: this process is on none.
    node = ""
    is_node_draining = False
    is_node_silent = False
    node_usage = 0.0, 0

    def on_node_draining(self, callback: Callable[[], None]) -> None:
        """Do nothing: only a process on another node is replaced because its node is drained."""

    def on_closed_stdin(self, callback: Callable[[], None]) -> None:
        """Do nothing: a write to a pipe of this machine fails if the process has closed its
        stdin."""

    @property
    def has_cgroup(self) -> bool:
        """Whether the process is in a cgroup made for it."""
        return self._group is not None

    @property
    def keeps_pid(self) -> bool:
        """Whether the program had the same pid inside its namespace and outside. Known after its
        exit."""
        return self._init_channel is None or self._init_channel.program_pid == self.pid

    @property
    def lost_template(self) -> bool:
        """Whether the program was not started because no process of its template has joined its
        sandbox. Known after the exit."""
        return self._init_channel is not None and self._init_channel.lost_template

    @property
    def _wrappers(self) -> int:
        """The number of processes around our init: the wrapper, and with a template also the
        process that the wrapper forks to enter the namespace of the template."""
        if self._init_channel is None:
            return 0
        return 1 if self._start is None else 2

    @property
    def init_pid(self) -> int | None:
        """The pid of our init; None if the process has no namespace, or has ended."""
        return next(iter(wrapper_processes(self.pid, self._wrappers).inits), None)

    @property
    def program_pids(self) -> list[int]:
        """The pids of the children of our init: the program, and processes whose parents have
        ended. Empty without a namespace."""
        init = self.init_pid
        return [] if init is None else children_of(init)

    @property
    def exit_fd(self) -> int:
        """A file descriptor that becomes readable when the process has exited."""
        assert self._watch is not None
        return self._watch.fd

    def pipe_ends(self) -> PipeEnds:
        """Return the host's ends of the pipes."""
        return PipeEnds(FdWriteEnd(self.stdin), FdReadEnd(self.stdout), FdReadEnd(self.stderr))

    def watch_exit(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call `callback` in this event loop when the process has exited, until `unwatch_exit`."""
        loop.add_reader(self.exit_fd, callback)

    def unwatch_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop calling the function of `watch_exit`."""
        loop.remove_reader(self.exit_fd)

    def start_watchdog(self, call_in_loop: Callable[[Callable[[str], None], str], object]) -> None:
        """Have the watchdog enforce the limits in the plan's `ceiling`, if there are any, unless it
        does so already. `call_in_loop` calls a function in the thread of the event loop."""
        if self._stop_watchdog is not None:
            return
        ceiling = self._ceiling
        if self._group is not None and self._group.limits_memory:
            # The kernel enforces these two, since a cgroup also counts the buffers of sockets.
            ceiling = ceiling._replace(memory=None, sockets=None)
        if ceiling != NO_CEILING:
            # A weak reference: a Child without other references must be garbage-collected, which
            # kills its process.
            kill_for_limit = weakref.WeakMethod(self._kill_for_limit)

            def on_exceeded(limit: str) -> None:
                if (method := kill_for_limit()) is not None:
                    call_in_loop(method, limit)

            from exthost.process.watchdog import watch

            self._stop_watchdog = watch(
                self.pid,
                self._wrappers,
                ceiling,
                on_exceeded,
                self._private_mounts,
            )

    def _kill_for_limit(self, limit: str) -> None:
        if self.poll_exit() is None:
            self._limit_exceeded = limit
            self.kill()

    def poll_exit(self) -> ExitStatus | None:
        """Return how the process ended; None if it is running. Its pid is not reused before
        `reap`."""
        if self.status is None and self._watch is not None:
            status = self._watch.peek()
            if status is not None and self._init_channel is not None:
                status = self._init_channel.read_status(status)
            if status is not None and (limit := self._limit_exceeded or self._oom_reason(status)):
                status = status._replace(limit=limit)
            self.status = status
        return self.status

    def _oom_reason(self, status: ExitStatus) -> str:
        """Return why the OOM killer of the kernel ended the process; "" if it did not."""
        if self._group is None or status.signal != signal.SIGKILL:
            return ""
        return self._group.oom_reason(self._ceiling.memory)

    def close_stdin(self) -> None:
        """Close our end of stdin: the child reads end-of-file."""
        fd, self.stdin = self.stdin, CLOSED
        if fd != CLOSED:
            os.close(fd)

    def close_outputs(self) -> None:
        """Close our ends of stdout and stderr."""
        open_fds = [fd for fd in (self.stdout, self.stderr) if fd != CLOSED]
        self.stdout = self.stderr = CLOSED
        for fd in open_fds:
            os.close(fd)

    def terminate(self) -> None:
        """Send SIGTERM to the process group."""
        if self._init_channel is not None:
            self._init_channel.send_signal(signal.SIGTERM)
        elif self._watch is not None:
            self._watch.signal_group(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its group.

        For a program in a namespace, the first call closes the control pipe: our init then ends the
        namespace, and the wrapper exits after it. If the wrapper were killed first, no process
        would be left to report the status of the program. A second call, made half a second later
        or more, sends SIGKILL to the wrapper and its children."""
        if self._init_channel is not None:
            if self._init_channel.close_control():
                if self._watch is not None:
                    self._watch.signal(signal.SIGCONT)  # a stopped wrapper cannot exit
                if self._start is not None:
                    # Code in the template can have stopped our init (SIGSTOP), which then does not
                    # react to the closed pipe.
                    kill_children(self.pid, self._wrappers)
                return
            kill_children(self.pid, self._wrappers)
        if self._watch is not None:
            self._watch.signal_group(signal.SIGKILL)
            self._watch.signal(signal.SIGKILL)

    def reap(self) -> None:
        """Kill what is left of the process group, and reap the process, which must have exited."""
        if self._watch is None:
            return
        self.poll_exit()
        if self._stop_watchdog is not None:
            self._stop_watchdog()
        self._watch.signal_group(signal.SIGKILL)
        self._watch.reap()
        self._watch.close()
        self._watch = None
        if self._init_channel is not None:
            self._init_channel.close()
        if self._start is not None:
            self._start.close()
        self._close_group()
        self._close_proxy()

    def _close_group(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None

    def _close_proxy(self) -> None:
        if self.network_proxy is not None:
            self.network_proxy.close()
            self.network_proxy = None

    def disown(self) -> None:
        """Release the process in a forked copy of the host. It belongs to the original host."""
        open_fds = [self.stdin, self.stdout, self.stderr]
        open_fds += [self._watch.fd] if self._watch is not None else []
        open_fds += self._init_channel.descriptors if self._init_channel is not None else []
        replace_by_null(open_fds)
        if self.network_proxy is not None:
            self.network_proxy.disown()
            self.network_proxy = None
        self._watch = self._init_channel = self._stop_watchdog = self._group = None

    def __del__(self) -> None:
        watch = getattr(self, "_watch", None)
        if watch is None:
            return
        self.kill()
        deadline = time.monotonic() + 1
        while watch.peek() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        self.reap()
        self.close_stdin()
        self.close_outputs()


def _spawn(
    plan: LaunchPlan,
    ends: Sequence[int],
    group: cgroups.Group | None,
    proxy: NetworkProxy | None,
    *,
    start: TemplateStart | None = None,
    keeps_namespace: bool = False,
) -> tuple[subprocess.Popen[bytes], InitChannel | None]:
    """Spawn the plan. The first three of `ends` are the child's ends of stdin, stdout and stderr.
    `keeps_namespace` is whether the namespace stays when the program has ended."""
    if plan.wrapper is not None or plan.before or group is not None:
        check_program(plan)
    if plan.wrapper is None:
        argv = (*plan.before, *plan.argv)
        if group is None:
            return _popen(plan, argv, ends), None
        return _spawn_in_cgroup(plan, argv, ends, group), None
    # The wrapper keeps its own stdin and stdout open, which would hide that the program closed one.
    # So it inherits the pipes under other numbers, which it does not keep.
    entry = () if group is None else (group.entry,)
    sockets = () if proxy is None else (proxy.child_end,)
    channel = InitChannel(
        plan.wrapper,
        ends[0],
        ends[1],
        plan.env,
        cgroup=0 if group is None else group.entry,
        proxy=0 if proxy is None else proxy.child_end,
        keeps_namespace=keeps_namespace,
        template=None if start is None else start.ends(),
    )
    null = subprocess.DEVNULL
    try:
        program = _NOTHING if start is not None and start.waits else (*plan.before, *plan.argv)
        argv = (*channel.argv_prefix, *program)
        inherited_fds = (*channel.inherited, *ends[:2], *entry, *sockets)
        # A start from a template has the mounts of the template.
        folders = plan.wrapper.inaccessible_folders if start is None else ()
        plan = replace(plan, env=channel.env)
        if folders:
            # The working folder may be in a closed one. Bubblewrap enters it inside the sandbox.
            plan = replace(plan, cwd="/")
        spawn = partial(_popen, plan, argv, (null, null, ends[2]), inherited_fds)
        if folders:
            from exthost.process.private_mounts import call_with_open_folders

            process = call_with_open_folders(folders, spawn)
        else:
            process = spawn()
    except BaseException:
        channel.close()
        raise
    finally:
        channel.close_inherited()
    return process, channel


def _spawn_in_cgroup(
    plan: LaunchPlan, argv: Sequence[str], ends: Sequence[int], group: cgroups.Group
) -> subprocess.Popen[bytes]:
    """Spawn a program in a cgroup, without a namespace. Our init enters the cgroup and then
    executes the program in its own place."""
    assert plan.group is not None
    init = memory_file("exthost-init", plan.group.init)
    try:
        settings = InitSettings(cgroup=group.entry)  # without pipes: it only executes the program
        init_argv = (f"/proc/self/fd/{init}", settings.as_argument(), *argv)
        return _popen(plan, init_argv, ends, (init, group.entry))
    finally:
        os.close(init)


def _popen(
    plan: LaunchPlan, argv: Sequence[str], ends: Sequence[int], inherited_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        stdin=ends[0],
        stdout=ends[1],
        stderr=ends[2],
        cwd=plan.cwd,
        env=plan.env,
        start_new_session=True,
        pass_fds=inherited_fds,
    )


def find_program(command: str, cwd: str | None, path: str | None) -> str:
    """Return the absolute path of a command: a bare name is looked up on `path`, the value of PATH;
    a relative path is joined to `cwd`. A name that is not found is returned unchanged, so that
    executing it raises the error."""
    if "/" in command:
        # pathlib would take as long as the rest of the preparation of a start.
        return os.path.join(cwd or os.getcwd(), command)  # noqa: PTH109, PTH118
    import shutil

    return shutil.which(command, path=path) or command
