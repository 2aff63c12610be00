"""Calls of an extension that is written with the SDK, in each dialect (the protocol it speaks).

The claims: calls run at the same time, a handler learns that its call was cancelled, the items of a
generator are sent as they come, and a handler can make requests to the host. Some tests run a
program in a process of its own (`running_extension`), the others an extension in this process
(`testing.connect`).
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from exthost_sdk.errors import CallCancelled, HostError, ToolError
from exthost_sdk.serving.call import HandlerCall
from exthost_sdk.serving.host_requests import HostRequests

from exthost.errors import CallFailed, CallTimeout
from exthost.sdk import Context, Extension, testing
from tests.authoring.sdk.programs import WAITING, running_extension


@pytest.mark.more
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "roder", "mcp"])
async def test_a_hundred_calls_run_at_the_same_time(dialect: str, tmp_path: Path) -> None:
    async with running_extension(WAITING, dialect, tmp_path) as ext:
        # Each call returns only when a hundred of them run.
        calls = (ext.call_tool("meet", {"of": 100}) for _ in range(100))
        results = await asyncio.gather(*calls)
        assert {result.text for result in results} == {"100"}
        calls = (ext.call_tool("meet_in_threads") for _ in range(100))
        results = await asyncio.gather(*calls)
        assert len({result.text for result in results}) == 100, "each has a thread of its own"


async def test_synchronous_functions_run_in_the_order_of_their_requests() -> None:
    ext = Extension("plain")
    numbers: list[int] = []

    @ext.tool
    def note(number: int) -> int:
        numbers.append(number)
        return number

    async with testing.connect(ext, dialect="nexo") as client:
        results = await asyncio.gather(
            *(client.call_tool("note", {"number": number}) for number in range(100))
        )
    assert numbers == list(range(100)) and [result.data for result in results] == numbers


@pytest.mark.parametrize("tool", ["hang", "hang_in_a_thread"])
async def test_a_cancelled_call_is_reported_to_its_handler(tool: str, tmp_path: Path) -> None:
    async with running_extension(WAITING, "mcp", tmp_path) as ext:
        has_started = asyncio.Event()
        call = asyncio.create_task(
            ext.call_tool(tool, {"name": "it"}, on_progress=lambda _: has_started.set())
        )
        await has_started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        events = await ext.call_tool("wait_for", {"event": "it cancelled"})
        assert events.data == {"result": ["it cancelled"]}
        with pytest.raises(CallTimeout):
            await ext.call_tool(tool, {"name": "late"}, timeout=0.05)
        events = await ext.call_tool("wait_for", {"event": "late cancelled"})
        assert events.data == {"result": ["it cancelled", "late cancelled"]}


async def test_leaving_a_stream_of_roder_cancels_its_generator() -> None:
    """In roder, calls with streams are tasks (`client.tasks`). Each item is a chunk, a line."""
    ext = Extension("ticker")
    ended = asyncio.Event()

    @ext.stream
    async def tick() -> Any:
        """Tick for ever."""
        try:
            while True:
                yield "tick"
                await asyncio.sleep(0.001)
        finally:
            loop.call_soon_threadsafe(ended.set)

    loop = asyncio.get_running_loop()
    async with testing.connect(ext, dialect="roder") as client:
        async with client.tasks.execute({}) as stream:
            async for event in stream:
                assert event.chunk == "tick\n"
                break
        await ended.wait()


async def test_a_stream_waits_for_a_host_that_reads_slowly() -> None:
    """The host reads only as fast as its consumer, and the generator waits for the host.

    Without that, `sent` would grow by far more than the limit while 5,000 items are received.
    """
    ext = Extension("flood")
    sent = 0

    @ext.stream
    async def flood() -> Any:
        """Send for ever."""
        nonlocal sent
        while True:
            yield "x" * 1000
            sent += 1

    async with (
        testing.connect(ext, dialect="roder") as client,
        client.tasks.execute({}) as stream,
    ):
        received = 0
        async for _ in stream:
            received += 1
            # The queue of the host, the socket and the writer keep a few hundred items each.
            assert sent - received < 5_000
            if received == 5_000:
                break


# -- failures ----------------------------------------------------------------------------------


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("this error has no text")


class Incomplete(ToolError):
    """An error of an author who forgot the constructor of the base class."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


