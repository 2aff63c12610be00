"""One running process: a launch plan executed, our three pipe ends, its exit, its end.

Spawning is plain `Popen` on purpose. It uses vfork, so it stays cheap under a host of any size;
uvloop's spawn and `Popen(user=)` do not. Each child leads a session and a process group of its
own, which is how the whole of it can be signalled. Nothing here knows a protocol.

A plan may have a wrapper, which holds the program in a namespace of its own. Then the process
that we started is the wrapper, and a leash leads to the first process inside. It may have a cgroup,
which the program enters before it is executed.

A `Child` that is dropped without having been ended kills its process: nothing is left behind.
"""

import errno
import os
import shutil
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from exthost.errors import Evidence, SpawnFailed
from exthost.model import Ceiling, LaunchPlan
from exthost.process import cgroups
from exthost.process.exits import ExitStatus, ExitWatch
from exthost.process.leash import Leash, check_program, file_of, kill_children
from exthost.process.watchdog import watch

# What stands in place of a descriptor that was closed.
CLOSED = -1


class Child:
    """A process and what we hold of it. The three pipe ends are plain descriptors."""

    __slots__ = (
        "__weakref__",
        "_ceiling",
        "_group",
        "_leash",
        "_leave",
        "_watch",
        "_why",
        "argv",
        "cwd",
        "pid",
        "spawn_seconds",
        "status",
        "stderr",
        "stdin",
        "stdout",
    )

    def __init__(self, plan: LaunchPlan, extension: str = "") -> None:
        """Start it. Raises SpawnFailed with the reason a person can act on."""
        self._watch: ExitWatch | None = None
        self._leash: Leash | None = None
        self._leave: Callable[[], None] | None = None
        self._group: cgroups.Group | None = None
        self._ceiling = plan.ceiling
        self._why = ""
        self.argv = plan.argv  # and not the plan: its variables may be secrets, and are many
        self.cwd = plan.cwd or ""
        self.status: ExitStatus | None = None
        began = time.perf_counter()
        child_ends: list[int] = []
        our_ends: list[int] = []
        try:
            for reads in (True, False, False):
                read_end, write_end = os.pipe()
                child_ends.append(read_end if reads else write_end)
                our_ends.append(write_end if reads else read_end)
            if plan.group is not None:
                self._group = cgroups.make(plan.group)
            if self._group is not None:
                child_ends.append(self._group.entry)
            process, leash = _spawn(plan, child_ends, self._group)
        except (OSError, ValueError) as error:
            self._close_group()
            for fd in our_ends:
                os.close(fd)
            raise _translated(error, plan, extension) from None
        finally:
            for fd in child_ends:
                os.close(fd)
        self.stdin, self.stdout, self.stderr = our_ends
        self.pid = process.pid
        self._leash = leash
        try:
            self._watch = ExitWatch(process.pid)
        except (OSError, RuntimeError) as error:  # no descriptor, or no thread, left for it
            if leash is not None:
                leash.close()
            process.kill()
            process.wait()
            self._close_group()
            for fd in our_ends:
                os.close(fd)
            raise _translated(error, plan, extension) from None
        # From here on the exit watch is in charge; this keeps Popen's destructor out of it.
        process.returncode = 0
        _ours.add(self)
        self.spawn_seconds = time.perf_counter() - began

    @property
    def grouped(self) -> bool:
        """Whether it has the cgroup that was planned for it, if one was."""
        return self._group is not None

    @property
    def exit_fd(self) -> int:
        """Readable once the process has exited."""
        assert self._watch is not None
        return self._watch.fd

    def guard(self, tell: Callable[[Callable[[str], None], str], object]) -> None:
        """Have its ceiling watched, if it has one; `tell` calls a function in our own thread."""
        most = self._ceiling
        if self._group is not None and self._group.holds_memory:
            most = most._replace(memory=None)
        if most != Ceiling():
            wrapped = self._leash is not None
            self._leave = watch(self.pid, wrapped, most, lambda why: tell(self._exceed, why))

    def _exceed(self, why: str) -> None:
        if self.see_exit() is None:
            self._why = why
            self.kill()

    def see_exit(self) -> ExitStatus | None:
        """How it ended, if it has. Its pid and group stay ours until `reap`."""
        if self.status is None and self._watch is not None:
            seen = self._watch.peek()
            if seen is not None and self._leash is not None:
                seen = self._leash.read(seen)
            if seen is not None and (why := self._why or self._starved(seen)):
                seen = seen._replace(why=why)
            self.status = seen
        return self.status

    def _starved(self, seen: ExitStatus) -> str:
        if self._group is None or seen.signal != signal.SIGKILL:
            return ""
        return self._group.reason(self._ceiling.memory)

    def close_stdin(self) -> None:
        """The child reads end-of-file."""
        fd, self.stdin = self.stdin, CLOSED
        if fd != CLOSED:
            os.close(fd)

    def close_outputs(self) -> None:
        """Hear nothing more of it."""
        (out, err), (self.stdout, self.stderr) = (self.stdout, self.stderr), (CLOSED, CLOSED)
        for fd in (out, err):
            if fd != CLOSED:
                os.close(fd)

    def terminate(self) -> None:
        """Ask the group to end."""
        if self._leash is not None:
            self._leash.send(signal.SIGTERM)
        elif self._watch is not None:
            self._watch.signal_group(signal.SIGTERM)

    def kill(self) -> None:
        """End the process, and what is left of its group; asked again, by all means.

        A leash that is cut ends the whole namespace, and its wrapper after it, in that order: the
        other way round nobody would be left to take the status of the first process inside."""
        if self._leash is not None:
            if self._leash.cut():
                if self._watch is not None:
                    self._watch.signal(signal.SIGCONT)  # a wrapper that was stopped cannot end
                return
            kill_children(self.pid)
        if self._watch is not None:
            self._watch.signal_group(signal.SIGKILL)
            self._watch.signal(signal.SIGKILL)

    def reap(self) -> None:
        """After its exit: end what it left in its group, take its status, let go of it."""
        if self._watch is None:
            return
        self.see_exit()
        if self._leave is not None:
            self._leave()
        self._watch.signal_group(signal.SIGKILL)
        self._watch.reap()
        self._watch.close()
        self._watch = None
        if self._leash is not None:
            self._leash.close()
        self._close_group()

    def _close_group(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None

    def disown(self) -> None:
        """In a copy of our process, which a fork has made: it is not ours but the original's, and
        what we hold of it must not keep it alive. The descriptors stay taken, since a loop that was
        copied along knows them by number."""
        held = [self.stdin, self.stdout, self.stderr]
        held += [self._watch.fd] if self._watch is not None else []
        held += self._leash.held if self._leash is not None else []
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in held:
            if fd != CLOSED:
                os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)
        self._watch = self._leash = self._leave = self._group = None

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


