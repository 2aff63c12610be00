"""One process under check, with raw pipes: it records the last bytes and audits every message.

`exthost check` starts an extension several times, and each process is a `CheckedProcess`. The
checks send requests through it, and turn the `problems` that it has found into findings:

    process = CheckedProcess(launch, spec, dialect, conformance, host_memory)
    offer = await process.run_handshake(dialect.handshake(context), seconds)
    reply = await process.request(Request("ping", {}), seconds)
    await process.kill()

It uses the same `Conversation` as the host's session (which matches replies to requests), but not a
session, because a session writes each message as a whole and accepts many mistakes. This class can
also write a message byte by byte, write bytes that are not a message, and send signals.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from exthost.authoring.check.host_memory import HostMemory
from exthost.authoring.check.pipes import Pipes
from exthost.dialects.base import Dialect
from exthost.dialects.calls import ToolCall
from exthost.dialects.conformance import Conformance, Problem
from exthost.dialects.message_audit import MessageAudit, explain_violation
from exthost.dialects.steps import Exchanges, Handshake, as_generator
from exthost.errors import ExthostError, ProtocolViolation, escape_controls
from exthost.launch.limits import resolve_limits
from exthost.launch.plan import Launch
from exthost.model.messages import Batch, Failure, Noise, Notification, Reply, Request
from exthost.model.offer import Offer
from exthost.model.shortened_text import shorten_to
from exthost.model.spec import Spec
from exthost.process.exit_status import ExitStatus
from exthost.session.call import Call, FutureCall
from exthost.session.conversation import Conversation
from exthost.session.effects import (
    Effect,
    End,
    Failed,
    Interrupt,
    RunHandler,
    ServeRequest,
    SetDeadline,
    Subscribed,
    WriteFrame,
    join_frame,
)
from exthost.session.failures import NotUnderstood, Violated, not_understood_error
from exthost.session.observation import Received
from exthost.session.replies import ANSWER, GeneratorHandler, ReplyHandler
from exthost.wire.framing import Broken, Bytes, Item, Skipped

Direction: TypeAlias = Literal[">", "<"]

# A piece is one read or one write. How many pieces are kept, how many of them a finding shows, and
# how many bytes of each piece it shows.
KEPT_PIECES = 12
SHOWN_PIECES = 6
SHOWN_BYTES = 240


class ByteLog:
    """The last pieces of a conversation, which findings show. `>` marks pieces that were sent, `<`
    pieces that were received."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: deque[tuple[Direction, bytearray]] = deque(maxlen=KEPT_PIECES)

    def add(self, direction: Direction, data: bytes, *, joins: bool = False) -> None:
        """Add bytes that were sent or received. With `joins` they continue the previous piece, so
        that a message that is written byte by byte becomes one piece."""
        if joins and self._pieces and self._pieces[-1][0] == direction:
            last = self._pieces[-1][1]
            last += data[: max(0, 4 * SHOWN_BYTES - len(last))]
        else:
            self._pieces.append((direction, bytearray(data[: 4 * SHOWN_BYTES])))

    def clear(self) -> None:
        """Remove all pieces, so that findings show nothing before the next message."""
        self._pieces.clear()

    def format_last(self, offending: bytes = b"") -> tuple[str, ...]:
        """Return the last pieces as text, up to the received piece that contains the `offending`
        bytes; without such a piece, up to the end."""
        pieces = list(self._pieces)
        end = len(pieces)
        if offending:
            # A piece may end within the offending bytes, so only their beginning is searched for.
            head = offending[:60]
            for position in range(len(pieces) - 1, -1, -1):
                if pieces[position][0] == "<" and head in pieces[position][1]:
                    end = position + 1
                    break
        chosen = pieces[max(0, end - SHOWN_PIECES) : end]
        return tuple(f"{direction} {format_bytes(data)}" for direction, data in chosen)