# How a handler fails, and the text that the host gets in every dialect.
UNUSUAL_FAILURES: dict[str, tuple[BaseException, str]] = {
    "data without a JSON form": (ToolError("try later", data=object()), "try later"),
    "a message that is not text": (ToolError(12), "12"),  # type: ignore[arg-type]
    "an error without a text": (Unreadable(), "Unreadable"),
    "an incomplete error": (Incomplete("late"), "cannot be read"),
    "a cancellation": (asyncio.CancelledError(), "[Cc]ancelled"),
    "the end of a generator": (GeneratorExit(), "GeneratorExit"),
    "an exit": (SystemExit(3), "SystemExit: 3"),
    "an interrupt": (KeyboardInterrupt(), "KeyboardInterrupt"),
}


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "roder", "mcp"])
async def test_a_call_is_answered_whatever_its_handler_raises(dialect: str) -> None:
    ext = Extension("failing")

    @ext.tool
    def plain(how: str) -> None:
        raise UNUSUAL_FAILURES[how][0]

    @ext.tool(thread=True)
    def in_a_thread(how: str) -> None:
        raise UNUSUAL_FAILURES[how][0]

    @ext.tool
    async def asynchronous(how: str) -> None:
        raise UNUSUAL_FAILURES[how][0]

    @ext.tool
    async def later(how: str) -> None:
        await asyncio.sleep(0)
        raise UNUSUAL_FAILURES[how][0]

    async with testing.connect(ext, dialect=dialect) as client:
        for how, (_, text) in UNUSUAL_FAILURES.items():
            for tool in ("plain", "in_a_thread", "asynchronous", "later"):
                with pytest.raises(CallFailed, match=text):
                    await client.call_tool(tool, {"how": how}, timeout=60)


async def test_an_error_whose_data_cannot_be_sent_keeps_its_code() -> None:
    ext = Extension("failing")

    @ext.tool(thread=True)
    def fail() -> None:
        raise ToolError("try later", code=-32050, data={1: object()})

    async with testing.connect(ext, dialect="nexo") as client:
        with pytest.raises(CallFailed, match="details cannot be sent: TypeError") as caught:
            await client.call_tool("fail", timeout=60)
    assert caught.value.error_code == -32050


# -- requests to the host ----------------------------------------------------------------------


async def elicit(params: Any) -> Any:
    """Answer the extension's question to the user, as a handler of the host."""
    return {"action": "accept", "content": {"asked": params["message"]}}


ELICITATION = {
    "method": "elicitation/create",
    "params": {"message": "sure?", "requestedSchema": {}},
}


# `ask` and `ask_async` make the request that their arguments name, and return the host's answer.
@pytest.mark.parametrize("tool", ["ask", "ask_async"])
async def test_in_mcp_a_handler_runs_again_with_the_answer_of_the_host(
    tool: str, tmp_path: Path
) -> None:
    handlers = {"elicitation/create": elicit}
    era = {"era": "stateless"}
    async with running_extension(WAITING, "mcp", tmp_path, handlers=handlers, options=era) as ext:
        assert ext.offer.extra["era"] == "stateless"
        result = await ext.call_tool(tool, ELICITATION)
        assert result.data == {"action": "accept", "content": {"asked": "sure?"}}


@pytest.mark.parametrize("tool", ["ask", "ask_async"])
async def test_in_synaps_a_handler_uses_the_memory_of_the_host(tool: str, tmp_path: Path) -> None:
    async with running_extension(WAITING, "synaps", tmp_path, name="remembers") as ext:
        append = {"method": "memory.append", "params": {"content": "a note"}}
        assert (await ext.call_tool(tool, append)).data["ok"] is True
        query_result = await ext.call_tool(tool, {"method": "memory.query", "params": {}})
        assert query_result.data["records"][0]["content"] == "a note"
        with pytest.raises(CallFailed, match=r"HostError: .*empty"):
            await ext.call_tool(tool, {"method": "config.get", "params": {"key": ""}})


@pytest.mark.parametrize("dialect", ["morphir", "nexo"])
async def test_a_request_that_the_host_does_not_answer_raises_an_error(
    dialect: str, tmp_path: Path
) -> None:
    async with running_extension(WAITING, dialect, tmp_path) as ext:
        for tool in ("ask", "ask_async"):
            with pytest.raises(CallFailed, match="HostError"):
                await ext.call_tool(tool, {"method": "anything", "params": {}})


