"""Either part of a recorded session on real pipes: the child's on ours, the host's on a program's.

Blocking, in one thread: a replay does nothing else.
"""

import os
import selectors
import time
from collections.abc import Collection, Sequence

from exthost.dialects.base import Dialect
from exthost.dialects.codec import Positional, Role
from exthost.dialects.find import find_dialect
from exthost.errors import ExthostError
from exthost.launch_plan import LaunchPlan
from exthost.messages import Message, Noise
from exthost.process.child import Child, find_program
from exthost.replay.comparison import Difference
from exthost.replay.extension_role import ExtensionRole, StderrLine
from exthost.replay.host_role import HostRole
from exthost.replay.script import Script, messages_in
from exthost.wire.framing import READ_BYTES, Broken, Skipped

__all__ = ["Outcome", "play_extension", "play_host"]

# The largest message of a recording: what was accepted once is accepted again.
_LARGEST_BYTES = 2**31 - 1

# For a program that was asked to end.
_END_SECONDS = 5.0


class _Wire:
    """The framing and the codec of one role."""

    def __init__(self, dialect: Dialect, role: Role) -> None:
        self._framing = dialect.framing(_LARGEST_BYTES)
        self.codec = dialect.codec(role)

    def expect(self, method: str) -> None:
        if method and isinstance(self.codec, Positional):
            self.codec.expect(method)

    def frame(self, message: Message) -> bytes:
        return self._framing.wrap(self.codec.encode(message))

    def read(self, data: bytes) -> list[Message | Noise | Skipped | Broken]:
        read: list[Message | Noise | Skipped | Broken] = []
        for item in self._framing.feed(data):
            if isinstance(item, Skipped | Broken):
                read.append(item)
            else:
                read.extend(messages_in(self.codec.decode(item)))
        return read


def play_extension(
    script: Script, stdin: int = 0, stdout: int = 1, stderr: int = 2
) -> ExtensionRole:
    """Play the child of this script to the host at these descriptors, until the host closes them
    or the recording ends."""
    part = ExtensionRole(script)
    wire = _Wire(find_dialect(script.dialect), Role.GUEST)

    def say(spoken: Sequence[Message | Noise | StderrLine]) -> None:
        for event in spoken:
            if isinstance(event, StderrLine):
                _write(stderr, f"{event}\n".encode())
            elif isinstance(event, Noise):
                _write(stdout, event.data + b"\n")
            else:
                _write(stdout, wire.frame(event))

    say(part.first_messages())
    while not part.is_over:
        wire.expect(part.next_method)
        try:
            data = os.read(stdin, READ_BYTES)
        except OSError:
            break
        if not data:
            break
        for message in wire.read(data):
            if not isinstance(message, Noise | Skipped | Broken):
                say(part.receive(message))
                wire.expect(part.next_method)
    return part


class Outcome:
    """What a replay against a program came to. `compared` counts the messages that are equal."""

    def __init__(self, difference: Difference | None, compared: int) -> None:
        self.difference = difference
        self.compared = compared


def play_host(
    script: Script,
    command: Sequence[str],
    *,
    seconds: float,
    ignored: Collection[str] = (),
    stderr: int = 2,
) -> Outcome:
    """Play the host of this script to a program, up to the first difference. The program has
    `seconds` for each message. Its stderr is passed on. Raises SpawnFailed."""
    part = HostRole(script, ignored)
    program = find_program(command[0], None, os.environ.get("PATH", os.defpath))
    plan = LaunchPlan(argv=(program, *command[1:]), env=dict(os.environ))
    child = Child(plan, script.extension)
    try:
        difference = _Conversation(script, part, child, seconds, stderr).run()
    finally:
        _end(child)
    return Outcome(difference, part.compared)


class _Conversation:
    """The host's part with one process."""

    def __init__(
        self, script: Script, part: HostRole, child: Child, seconds: float, stderr: int
    ) -> None:
        self._wire = _Wire(find_dialect(script.dialect), Role.HOST)
        self._part = part
        self._child = child
        self._seconds = seconds
        self._stderr = stderr
        self._unwritten = b""
        self._selector = selectors.DefaultSelector()
        for fd in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(fd, False)

    def run(self) -> Difference | None:
        """Return the first difference, or None after the whole recording."""
        with self._selector as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            selector.register(self._child.stderr, selectors.EVENT_READ)
            deadline = time.monotonic() + self._seconds
            while True:
                self._say()
                if self._part.is_over and not self._unwritten:
                    return self._rest(selector)
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    return self._part.missing(f"nothing within {self._seconds:g} s")
                for key, _ in ready:
                    if key.fd == self._child.stdin:
                        self._write_on(selector)
                    elif key.fd == self._child.stderr:
                        self._pass_on_stderr(selector)
                    else:
                        data = _read(key.fd)
                        if not data:
                            return self._part.missing(f"it ended: {self._ended()}")
                        if (difference := self._hear(data)) is not None:
                            return difference
                        deadline = time.monotonic() + self._seconds

    def _say(self) -> None:
        frames = b"".join(self._wire.frame(message) for message in self._part.due_messages())
        if frames:
            was_empty = not self._unwritten
            self._unwritten += frames
            if was_empty:
                self._selector.register(self._child.stdin, selectors.EVENT_WRITE)

    def _write_on(self, selector: selectors.BaseSelector) -> None:
        try:
            self._unwritten = self._unwritten[os.write(self._child.stdin, self._unwritten) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no more; what it still writes tells what happened
            self._unwritten = b""
        if not self._unwritten:
            selector.unregister(self._child.stdin)

    def _pass_on_stderr(self, selector: selectors.BaseSelector) -> None:
        data = _read(self._child.stderr)
        if data:
            _write(self._stderr, data)
        else:
            selector.unregister(self._child.stderr)

    def _hear(self, data: bytes) -> Difference | None:
        try:
            messages = self._wire.read(data)
        except ExthostError as error:  # no message of the dialect
            return self._part.missing(error.message)
        for message in messages:
            if isinstance(message, Broken):
                return self._part.missing(f"bytes that are no frame: {message.why}")
            if isinstance(message, Noise | Skipped):
                continue  # stray output is no part of the protocol
            difference = self._part.receive(message)
            if difference is not None:
                return difference
        return None

    def _rest(self, selector: selectors.BaseSelector) -> Difference | None:
        """Close its stdin, and compare what it still says before it ends."""
        self._child.close_stdin()
        deadline = time.monotonic() + _END_SECONDS
        while self._child.stdout in selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            for key, _ in ready:
                if key.fd == self._child.stderr:
                    self._pass_on_stderr(selector)
                    continue
                data = _read(key.fd)
                if not data:
                    selector.unregister(key.fd)
                elif (difference := self._hear(data)) is not None:
                    return difference
        return None

    def _ended(self) -> str:
        status = self._child.see_exit() if _exits(self._child) else None
        return "it closed its stdout, and goes on" if status is None else str(status)


def _end(child: Child) -> None:
    """End the program: by the end of its stdin, then by SIGTERM, then by SIGKILL."""
    child.close_stdin()
    for stop in (None, child.terminate, child.kill, child.kill):
        if stop is not None:
            stop()
        if _exits(child):
            break
    child.reap()
    child.close_outputs()


def _exits(child: Child) -> bool:
    """Return whether the program ends within a few seconds."""
    with selectors.DefaultSelector() as selector:
        selector.register(child.exit_fd, selectors.EVENT_READ)
        selector.select(_END_SECONDS)
    return child.see_exit() is not None


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, READ_BYTES)
    except OSError:
        return b""


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