_ours: "weakref.WeakSet[Child]" = weakref.WeakSet()


def _disown_all() -> None:
    for child in tuple(_ours):
        child.disown()


os.register_at_fork(after_in_child=_disown_all)


def _spawn(
    plan: LaunchPlan, ends: Sequence[int], group: cgroups.Group | None
) -> tuple["subprocess.Popen[bytes]", Leash | None]:
    """Execute the plan; `ends` are the child's of stdin, stdout and stderr."""
    if plan.wrapper is not None or plan.before or group is not None:
        check_program(plan)
    if plan.wrapper is None:
        words = (*plan.before, *plan.argv)
        process = _popen(plan, words, ends) if group is None else _enter(plan, words, ends, group)
        return process, None
    # The wrapper would hold its own stdin and stdout for as long as it lives, and hide that the
    # program closed one; so it gets them under other numbers, which it does not keep.
    entry = () if group is None else (group.entry,)
    leash = Leash(plan.wrapper, ends[0], ends[1], "PWD" in plan.env, *entry)
    null = subprocess.DEVNULL
    try:
        argv = (*leash.words, *plan.argv)
        passed = (*leash.inherited, *ends[:2], *entry)
        process = _popen(plan, argv, (null, null, ends[2]), passed)
    except BaseException:
        leash.close()
        raise
    finally:
        leash.spawned()
    return process, leash


