"""Many calls at once, cancellation, and requests to the host."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import CallFailed, CallTimeout
from exthost.sdk import Context, Extension, testing
from tests.authoring.sdk.programs import WAITING, started


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "roder", "mcp"])
async def test_a_hundred_calls_run_at_the_same_time(dialect: str, tmp_path: Path) -> None:
    async with started(WAITING, dialect, tmp_path) as ext:
        calls = (ext.call_tool("meet", {"of": 100}) for _ in range(100))
        results = await asyncio.gather(*calls)
        assert {result.text for result in results} == {"100"}
        calls = (ext.call_tool("meet_in_threads") for _ in range(100))
        results = await asyncio.gather(*calls)
        assert len({result.text for result in results}) == 100


async def test_plain_functions_run_one_at_a_time_in_the_order_of_their_requests() -> None:
    ext = Extension("plain")
    observed: list[int] = []

    @ext.tool
    def note(number: int) -> int:
        observed.append(number)
        return number

    async with testing.connect(ext, dialect="nexo") as client:
        results = await asyncio.gather(
            *(client.call_tool("note", {"number": number}) for number in range(100))
        )
    assert observed == list(range(100)) and [result.data for result in results] == observed


@pytest.mark.parametrize("tool", ["hang", "hang_in_a_thread"])
async def test_a_cancelled_call_is_reported_to_its_handler(tool: str, tmp_path: Path) -> None:
    async with started(WAITING, "mcp", tmp_path) as ext:
        under_way = asyncio.Event()
        call = asyncio.create_task(
            ext.call_tool(tool, {"name": "it"}, on_progress=lambda _: under_way.set())
        )
        await under_way.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        events = await ext.call_tool("wait_for", {"event": "it cancelled"})
        assert events.data == {"result": ["it cancelled"]}
        with pytest.raises(CallTimeout):
            await ext.call_tool(tool, {"name": "late"}, timeout=0.05)
        events = await ext.call_tool("wait_for", {"event": "late cancelled"})
        assert events.data == {"result": ["it cancelled", "late cancelled"]}


async def test_leaving_a_task_of_roder_cancels_its_generator() -> None:
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


async def test_a_stream_does_not_run_ahead_of_a_host_that_does_not_read() -> None:
    """The host reads as fast as its consumer; the generator has to wait for both."""
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
            # The host's queue, the socket and what the writer keeps: a few hundred each.
            assert sent - received < 5_000
            if received == 5_000:
                break


# -- requests to the host ----------------------------------------------------------------------


async def elicit(params: Any) -> Any:
    return {"action": "accept", "content": {"asked": params["message"]}}


ELICITED = {"method": "elicitation/create", "params": {"message": "sure?", "requestedSchema": {}}}


@pytest.mark.parametrize("tool", ["ask", "ask_async"])
async def test_in_mcp_a_handler_is_run_again_with_the_answer_of_the_host(
    tool: str, tmp_path: Path
) -> None:
    handlers = {"elicitation/create": elicit}
    era = {"era": "stateless"}
    async with started(WAITING, "mcp", tmp_path, handlers=handlers, options=era) as ext:
        assert ext.offer.extra["era"] == "stateless"
        result = await ext.call_tool(tool, ELICITED)
        assert result.data == {"action": "accept", "content": {"asked": "sure?"}}


@pytest.mark.parametrize("tool", ["ask", "ask_async"])
async def test_in_synaps_a_handler_uses_the_memory_of_the_host(tool: str, tmp_path: Path) -> None:
    async with started(WAITING, "synaps", tmp_path, name="remembers") as ext:
        written = {"method": "memory.append", "params": {"content": "a note"}}
        assert (await ext.call_tool(tool, written)).data["ok"] is True
        found = await ext.call_tool(tool, {"method": "memory.query", "params": {}})
        assert found.data["records"][0]["content"] == "a note"
        with pytest.raises(CallFailed, match=r"HostError: .*empty"):
            await ext.call_tool(tool, {"method": "config.get", "params": {"key": ""}})


@pytest.mark.parametrize("dialect", ["morphir", "nexo"])
async def test_where_the_host_has_no_answer_the_handler_gets_an_error(
    dialect: str, tmp_path: Path
) -> None:
    async with started(WAITING, dialect, tmp_path) as ext:
        for tool in ("ask", "ask_async"):
            with pytest.raises(CallFailed, match="HostError"):
                await ext.call_tool(tool, {"method": "anything", "params": {}})


async def test_a_call_to_the_host_that_could_never_be_answered_says_so() -> None:
    ext = Extension("wrong")

    @ext.tool
    async def ask(ctx: Context) -> Any:
        return ctx.call("anything")

    async with testing.connect(ext, dialect="nexo") as client:
        with pytest.raises(CallFailed, match="await call_async"):
            await client.call_tool("ask")


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "roder", "mcp"])
async def test_a_function_that_returns_a_generator_gives_its_items(dialect: str) -> None:
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
            if dialect != "mcp":  # where the data of a result without a type is left out
                assert result.data == [0, 1, 2]


async def test_the_items_of_a_generator_that_a_function_returns_are_sent_as_they_come() -> None:
    ext = Extension("numbers")
    went_on = threading.Event()

    @ext.tool
    def slowly() -> Any:
        def numbers() -> Iterator[int]:
            yield 1
            went_on.wait(60)
            yield 2

        return numbers()

    observed: list[str] = []

    def on_progress(progress: Any) -> None:
        observed.append(progress.message)
        went_on.set()

    async with testing.connect(ext, dialect="mcp") as client:
        await client.call_tool("slowly", on_progress=on_progress)
    assert observed == ["1", "2"]


@pytest.mark.filterwarnings("ignore:coroutine")
async def test_the_error_for_a_plain_function_that_returns_a_coroutine_says_what_to_change() -> (
    None
):
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
        with pytest.raises(ValueError, match="must be a finite number, and is"):
            ctx.progress(float(current), float(total))
        return "refused"

    async with testing.connect(ext, dialect=dialect) as client:
        for current, total in (("inf", "1"), ("nan", "1"), ("1", "-inf")):
            result = await client.call_tool("work", {"current": current, "total": total})
            assert result.text == "refused"


async def test_a_generator_that_a_coroutine_returns_does_not_block_other_calls() -> None:
    ext = Extension("numbers")
    went_on = threading.Event()

    @ext.tool
    async def slowly() -> Any:
        def numbers() -> Iterator[int]:
            went_on.wait(60)
            yield 1

        return numbers()

    @ext.tool
    async def quickly() -> int:
        went_on.set()
        return 2

    async with testing.connect(ext, dialect="mcp") as client:
        slow = asyncio.ensure_future(client.call_tool("slowly"))
        assert (await client.call_tool("quickly")).text == "2"
        assert (await slow).text == "[1]"


async def test_a_whole_number_of_any_size_is_progress() -> None:
    ext = Extension("numbers")

    @ext.tool
    def count(ctx: Context) -> str:
        ctx.progress(10**400)
        return "done"

    async with testing.connect(ext, dialect="nexo") as client:
        assert (await client.call_tool("count")).data == "done"
