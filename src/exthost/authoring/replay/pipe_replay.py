"""Replays a recorded session on real pipes.

A role knows which recorded message comes next, and compares; this module does the I/O.
`play_extension` uses the stdin and stdout of this process, so that a host can start it as an
extension. `play_host` starts a program and sends it the messages of the host. Both are blocking
functions, because the process of a replay has nothing else to do.
"""

import codecs
import os
import selectors
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from exthost.authoring.replay.comparison import Difference
from exthost.authoring.replay.extension_role import ExtensionRole, StderrLine
from exthost.authoring.replay.host_role import HostRole
from exthost.authoring.replay.script import Script
from exthost.dialects.base import Dialect
from exthost.dialects.codec import Role
from exthost.dialects.find import find_dialect
from exthost.errors import ExthostError, UsageError, escape_controls
from exthost.model.launch_plan import LaunchPlan
from exthost.model.messages import Message, Noise, Reply
from exthost.process.child import Child, find_program
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.effects import End
from exthost.session.failures import NotUnderstood, Violated
from exthost.session.observation import Received
from exthost.wire.framing import READ_BYTES, Item

# Any message size is accepted, because the recorded session accepted it.
_MAX_MESSAGE_BYTES = 2**31 - 1

# How long to wait for a program to end, after each step of its shutdown.
_END_SECONDS = 5.0


class _Side:
    """One side of a replayed conversation. The conversation finds the request that a reply answers;
    the roles compare the messages with the recorded ones."""

    def __init__(self, dialect: Dialect, role: Role) -> None:
        self._conversation = Conversation(dialect, _MAX_MESSAGE_BYTES, role=role)
        self._conversation.observe(self)
        self._received: list[tuple[Message, Call | None]] = []

    def frame(self, message: Message) -> bytes:
        """Return the frame of a message. Raises UsageError if the dialect has no such request."""
        try:
            return self._conversation.encode(message)
        except KeyError as unknown:
            raise UsageError(
                "X1388",
                f"the recording has a request that its dialect does not have: {unknown}",
                help="record the session again",
            ) from None

    def sent(self, frame: bytes, method: str, call: Call | None) -> None:
        """Do nothing: an observer needs this method, but sent messages are not compared."""

    def received(self, message: Received, item: Item, call: Call | None) -> None:
        """Keep a message. Noise, output that is not a message, is not compared."""
        if type(message) is tuple:  # a reply is passed as a plain tuple, which is faster
            message = Reply(*message)
        if isinstance(message, Message):
            self._received.append((message, call))

    def receive(
        self, data: bytes, next_method: Callable[[], str] | None = None
    ) -> Iterator[tuple[Message, Call | None]]:
        """Yield the messages that are complete with these bytes, each with the call that it
        ends, or None. In some dialects a request does not contain its method; `next_method` returns
        the method that the recording has next. Raises ProtocolViolation for bytes that are not a
        message."""
        for item in self._conversation.framing.feed(data):
            if next_method is not None and (method := next_method()):
                self._conversation.expect(method)
            effects = self._conversation.receive([item])
            messages, self._received = self._received, []
            yield from messages
            for effect in effects:
                # A message that ends the conversation is compared with the recorded one instead.
                if isinstance(effect, End) and not messages:
                    if isinstance(effect.cause, Violated):
                        raise effect.cause.violation
                    if isinstance(effect.cause, NotUnderstood):
                        raise effect.cause.exception


def play_extension(
    script: Script,
    stdin: int = 0,
    stdout: int = 1,
    stderr: int = 2,
    *,
    ignored: Collection[str] = (),
) -> ExtensionRole:
    """Replay the extension of this script for the host at the other end of these file descriptors,
    until the host closes stdin or the recording ends. JSON fields whose name is in `ignored` may
    differ. Return the role, for its differences. Raises ProtocolViolation if the host sends bytes
    that are not a message."""
    role = ExtensionRole(script, ignored)
    side = _Side(find_dialect(script.dialect), Role.GUEST)

    def send(due: Sequence[Message | Noise | StderrLine]) -> None:
        for item in due:
            if isinstance(item, StderrLine):
                text = escape_controls(item) if os.isatty(stderr) else item
                _write(stderr, f"{text}\n".encode(errors="replace"))
            elif isinstance(item, Noise):
                _write(stdout, item.data + b"\n")
            else:
                _write(stdout, side.frame(item))

    try:
        send(role.first_messages())
        while not role.is_over and (data := _read(stdin)):
            for message, _ in side.receive(data, lambda: role.next_method):
                send(role.receive(message))
    except BrokenPipeError:  # the host has closed the pipe
        pass
    return role


class ReplayOutcome:
    """The outcome of a replay with a program.

    difference  the first difference, or None
    compared    how many messages of the program were equal to the recorded ones
    """

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
) -> ReplayOutcome:
    """Run a program and replay the host of this script for it, up to the first difference.

    `seconds` is the longest time without a message of the program. JSON fields whose name is in
    `ignored` may differ. The stderr of the program is copied to the file descriptor `stderr`, with
    control characters escaped. Raises SpawnFailed.
    """
    role = HostRole(script, ignored)
    program = find_program(command[0], None, os.environ.get("PATH", os.defpath))
    plan = LaunchPlan(argv=(program, *command[1:]), env=dict(os.environ))
    child = Child(plan, script.extension)
    try:
        difference = _Program(script, role, child, seconds, stderr).run()
    finally:
        _end_program(child)
    return ReplayOutcome(difference, role.compared)