def format_bytes(data: bytes | bytearray) -> str:
    """Return bytes as text in one line, shortened. Control characters, and bytes that are not
    UTF-8, are escaped."""
    shortened = bytes(data[:SHOWN_BYTES])
    text = shortened.decode("utf-8", "backslashreplace")
    text = text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
    return escape_controls(text) + ("…" if len(data) > SHOWN_BYTES else "")


# How many different problems of one rule are kept for a process, and how many characters of each.
# A program that floods its output breaks a rule with every line.
KEPT_PROBLEMS = 200
KEPT_CHARACTERS = 2000

# The time limit for a message that is written in pieces, which includes the start of the program.
_SPLIT_SECONDS = 60.0

# How many bytes of answers may wait for the process to read them, and what is counted for each
# answer besides its bytes.
_MAX_UNREAD_BYTES = 2**24
_ANSWER_BYTES = 2**12

# A frame of at most this many bytes is written byte by byte, a longer frame in about this many
# pieces.
_MAX_BYTE_BY_BYTE = 600

# How long to wait for the exit after the end of the output, to report how the process ended.
_EXIT_SECONDS = 1.0

# How long to wait for more output if the output so far contains no usable reply.
_IDLE_SECONDS = 2.0

# How long to wait for output after the end of the input was sent to a process that wrote nothing.
_LAST_OUTPUT_SECONDS = 2.0

# Rules that may be broken although the reply can be read.
_HARMLESS = frozenset(
    {"stdout-noise", "byte-order-mark", "version-member", "error-form", "reply-form", "reply-once",
     "notification-reply", "notification-form", "handshake", "input-schema", "output-schema",
     "result"}
)  # fmt: skip

Answer = Reply | Failure


class NoAnswer(Exception):
    """A request was not answered: there was no reply in time, or the process has ended."""


class AnswerTimeout(NoAnswer):
    """A request was not answered in time, though the process runs."""


class NotRead(NoAnswer):
    """A message could be written only in part, because the process does not read its stdin."""


def shorten(text: str) -> str:
    """Return a text for a finding. If it is long, because it quotes a long message of the process,
    it is cut, and `…` marks the cut."""
    return shorten_to(KEPT_CHARACTERS, text)