def _enter(
    plan: LaunchPlan, words: Sequence[str], ends: Sequence[int], group: cgroups.Group
) -> "subprocess.Popen[bytes]":
    """Without a namespace our init only enters the group, and becomes the program."""
    assert plan.group is not None
    init = file_of("exthost-init", plan.group.init)
    try:
        chain = (f"/proc/self/fd/{init}", f"0,0,0,1,1,0,{group.entry}", *words)
        return _popen(plan, chain, ends, (init, group.entry))
    finally:
        os.close(init)


def _popen(
    plan: LaunchPlan, argv: Sequence[str], ends: Sequence[int], passed: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        argv,
        stdin=ends[0],
        stdout=ends[1],
        stderr=ends[2],
        cwd=plan.cwd,
        env=plan.env,
        start_new_session=True,
        pass_fds=passed,
    )


def find_program(command: str, cwd: str | None, path: str | None) -> str:
    """The absolute path of a command: a bare name by PATH, one with a slash from `cwd`.

    What cannot be found is returned as it is: executing it tells why.
    """
    if "/" in command:
        # Not pathlib, which takes as long as all else that prepares a start.
        return os.path.join(cwd or os.getcwd(), command)  # noqa: PTH109, PTH118
    return shutil.which(command, path=path) or command


def cannot_run(plan: LaunchPlan, extension: str = "") -> SpawnFailed | None:
    """Why this plan could not be executed, as far as a look at its files tells; starts nothing."""
    try:
        check_program(plan)
    except OSError as error:
        return _translated(error, plan, extension)
    return None


def _translated(
    error: OSError | ValueError | RuntimeError, plan: LaunchPlan, extension: str
) -> SpawnFailed:
    """Why a spawn failed, from the error and a look at the file."""
    program = Path(plan.argv[0])
    evidence = Evidence(argv=plan.argv, cwd=plan.cwd or "")
    number = error.errno if isinstance(error, OSError) else None

    def failed(code: str, message: str, help: str) -> SpawnFailed:
        return SpawnFailed(
            code,
            message,
            permanent=number in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC),
            extension=extension,
            help=help,
            evidence=evidence,
        )

    if number in (errno.ENOENT, errno.ENOTDIR):
        if plan.cwd is not None and not Path(plan.cwd).is_dir():
            return failed(
                "X0402", f"its working folder {plan.cwd} is not there", "create it, or set `cwd`"
            )
        if program.is_file():
            named = _shebang(program)
            by_hand = "install that interpreter, or correct the first line of the script"
            crlf = "its line ends are those of Windows: save it with plain \\n ones"
            return failed(
                "X0403",
                f"{program} exists, but the interpreter it names does not: {named}",
                crlf if named.endswith(r"\r") else by_hand,
            )
        return failed(
            "X0401",
            f"there is no program {plan.argv[0]!r}",
            "what follows the program's name belongs into `args`"
            if " " in plan.argv[0]
            else "check the spelling and PATH, or give an absolute path",
        )
    if number == errno.EACCES and program.is_dir():
        return failed("X0404", f"{program} is a folder", "name the program inside it")
    if number == errno.EACCES:
        return failed(
            "X0404", f"{program} may not be executed", f"is it a program? try: chmod +x {program}"
        )
    if number == errno.ENOEXEC:
        return failed(
            "X0404",
            f"{program} is no program this system can run",
            "a script needs a first line such as `#!/usr/bin/env python3`",
        )
    no_room = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
    if number in no_room or isinstance(error, RuntimeError):
        return failed(
            "X0405",
            f"this machine has no room for another process: {error}",
            "stop other extensions, or raise the limit (ulimit -n, ulimit -u)",
        )
    return failed("X0406", f"it could not be started: {error}", "see the error of the system")


def _shebang(program: Path) -> str:
    try:
        with program.open("rb") as file:
            first = file.readline(256)
    except OSError:
        return "(unreadable)"
    if first.startswith(b"#!"):
        return first[2:].strip(b" \t\n").decode("utf-8", "replace").replace("\r", r"\r")
    return "(a dynamic loader or library is missing)"
