"""One process under check, with raw pipes: it records the last bytes and audits every message.

It does not use the host's session, because a session writes each message as a whole and accepts
many mistakes. This class can also write a message byte by byte, write bytes that are not a message,
and send signals. Replies are matched by their ids; in positional dialects, whose replies carry no
id, by their order.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from exthost.authoring.check.byte_log import ByteLog
from exthost.authoring.check.pipes import Pipes
from exthost.dialects.base import Dialect
from exthost.dialects.codec import Role
from exthost.dialects.conformance import Conformance, Problem
from exthost.dialects.message_audit import MessageAudit, explain_violation
from exthost.dialects.steps import Handshake, Received, Subscribe, TryRequest, WaitFor
from exthost.errors import ExthostError, ProtocolViolation
from exthost.launch.limits import resolve_limits
from exthost.launch.plan import Launch
from exthost.model.messages import Batch, Failure, Id, Incoming, Noise, Notification, Reply, Request
from exthost.model.offer import Offer
from exthost.model.spec import Spec
from exthost.process.exit_status import ExitStatus
from exthost.wire.framing import Broken, Bytes, Skipped

# The time limit for a message that is written in pieces, which includes the start of the program.
_SPLIT_SECONDS = 60.0

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


class CheckedProcess:
    """A started process, and the conversation with it."""

    def __init__(
        self, launch: Launch, spec: Spec, dialect: Dialect, conformance: Conformance
    ) -> None:
        """Start the process. Raises SpawnFailed."""
        self.dialect = dialect
        self.launch = launch
        self.byte_log = ByteLog()
        self.problems: list[tuple[Problem, tuple[str, ...]]] = []
        self.notifications: list[Notification] = []
        self.is_broken = False  # whether the output cannot be read any further
        self.splits = False  # whether every message is written in pieces
        self.writes_at_end_only = False  # see `find_unflushed_output`
        self._host_results = conformance.host_results
        self._result_violations = conformance.result_violations
        self._bytes_received = 0
        self._is_inside_frame = False  # the last output completed no frame
        self._audit = MessageAudit(conformance)
        # `resolve_limits` always sets this limit; 2**26 is only for the type checker.
        self.max_message_bytes = resolve_limits(spec, dialect).max_message or 2**26
        self._framing = dialect.framing(self.max_message_bytes)
        self._codec = dialect.codec(Role.HOST)
        self._next_id = dialect.traits.first_id
        self._waiting: dict[Id, asyncio.Future[Answer]] = {}
        self._in_order: deque[asyncio.Future[Answer]] = deque()
        self._sent_methods: list[str] = []
        self._numbers: dict[asyncio.Future[Answer], int] = {}  # of requests, from 1
        self._answered_requests = 0  # the number of the last request that was answered
        self._loop = asyncio.get_running_loop()
        self._output_came = asyncio.Event()
        self.pipes = Pipes(launch.plan, spec.id, self._on_output, self._on_exit)

    # -- receiving ---------------------------------------------------------------------------

    def _on_output(self, data: bytes) -> None:
        if not data:
            self._output_came.set()
            # Wait for the exit, because its status explains more than the end of the output.
            self._loop.call_later(_EXIT_SECONDS, self._fail_all)
            if self.pipes.has_exited:
                self._fail_all()
            return
        self.byte_log.add("<", data)
        self._bytes_received += len(data)
        self._is_inside_frame = True
        self._note(self._audit.check_bytes(data))
        if self.is_broken:
            return
        for item in self._framing.feed(data):
            if isinstance(item, Skipped | Broken):
                self._note([self._audit.check_item(item)])
                self.is_broken |= isinstance(item, Broken)
            else:
                self._is_inside_frame = False
                self._receive(item)
        self._output_came.set()
        if self.is_broken:
            self._fail_all()

    def _receive(self, frame: Bytes) -> None:
        try:
            incoming = self._codec.decode(frame)
        except ProtocolViolation as violation:
            self.is_broken = True
            if violation.code in self._result_violations:
                self._fail_all(violation)
                return
            self._note(self._audit.check_frame(frame, Noise(b"", "")))
            self._note([explain_violation(violation.message, bytes(frame))])
            return
        self._note(self._audit.check_frame(frame, incoming))
        for message in incoming.messages if isinstance(incoming, Batch) else (incoming,):
            self._handle(message)

    def _handle(self, incoming: Incoming) -> None:
        if type(incoming) is tuple:
            incoming = Reply(*incoming)
        if isinstance(incoming, Reply | Failure):
            future = self._waiting.pop(incoming.id, None) if incoming.id is not None else None
            if self.dialect.traits.positional and self._in_order:
                future = self._in_order.popleft()
            if future is not None:
                number = self._numbers.pop(future, 0)
                self._answered_requests = max(self._answered_requests, number)
            if future is not None and not future.done():
                future.set_result(incoming)
        elif isinstance(incoming, Request):
            self._write_answer(self._host_answer(incoming))
        elif isinstance(incoming, Notification):
            self.notifications.append(incoming)

    def _host_answer(self, request: Request) -> Answer:
        if request.method in self._host_results:
            return Reply(request.id, self._host_results[request.method])
        return self.dialect.refuse(request)

    def _write_answer(self, message: Answer) -> None:
        data = self._framing.wrap(self._codec.encode(message))
        self.byte_log.add(">", data)
        self.pipes.write_now(data)

    def _on_exit(self) -> None:
        if self.pipes.ended.is_set():
            self._fail_all()

    def _fail_all(self, violation: ProtocolViolation | None = None) -> None:
        for future in [*self._waiting.values(), *self._in_order]:
            if not future.done():
                future.set_exception(violation or NoAnswer(self.describe_end()))
                # Mark the exception as retrieved: otherwise asyncio logs one that nobody awaits.
                future.exception()
        self._waiting.clear()
        self._in_order.clear()

    def _note(self, problems: Sequence[Problem]) -> None:
        for problem in problems:
            self.problems.append((problem, self.byte_log.format_last(problem.data)))

    # -- sending -----------------------------------------------------------------------------

    async def write(self, data: bytes, *, split: bool = False, seconds: float = 10.0) -> None:
        """Write bytes unchanged. With `split`, write them in pieces, each after the process has
        read the previous one. Raises NotRead if the process does not read them in `seconds`, and
        NoAnswer if it has ended."""
        step = 1 if len(data) <= _MAX_BYTE_BY_BYTE else len(data) // _MAX_BYTE_BY_BYTE + 1
        pieces = [data[at : at + step] for at in range(0, len(data), step)] if split else [data]
        try:
            async with asyncio.timeout(seconds):
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

    def register_request(self, request: Request) -> tuple[bytes, Request]:
        """Number a request and register it, so that its reply is expected. Return its bytes, which
        the caller must write, and the numbered request."""
        id = request.id
        if id is None:
            id, self._next_id = self._next_id, self._next_id + 1
        numbered = request._replace(id=id)
        data = self._framing.wrap(self._codec.request(request.method, request.params, id))
        self._audit.add_request(id, request.method)
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._sent_methods.append(request.method)
        self._numbers[future] = len(self._sent_methods)
        if self.dialect.traits.positional:
            self._in_order.append(future)
        else:
            self._waiting[id] = future
        return data, numbered

    def find_reply_future(self, request: Request) -> "asyncio.Future[Answer]":
        """Return the future of the reply to a request that `register_request` returned. In
        positional dialects it must be the last one."""
        if self.dialect.traits.positional:
            return self._in_order[-1]
        assert request.id is not None
        return self._waiting[request.id]

    async def request(self, request: Request, seconds: float) -> Answer:
        """Send a request and return the reply. Raises NoAnswer."""
        data, numbered = self.register_request(request)
        future = self.find_reply_future(numbered)
        write_seconds = max(seconds, _SPLIT_SECONDS) if self.splits else seconds
        await self.write(data, split=self.splits, seconds=write_seconds)
        return await self.wait_for(future, request.method, seconds)

    async def wait_for(
        self, future: "asyncio.Future[Answer]", method: str, seconds: float
    ) -> Answer:
        """Return the reply when it arrives. `method` is for the error. Raises NoAnswer, before the
        time limit if the process wrote something unusable and nothing more for a while."""
        if self.is_broken or (self.pipes.has_exited and self.pipes.ended.is_set()):
            self._fail_all()
        deadline = self._loop.time() + seconds
        while (remaining := deadline - self._loop.time()) > 0:
            bytes_before = self._bytes_received
            await asyncio.wait([future], timeout=min(remaining, _IDLE_SECONDS))
            if future.done():
                return future.result()
            if self._has_unusable_output and bytes_before == self._bytes_received:
                future.cancel()
                raise NoAnswer(f"{method} was not answered: what came cannot be used")
        future.cancel()
        raise AnswerTimeout(f"{method} was not answered in {seconds:g} s")

    @property
    def _has_unusable_output(self) -> bool:
        """Whether the output contains bytes that are not a message, or only a part of a message."""
        return self._is_inside_frame or any(
            problem.rule not in _HARMLESS for problem, _ in self.problems
        )

    async def notify(self, notification: Notification) -> None:
        """Send a notification. Raises NoAnswer."""
        data = self._framing.wrap(self._codec.encode(notification))
        await self.write(data, split=self.splits, seconds=_SPLIT_SECONDS)

    # -- the handshake -----------------------------------------------------------------------

    async def shake_hands(self, steps: Handshake, seconds: float) -> Offer:
        """Run the handshake and return the offer. `seconds` is the time limit of each request.
        Raises NoAnswer, and the errors of the dialect's handshake."""
        received: Received = None
        while True:
            try:
                step = steps.send(received)
            except StopIteration as end:
                offer: Offer = end.value
                return offer
            received = None
            match step:
                case Request():
                    received = await self.request(step, seconds)
                case TryRequest(request, limit):
                    received = await self._try_request(request, min(limit, seconds))
                case Notification():
                    await self.notify(step)
                case Subscribe():
                    data, _ = self.register_request(step.request)
                    await self.write(data, split=self.splits, seconds=_SPLIT_SECONDS)
                case WaitFor():
                    received = await self._wait_for_notification(step, seconds)

    async def _try_request(self, request: Request, seconds: float) -> Answer | None:
        try:
            return await self.request(request, seconds)
        except NotRead:
            # A part of the request is in the pipe, and the next request would be appended to it.
            raise
        except NoAnswer:
            if self.pipes.ended.is_set() or self.is_broken:
                raise
            return None

    async def _wait_for_notification(self, step: WaitFor, seconds: float) -> Notification | None:
        try:
            async with asyncio.timeout(step.seconds or seconds):
                while True:
                    for notification in self.notifications:
                        if notification.method == step.method and step.matches(notification.params):
                            return notification
                    self._output_came.clear()
                    await self._output_came.wait()
        except TimeoutError:
            return None

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
        self._output_came.clear()
        self.pipes.close_stdin()
        try:
            async with asyncio.timeout(seconds):
                await self._output_came.wait()
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
        """Return how the process ended although nothing told it to; None if it runs. Call it before
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
        broken = self._framing.end()
        # In UTF-16 the second half of a newline is always left.
        known = any(problem.rule in ("utf8", "frame") for problem, _ in self.problems)
        if broken is None or known:
            return None
        why = broken.why
        if self._framing.suffix is not None:
            why = (
                "its output does not end with a newline (\\n), so its last message is not complete"
            )
        return Problem("frame", why, broken.head)

    async def kill(self) -> None:
        """Kill the process if it runs, and release everything."""
        await self.pipes.kill()
        self._note(self._audit.finish())
        for future in [*self._waiting.values(), *self._in_order]:
            future.cancel()


def describe_error(error: BaseException) -> str:
    """Return the message of an error."""
    return error.message if isinstance(error, ExthostError) else str(error)