class CheckedProcess:
    """A started process, and the conversation with it.

    byte_log            the last bytes that were sent and received
    problems            the broken rules, each with the bytes that led to it; at most KEPT_PROBLEMS
                        of each rule
    is_broken           whether the output cannot be read any further
    splits              whether every message is written in pieces
    writes_at_end_only  whether it does not flush its output; see `find_unflushed_output`
    """

    def __init__(
        self,
        launch: Launch,
        spec: Spec,
        dialect: Dialect,
        conformance: Conformance,
        host_memory: HostMemory,
    ) -> None:
        """Start the process. `conformance` has the rules of the dialect. `host_memory` answers the
        requests of the process to the host. Raises SpawnFailed."""
        self.dialect = dialect
        self.launch = launch
        self.byte_log = ByteLog()
        self.problems: list[tuple[Problem, tuple[str, ...]]] = []
        self.is_broken = False
        self.splits = False
        self.writes_at_end_only = False
        self._spec = spec
        self._host_memory = host_memory
        self._result_violations = conformance.result_violations
        self._bytes_received = 0
        self._is_inside_frame = False  # the last output completed no frame
        self._audit = MessageAudit(conformance)
        self._known_problems: dict[str, set[str]] = {}  # rule → messages of `problems`
        # `resolve_limits` always sets this limit; 2**26 is only for the type checker.
        self.max_message_bytes = resolve_limits(spec, dialect).max_message or 2**26
        self._conversation = Conversation(dialect, self.max_message_bytes)
        self._conversation.observe(self)
        self._decoded: list[Received] = []  # the messages in the frame that is handled
        self._unwritten: deque[bytes] = deque()  # frames of operations
        # The time limit of the current step of an operation, and how many steps were taken.
        self._step_seconds = 0.0
        self._steps = 0
        self._sent_methods: list[str] = []
        self._numbers: dict[Call, int] = {}  # of the last request of each call, from 1
        self._answered_requests = 0  # the number of the last request that was answered
        self._loop = asyncio.get_running_loop()
        # Held while a message is written, so that no other message is written inside it.
        self._write_lock = asyncio.Lock()
        self._answers: set[asyncio.Task[None]] = set()  # each writes an answer
        self._answer_bytes = 0  # of these answers
        self._output_arrived = asyncio.Event()
        self._changed = asyncio.Event()  # set when a call may have ended or taken a step
        self.pipes = Pipes(launch.plan, spec.id, self._on_output, self._on_exit)

    # -- receiving ---------------------------------------------------------------------------

    def _on_output(self, data: bytes) -> None:
        """Handle the bytes of one read; b"" is the end of the output."""
        if not data:
            self._output_arrived.set()
            # Wait for the exit, because its status explains more than the end of the output.
            self._loop.call_later(_EXIT_SECONDS, self._fail_all)
            if self.pipes.has_exited:
                self._fail_all()
            return
        self.byte_log.add("<", data)
        self._bytes_received += len(data)
        self._is_inside_frame = True
        self._record(self._audit.check_bytes(data))
        if self.is_broken:
            return
        for item in self._conversation.framing.feed(data):
            self._receive(item)
        self._output_arrived.set()
        self._changed.set()

    def _receive(self, item: Item) -> None:
        """Handle a frame, or bytes that are not one: audit it, and perform its effects."""
        self._decoded = []  # `received` adds the messages of the frame
        effects = self._conversation.receive([item])
        if isinstance(item, Skipped | Broken):
            self._record([self._audit.check_item(item)])
            self.is_broken |= isinstance(item, Broken)
        else:
            self._is_inside_frame = False
            if self._decoded:
                message, *others = self._decoded
                incoming: Any = Batch((message, *others)) if others else message  # type: ignore[arg-type]
                self._record(self._audit.check_frame(item, incoming))
            else:
                self._handle_unreadable(item, effects)
        self._perform(effects)
        if self.is_broken:
            self._fail_all()

    def _handle_unreadable(self, frame: Bytes, effects: list[Effect]) -> None:
        """Handle a frame that could not be decoded, so that the conversation is over."""
        self.is_broken = True
        cause = effects[0].cause if effects and isinstance(effects[0], End) else None
        if isinstance(cause, NotUnderstood):
            error = not_understood_error(cause.exception)
            self._record([Problem("frame", error.message, bytes(frame), error.help)])
        if not isinstance(cause, Violated):
            return
        violation = cause.violation
        if violation.code in self._result_violations:
            self._fail_all(violation)
        else:
            self._record(self._audit.check_frame(frame, Noise(b"", "")))
            self._record([explain_violation(violation.message, bytes(frame))])

    def sent(self, frame: bytes, method: str, call: Call | None) -> None:
        """Note a request, as the observer of the conversation."""
        if method:
            self._sent_methods.append(method)
            if call is not None:
                self._numbers[call] = len(self._sent_methods)
                assert call.id is not None
                self._audit.add_request(call.id, method)

    def received(self, message: Received, item: Item, call: Call | None) -> None:
        """Note a message, as the observer of the conversation."""
        self._decoded.append(message)
        if call is not None and not isinstance(message, Notification):
            self._answered_requests = max(self._answered_requests, self._numbers.get(call, 0))

    def _perform(self, effects: list[Effect]) -> None:
        """Perform the effects that matter here. The audit reports what is wrong with a message."""
        for effect in effects:
            match effect:
                case list():
                    for call, value in effect:
                        call.deliver(value)
                case Failed(call, error):
                    # An operation raises the error of the dialect. A single request raises NoAnswer
                    # for everything that is not a reply.
                    is_operation = isinstance(call.reply_handler, GeneratorHandler)
                    call.reject(error if is_operation else NoAnswer(error.message))
                case ServeRequest(request):
                    self._write_answer(self._host_memory.answer(request, self._spec, self.dialect))
                case WriteFrame(frame):
                    self._unwritten.append(join_frame(frame))
                case SetDeadline(call, seconds):
                    self._step_seconds = call.timeout if seconds is None else seconds
                    self._steps += 1
                case RunHandler(call, request):
                    refusal = Failure(None, "no handler runs during a check", -32601)
                    self._perform(self._conversation.resume(call, request.id, refusal))
                case Subscribed(id, subscription):
                    self._audit.add_request(id, subscription.request.method)
                case Interrupt(exception):
                    raise exception
        self._changed.set()

    def _write_answer(self, message: Answer) -> None:
        """Write the answer to a request of the process, after the message that is being written. It
        is lost if the process does not read the answers to earlier requests."""
        data = self._conversation.encode(message)
        if self._answer_bytes > _MAX_UNREAD_BYTES:
            return
        self.byte_log.add(">", data)
        task = self._loop.create_task(self._write_whole(data))
        self._answers.add(task)
        self._answer_bytes += len(data) + _ANSWER_BYTES

        def forget(task: asyncio.Task[None]) -> None:
            self._answers.discard(task)
            self._answer_bytes -= len(data) + _ANSWER_BYTES

        task.add_done_callback(forget)

    async def _write_whole(self, data: bytes) -> None:
        try:
            async with self._write_lock:
                await self.pipes.write(data)
        except OSError:
            pass  # the process has closed its stdin

    def _on_exit(self) -> None:
        if self.pipes.ended.is_set():
            self._fail_all()

    def _fail_all(self, violation: ProtocolViolation | None = None) -> None:
        """Fail all calls, because no reply can arrive any more."""
        for call in self._calls():
            call.reject(violation or NoAnswer(self.describe_end()))
            if not call.future.cancelled():
                # Mark the exception as retrieved: otherwise asyncio logs one that is never awaited.
                call.future.exception()
        self._conversation.pending.clear()
        self._changed.set()

    def _calls(self) -> list[FutureCall]:
        return [call for call in self._conversation.calls() if isinstance(call, FutureCall)]

    def _record(self, problems: Sequence[Problem]) -> None:
        for problem in problems:
            known = self._known_problems.setdefault(problem.rule, set())
            message = shorten(problem.message)
            if message not in known and len(known) < KEPT_PROBLEMS:
                known.add(message)
                exchange = self.byte_log.format_last(problem.data)
                # Without the data, which may have many megabytes.
                self.problems.append((problem._replace(message=message, data=b""), exchange))

    # -- sending -----------------------------------------------------------------------------

    async def write(self, data: bytes, *, split: bool = False, seconds: float = 10.0) -> None:
        """Write bytes unchanged. With `split`, write them in pieces, each after the process has
        read the previous one. Raises NotRead if the process does not read them in `seconds`, and
        NoAnswer if it has ended."""
        step = 1 if len(data) <= _MAX_BYTE_BY_BYTE else len(data) // _MAX_BYTE_BY_BYTE + 1
        pieces = [data[at : at + step] for at in range(0, len(data), step)] if split else [data]
        try:
            async with asyncio.timeout(seconds), self._write_lock:
                for number, piece in enumerate(pieces):
                    self.byte_log.add(">", piece, joins=split and number > 0)
                    await self.pipes.write(piece)
                    if split:
                        # A process that is still starting may read its first byte late.
                        await self.pipes.wait_read(has_begun=number > 0)
        except TimeoutError:
            raise NotRead(f"it does not read its stdin: {self.describe_end()}") from None
        except OSError:
            # It has closed its stdin. Usually because it exits, and the status explains more.
            await self.pipes.exits_within(_EXIT_SECONDS)
            raise NoAnswer(self.describe_end(when_running="it closed its stdin")) from None

    def prepare_request(self, request: Request) -> tuple[bytes, FutureCall]:
        """Number a request, so that its reply is expected. Return its bytes, which the caller must
        write, and its call, whose future gets the reply."""
        call = self._make_call(request.method, request.params, ANSWER, 0.0)
        return self._conversation.request(request, call), call

    def _make_call(
        self, method: str, params: Any, handler: ReplyHandler, seconds: float
    ) -> FutureCall:
        future = self._loop.create_future()
        return FutureCall(method, params, handler, seconds, self._loop.time(), future)

    async def request(self, request: Request, seconds: float) -> Answer:
        """Send a request and return the reply. Raises NoAnswer."""
        data, call = self.prepare_request(request)
        await self.write(data, split=self.splits, seconds=self._write_seconds(seconds))
        return await self.wait_for(call, seconds)

    def _write_seconds(self, seconds: float) -> float:
        return max(seconds, _SPLIT_SECONDS) if self.splits else seconds

    async def wait_for(self, call: FutureCall, seconds: float) -> Answer:
        """Return the reply when it arrives. Raises NoAnswer, before the time limit if the process
        wrote something unusable and nothing more for a while."""
        try:
            await self._wait_until(call.future.done, call.method, seconds)
        except NoAnswer:
            call.future.cancel()
            raise
        answer: Answer = call.future.result()
        return answer

    async def _wait_until(self, is_done: Callable[[], bool], method: str, seconds: float) -> None:
        """Wait for something that a message of the process does. Raises NoAnswer as `wait_for`
        does; `method` is for the error."""
        if self.is_broken or (self.pipes.has_exited and self.pipes.ended.is_set()):
            self._fail_all()
        deadline = self._loop.time() + seconds
        while not is_done():
            remaining = deadline - self._loop.time()
            if remaining <= 0:
                raise AnswerTimeout(f"{method} was not answered in {seconds:g} s")
            bytes_before = self._bytes_received
            self._changed.clear()
            try:
                async with asyncio.timeout(min(remaining, _IDLE_SECONDS)):
                    await self._changed.wait()
            except TimeoutError:
                if self._has_unusable_output and bytes_before == self._bytes_received:
                    message = f"{method} was not answered: the reply cannot be used"
                    raise NoAnswer(message) from None

    @property
    def _has_unusable_output(self) -> bool:
        """Whether the output contains bytes that are not a message, or only a part of a message."""
        return self._is_inside_frame or any(
            problem.rule not in _HARMLESS for problem, _ in self.problems
        )

    async def notify(self, notification: Notification) -> None:
        """Send a notification. Raises NoAnswer."""
        data = self._conversation.encode(notification)
        await self.write(data, split=self.splits, seconds=_SPLIT_SECONDS)

    # -- operations --------------------------------------------------------------------------

    async def run_handshake(self, steps: Handshake, seconds: float) -> Offer:
        """Run the handshake and return the offer. `seconds` is the time limit of each request.
        Raises NoAnswer, and the errors of the dialect's handshake."""
        offer: Offer = await self._run("the handshake", steps, seconds)
        self._conversation.open(offer)
        return offer

    async def call_tool(self, call: ToolCall, seconds: float) -> Any:
        """Call a tool and return its result. Raises NoAnswer, CallFailed or ProtocolViolation."""
        steps = as_generator(self.dialect.operations["call_tool"], call, call.name)
        return await self._run(call.name, steps, seconds)

    async def _run(self, name: str, steps: Exchanges | Handshake, seconds: float) -> Any:
        """Run the generator of an operation and return its value. `seconds` is the time limit of
        each request."""
        handler = GeneratorHandler(steps, limits_each_request=True)
        call = self._make_call(name, None, handler, seconds)
        self._perform(self._conversation.begin(call))
        try:
            while True:
                while self._unwritten:
                    frame = self._unwritten.popleft()
                    write_seconds = self._write_seconds(seconds)
                    await self.write(frame, split=self.splits, seconds=write_seconds)
                if call.future.done():
                    return call.future.result()
                await self._wait_for_step(call, handler)
        finally:
            if not call.future.done():
                self._give_up(call, handler)

    async def _wait_for_step(self, call: FutureCall, handler: GeneratorHandler) -> None:
        """Wait until an operation has taken a step. An optional step may be without a reply."""
        steps_before = self._steps

        def is_done() -> bool:
            return call.future.done() or self._steps > steps_before or bool(self._unwritten)

        try:
            await self._wait_until(is_done, handler.awaited or call.method, self._step_seconds)
        except NoAnswer:
            if not handler.is_optional or self.pipes.ended.is_set() or self.is_broken:
                raise
            self._perform(self._conversation.continue_without_reply(call))

    def _give_up(self, call: FutureCall, handler: GeneratorHandler) -> None:
        """End an operation. The reply to its request may still come, and is then dropped."""
        handler.close()
        self._unwritten.clear()
        call.reply_handler = ANSWER
        call.future.cancel()
        if not isinstance(call.id, int | str):  # it waited for a notification
            self._conversation.requests.forget(call)

    # -- the end -----------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Whether the process runs and its output can be read."""
        return self.pipes.status is None and not self.pipes.ended.is_set() and not self.is_broken

    @property
    def has_written(self) -> bool:
        """Whether the process has written anything to its stdout."""
        return self._bytes_received > 0

    @property
    def has_read(self) -> bool:
        """Whether the process has read everything that was sent to it."""
        return not self.pipes.count_unread()

    async def find_unflushed_output(self, seconds: float = _LAST_OUTPUT_SECONDS) -> None:
        """Close the stdin of a process that has written nothing, and set `writes_at_end_only` if it
        writes then: it keeps its output in a buffer and does not flush it."""
        self._output_arrived.clear()
        self.pipes.close_stdin()
        try:
            async with asyncio.timeout(seconds):
                await self._output_arrived.wait()
        except TimeoutError:
            return
        self.writes_at_end_only = self.has_written

    def describe_end(self, when_running: str = "the process still runs") -> str:
        """Return a phrase that says how the process ended; `when_running` if it has not."""
        status = self.pipes.status
        if self.is_broken:
            return "its output cannot be read any further"
        if status is not None:
            return f"the process {status}"
        return "it closed its stdout" if self.pipes.ended.is_set() else when_running

    async def find_own_end(self) -> ExitStatus | None:
        """Return how the process ended without a request to end; None if it runs. Call it before
        anything ends the process."""
        if self.pipes.ended.is_set():
            return await self.pipes.exits_within(_EXIT_SECONDS)
        return self.pipes.status

    def describe_place(self) -> str:
        """Return which request the process answered last, or had to answer next."""
        number = self._answered_requests
        if number < len(self._sent_methods):
            return f"during request {number + 1} ({self._sent_methods[number]})"
        return (
            f"after request {number} ({self._sent_methods[-1]})" if number else "before a request"
        )

    def unfinished_frame(self) -> Problem | None:
        """Return the problem of an incomplete frame at the end of the output, or None. No frame can
        be read after this call."""
        broken = self._conversation.framing.end()
        # In UTF-16 the second half of a newline is always left.
        known = any(problem.rule in ("utf8", "frame") for problem, _ in self.problems)
        if broken is None or known:
            return None
        reason = broken.reason
        if self._conversation.framing.suffix is not None:
            reason = (
                "its output does not end with a newline (\\n), so its last message is not complete"
            )
        return Problem("frame", reason, broken.head)

    async def kill(self) -> None:
        """Kill the process if it runs, and release everything."""
        for task in self._answers:
            task.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)
        await self.pipes.kill()
        self._record(self._audit.finish())
        for call in self._calls():
            call.future.cancel()


def describe_error(error: BaseException) -> str:
    """Return the message of an error."""
    return error.message if isinstance(error, ExthostError) else str(error)