class _Program:
    """Runs the role of the host with one process, with a selector on its pipes."""

    def __init__(
        self, script: Script, role: HostRole, child: Child, seconds: float, stderr: int
    ) -> None:
        self._side = _Side(find_dialect(script.dialect), Role.HOST)
        self._role = role
        self._child = child
        self._seconds = seconds
        self._stderr = stderr
        self._messages = 0  # how many the program has sent
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._unwritten = bytearray()  # frames, or the rest of one, for the program's stdin
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
                self._queue_due_messages()
                if self._role.is_over and not self._unwritten:
                    return self._finish(selector)
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                # Output that is not a message does not count: a program may write it without end.
                is_late = time.monotonic() >= deadline
                if is_late and not self._has_output(ready):
                    return self._role.unexpected(f"nothing within {self._seconds:g} s")
                for key, _ in ready:
                    if key.fd == self._child.stdin:
                        self._write_queued(selector)
                    elif key.fd == self._child.stderr:
                        self._copy_stderr(selector)
                    else:
                        data = _read(key.fd)
                        if not data:
                            return self._role.unexpected(self._describe_end())
                        messages_before = self._messages
                        if (difference := self._handle_output(data)) is not None:
                            return difference
                        if self._messages > messages_before:
                            deadline = time.monotonic() + self._seconds
                        elif is_late:
                            text = f"no message within {self._seconds:g} s"
                            return self._role.unexpected(text)

    def _queue_due_messages(self) -> None:
        frames = b"".join(self._side.frame(message) for message in self._role.due_messages())
        if frames:
            was_empty = not self._unwritten
            self._unwritten += frames
            if was_empty:
                self._selector.register(self._child.stdin, selectors.EVENT_WRITE)

    def _write_queued(self, selector: selectors.BaseSelector) -> None:
        try:
            del self._unwritten[: os.write(self._child.stdin, self._unwritten)]
        except BlockingIOError:
            return
        except OSError:  # the program has closed its stdin; its further output may show why
            self._unwritten.clear()
        if not self._unwritten:
            selector.unregister(self._child.stdin)

    def _copy_stderr(self, selector: selectors.BaseSelector) -> None:
        """Copy what the program has written to its stderr. Control characters are escaped, because
        a person may read it on a terminal."""
        data = _read(self._child.stderr)
        _write(self._stderr, escape_controls(self._decoder.decode(data, final=not data)).encode())
        if not data:
            selector.unregister(self._child.stderr)

    def _handle_output(self, data: bytes) -> Difference | None:
        try:
            for message, call in self._side.receive(data):
                self._messages += 1
                difference = self._role.receive(message, call)
                if difference is not None:
                    return difference
        except ExthostError as error:  # the output is not a message of the dialect
            return self._role.unexpected(error.message)
        return None

    def _finish(self, selector: selectors.BaseSelector) -> Difference | None:
        """Close the stdin of the program after the last recorded message, and compare the messages
        that it sends before it closes its stdout. A program that does not close it within
        `_END_SECONDS` is not a difference; it is ended later."""
        self._child.close_stdin()
        deadline = time.monotonic() + _END_SECONDS
        while self._child.stdout in selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            is_late, messages_before = time.monotonic() >= deadline, self._messages
            for key, _ in ready:
                if key.fd == self._child.stderr:
                    self._copy_stderr(selector)
                    continue
                data = _read(key.fd)
                if not data:
                    selector.unregister(key.fd)
                elif (difference := self._handle_output(data)) is not None:
                    return difference
            if is_late and self._messages == messages_before:
                return None
        return None

    def _has_output(self, ready: Sequence[tuple[selectors.SelectorKey, int]]) -> bool:
        """Return whether stdout is among the descriptors that are ready."""
        return any(key.fd == self._child.stdout for key, _ in ready)

    def _describe_end(self) -> str:
        status = self._child.poll_exit() if _wait_for_exit(self._child) else None
        return "it closed its stdout, and still runs" if status is None else f"it ended: {status}"


def _end_program(child: Child) -> None:
    """End the program: close its stdin, then send SIGTERM, then SIGKILL."""
    child.close_stdin()
    # None: wait first, because the closed stdin may be enough. The second SIGKILL only gives a
    # second wait, because a killed process may take longer to end.
    for stop in (None, child.terminate, child.kill, child.kill):
        if stop is not None:
            stop()
        if _wait_for_exit(child):
            break
    child.reap()
    child.close_outputs()


def _wait_for_exit(child: Child) -> bool:
    """Wait up to `_END_SECONDS` for the program to end, and return whether it has ended."""
    with selectors.DefaultSelector() as selector:
        selector.register(child.exit_fd, selectors.EVENT_READ)
        selector.select(_END_SECONDS)
    return child.poll_exit() is not None


def _read(fd: int) -> bytes:
    """Return the next bytes; b"" at the end of the input or after an error."""
    try:
        return os.read(fd, READ_BYTES)
    except OSError:
        return b""


def _write(fd: int, data: bytes) -> None:
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(fd, unwritten) :]