def test_a_request_whose_call_is_cancelled_at_that_moment_is_not_sent() -> None:
    """`cancel` comes from the thread that reads the input, between two steps of the handler's."""
    sent: list[bytes] = []
    call: HandlerCall

    class Requests(HostRequests):
        def open(self) -> Any:
            opened = super().open()
            call.cancel()
            return opened

    endpoint = SimpleNamespace(
        ask_host=lambda call, method, params: call.send_request(method, params),
        request=lambda number, method, params: b"request",
        cancel_request=lambda number: b"cancelled",
    )
    server: Any = SimpleNamespace(
        requests=Requests(), endpoint=endpoint, writer=SimpleNamespace(send=sent.append), thread=0
    )
    function: Any = SimpleNamespace(context_name="")
    unused: Any = None
    call = HandlerCall(server, 1, function, {}, unused, unused)
    with pytest.raises(CallCancelled):
        call.call_host("memory.get", {}, timeout=60)
    assert not sent and not server.requests._waiting
    # A request that gets no answer in time is forgotten as well.
    server.requests = HostRequests()
    other = HandlerCall(server, 2, function, {}, unused, unused)
    with pytest.raises(HostError, match="did not answer"):
        other.call_host("memory.get", {}, timeout=0.001)
    assert sent == [b"request", b"cancelled"] and not server.requests._waiting


async def test_a_blocking_request_in_the_event_loop_raises_an_error() -> None:
    ext = Extension("wrong")

    @ext.tool
    async def ask(ctx: Context) -> Any:
        return ctx.call("anything")

    async with testing.connect(ext, dialect="nexo") as client:
        with pytest.raises(CallFailed, match="await call_async"):
            await client.call_tool("ask")


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "roder", "mcp"])
async def test_the_result_of_a_returned_generator_is_its_items(dialect: str) -> None:
    ext = Extension("numbers")

    @ext.tool
    def plain(to: int) -> Any:
        return (number for number in range(to))

    @ext.tool
    async def waiting(to: int) -> Any:
        return (number for number in range(to))

    @ext.tool
    async def asynchronous(to: int) -> Any:
        async def numbers() -> AsyncIterator[int]:
            for number in range(to):
                yield number

        return numbers()

    async with testing.connect(ext, dialect=dialect) as client:
        for tool in ("plain", "waiting", "asynchronous"):
            result = await client.call_tool(tool, {"to": 3})
            assert result.text == "[0,1,2]"
            if dialect != "mcp":  # MCP omits the data of a result without a type
                assert result.data == [0, 1, 2]


async def test_each_item_of_a_returned_generator_is_sent_immediately() -> None:
    ext = Extension("numbers")
    may_continue = threading.Event()

    @ext.tool
    def slowly() -> Any:
        def numbers() -> Iterator[int]:
            yield 1
            may_continue.wait(60)
            yield 2

        return numbers()

    messages: list[str] = []

    def on_progress(progress: Any) -> None:
        messages.append(progress.message)
        may_continue.set()

    async with testing.connect(ext, dialect="mcp") as client:
        await client.call_tool("slowly", on_progress=on_progress)
    assert messages == ["1", "2"]


@pytest.mark.filterwarnings("ignore:coroutine")
async def test_a_function_that_returns_a_coroutine_gets_an_error_that_names_async_def() -> None:
    ext = Extension("forgetful")

    async def later() -> int:
        return 1

    @ext.tool
    def now() -> Any:
        return later()

    async with testing.connect(ext, dialect="nexo") as client:
        with pytest.raises(CallFailed, match="must be declared with `async def`"):
            await client.call_tool("now")


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "roder", "mcp"])
async def test_progress_that_is_not_finite_is_refused_in_every_dialect(dialect: str) -> None:
    ext = Extension("endless")

    @ext.tool
    def work(ctx: Context, current: str, total: str) -> str:
        with pytest.raises(ValueError, match="must be a finite number, not"):
            ctx.progress(float(current), float(total))
        return "refused"

    async with testing.connect(ext, dialect=dialect) as client:
        for current, total in (("inf", "1"), ("nan", "1"), ("1", "-inf")):
            result = await client.call_tool("work", {"current": current, "total": total})
            assert result.text == "refused"


async def test_a_generator_that_a_coroutine_returns_does_not_block_other_calls() -> None:
    ext = Extension("numbers")
    may_continue = threading.Event()

    @ext.tool
    async def slowly() -> Any:
        def numbers() -> Iterator[int]:
            may_continue.wait(60)
            yield 1

        return numbers()

    @ext.tool
    async def quickly() -> int:
        may_continue.set()
        return 2

    async with testing.connect(ext, dialect="mcp") as client:
        slow_call = asyncio.ensure_future(client.call_tool("slowly"))
        assert (await client.call_tool("quickly")).text == "2"
        assert (await slow_call).text == "[1]"


async def test_progress_can_be_an_integer_of_any_size() -> None:
    ext = Extension("numbers")

    @ext.tool
    def count(ctx: Context) -> str:
        ctx.progress(10**400)
        return "done"

    async with testing.connect(ext, dialect="nexo") as client:
        assert (await client.call_tool("count")).data == "done"
