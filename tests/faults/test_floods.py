"""A child that writes or sends requests without end: the memory of the host is limited, its loop is
not blocked, and other extensions are not affected.

A flood is output that no call waits for. The host reads it at a limited rate; the reader of such a
child "is flooded". The child is a program that misbehaves on command (`tests/faults/harness.py`):
`child.spew((data, times))` lets it write these bytes, and then answer. Each test adds a trial for
each dialect and case, and `trials.run` runs a sample of them.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exthost.authoring.testing.behaviours import ID, PREVIOUS
from exthost.authoring.testing.peers import PEERS, HostilePeer
from exthost.errors import CallTimeout, ExtensionGone, ExthostError
from exthost.model.messages import Notification, Request
from exthost.process.flood_queue import flood_queue
from exthost.wire.framing import READ_BYTES, Bytes
from tests.extensions.harness import wait_until
from tests.extensions.proc import resident_bytes
from tests.faults.harness import (
    AT_ONCE_SECONDS,
    all_peers,
    answer_frame,
    frame,
    measure_lag,
    run_hostile,
    wrap_bytes,
)
from tests.faults.trials import TRIAL_SECONDS, Trials

# The code of the error if an extension reads nothing until the write deadline, `limits.write`.
READ_NOTHING = "X1004"

MB = 1_000_000

# More bytes than one read of the largest size.
NOISE_BYTES = READ_BYTES + 1000

# The time limit of a flood, which is read at a limited rate.
FLOOD_SECONDS = TRIAL_SECONDS - 10

# The longest time that one child may block the loop. The worst case is a read of 64 KiB of the
# shortest stray lines, in development mode and on a busy machine.
MAX_LAG_SECONDS = 1.0


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize("name", PEERS)
async def test_a_flood_on_stderr_is_read_and_dropped(name: str, folder: Path) -> None:
    """200 MB in one dialect and 10 MB in the others, which read stderr by the same code."""

    async def flood_stderr(peer: HostilePeer, size: int, line: bytes) -> None:
        async with run_hostile(peer, folder, watched=False) as child:
            before = resident_bytes()
            spewing = child.spew((line, size // len(line)), fd=2, timeout=FLOOD_SECONDS)
            (result, lag) = await measure_lag(spewing)
            assert result == "spewed"
            assert resident_bytes() - before < 30 * MB
            assert lag < MAX_LAG_SECONDS, lag
            await child.check_answers()

    trials = Trials("pipes")
    peer = PEERS[name]
    size = 200 * MB if name == "morphir" else 10 * MB
    trials.add("stderr flood", peer.dialect, partial(flood_stderr, peer, size, b"e" * 99 + b"\n"))
    trials.add("stderr of empty lines", peer.dialect, partial(flood_stderr, peer, MB, b"\n"))
    trials.add("stderr without lines", peer.dialect, partial(flood_stderr, peer, 10 * MB, b"e"))
    await trials.run(at_once=1)


@pytest.mark.more
async def test_a_flood_of_notifications_loses_no_answer(folder: Path) -> None:
    """The host reads some thousands of notifications a second, so the flood lasts for seconds."""

    async def send_notifications(peer: HostilePeer, times: int) -> None:
        assert peer.notification is not None
        async with run_hostile(peer, folder, watched=False) as child:
            before = resident_bytes()
            notification = frame(peer, peer.notification)
            spewing = asyncio.ensure_future(child.spew((notification, times)))
            other_calls = [asyncio.ensure_future(child.do(value=n)) for n in range(20)]
            result, lag = await measure_lag(spewing)
            assert result == "spewed"
            assert await asyncio.gather(*other_calls) == list(range(20))
            assert resident_bytes() - before < 20 * MB
            assert lag < MAX_LAG_SECONDS, lag

    trials = Trials("pipes")
    for n, peer in enumerate(item for item in all_peers() if item.notification is not None):
        times = 10_000 if n == 0 else 2_000
        trials.add("notices", peer.dialect, partial(send_notifications, peer, times))
    await trials.run(at_once=1)


@pytest.mark.sampled(1 / 6)
@pytest.mark.parametrize("name", PEERS)
async def test_a_flood_of_noise_does_not_block_the_loop(name: str, folder: Path) -> None:
    """The child writes as many short stray lines as fit into the largest read."""

    async def write_noise(peer: HostilePeer, piece: bytes) -> None:
        async with run_hostile(peer, folder, watched=False) as child:
            result, lag = await measure_lag(child.spew((piece, NOISE_BYTES // len(piece))))
            # An empty frame can be a valid answer.
            assert result in ("spewed", None) or isinstance(result, ExthostError)
            assert lag < MAX_LAG_SECONDS, lag
            await child.check_answers()

    trials = Trials("pipes")
    peer = PEERS[name]
    pieces = {"x": b"x\n", "{}": b"{}\n", "blank": b"\n", "no text": b"\xff\n"}
    for name, piece in (pieces | {"empty frames": wrap_bytes(peer, b"")}).items():
        trials.add(f"noise: {name}", peer.dialect, partial(write_noise, peer, piece))
    await trials.run(at_once=1)


def floods_of(peer: HostilePeer) -> dict[str, bytes]:
    """Return messages of this dialect that no call waits for."""
    floods = {
        "unknown id": answer_frame(peer, 1, id=987654321),
        "repeated": answer_frame(peer, 1, PREVIOUS),
    }
    if peer.notification is not None:
        floods["notification"] = frame(peer, peer.notification)
    if peer.host_request is not None:
        floods["request"] = frame(peer, peer.host_request)
        floods["ping"] = frame(peer, Request("ping", {}, 1))
    more_messages = {
        "morphir": [Notification("log", {"level": "info", "message": "a"})],
        "nexo": [
            Notification("tools/progress", {"id": ID, "progress": 1}),
            Notification("tools/progress", {"id": 987654321, "progress": 1}),
        ],
        "mcp": [
            Notification("notifications/progress", {"progressToken": ID, "progress": 1}),
            Notification("notifications/progress", {"progressToken": 987654321, "progress": 1}),
            Notification("notifications/message", {"level": "info", "data": "a"}),
            Notification("notifications/tools/list_changed", {}),
        ],
        "synaps": [Notification("provider.stream.event", {"id": 1}), Notification("widget", {})],
        "roder": [Notification("inference/event", {"turnId": "t"})],
    }
    for n, message in enumerate(more_messages.get(peer.dialect, ())):
        floods[f"{message.method} {n}"] = frame(peer, message)
    if peer.dialect != "synaps":  # lines
        floods["stray"] = b"x\n"
        floods["large"] = b"x" * 100_000 + b"\n"
    return floods


@pytest.mark.more
@pytest.mark.sampled(1 / 5)
@pytest.mark.parametrize("name", [peer.dialect for peer in all_peers(but=("cigen",))])
async def test_messages_that_no_call_waits_for_are_a_flood(name: str, folder: Path) -> None:
    """cigen is excluded: a reply without a request ends its session."""

    async def send_flood(peer: HostilePeer, piece: bytes) -> None:
        async with run_hostile(peer, folder, watched=False) as child:
            reader = child.ext.internals.queue.sessions[0]._reader
            times = 4000 if len(piece) < 1000 else 200
            spewing = asyncio.ensure_future(child.spew((piece, times), timeout=FLOOD_SECONDS))
            was_flooded = False
            while not spewing.done():
                await asyncio.sleep(0.001)
                was_flooded = was_flooded or reader.is_flooded
            assert await spewing == "spewed"  # the call that caused the flood ends
            assert was_flooded
            await child.check_answers()

    trials = Trials("pipes")
    peer = PEERS[name]
    for name, piece in floods_of(peer).items():
        trials.add(f"flood: {name}", peer.dialect, partial(send_flood, peer, piece))
    await trials.run(at_once=1)


@pytest.mark.more
async def test_a_hundred_notifications_before_a_reply_are_not_a_flood(folder: Path) -> None:
    """The reader is not flooded after a call with a hundred notifications."""

    async def send_notifications(peer: HostilePeer) -> None:
        assert peer.notification is not None
        async with run_hostile(peer, folder, watched=False) as child:
            reader = child.ext.internals.queue.sessions[0]._reader
            notification = frame(peer, peer.notification)
            assert await child.spew((notification, 100)) == "spewed"
            assert not reader.is_flooded

    trials = Trials("pipes")
    for peer in (peer for peer in all_peers() if peer.notification is not None):
        trials.add("many notifications", peer.dialect, partial(send_notifications, peer))
    await trials.run(at_once=1)


def large_structure(size: int) -> tuple[tuple[bytes, int], ...]:
    """Return a notification of nexo with many small values, which takes long to decode."""
    head = b'{"jsonrpc":"2.0","method":"progress","params":[[]'
    return (head, 1), (b",[]", size // 3), (b"]}\n", 1)


@pytest.mark.more
@pytest.mark.parametrize(
    "pieces",
    [
        [(answer_frame(PEERS["nexo"], 1, id=987654321), 10_000_000)],
        [*large_structure(MB)] * 20,
    ],
    ids=["unknown id", "large structures"],
)
async def test_twenty_floods_use_less_than_half_of_the_loop_time(
    folder: Path, pieces: list[tuple[bytes, int]]
) -> None:
    """Measured in processor time of this thread, because the machine may be busy."""
    peer = PEERS["nexo"]
    async with contextlib.AsyncExitStack() as stack:
        extensions = [
            await stack.enter_async_context(run_hostile(peer, folder, watched=False))
            for _ in range(20)
        ]
        neighbour = await stack.enter_async_context(run_hostile(peer, folder, watched=False))
        floods = [
            asyncio.ensure_future(child.spew(*pieces, timeout=FLOOD_SECONDS))
            for child in extensions
        ]
        readers = [child.ext.internals.queue.sessions[0]._reader for child in extensions]
        await asyncio.sleep(0)  # the requests are written
        before = time.thread_time()
        await asyncio.sleep(2)
        used_seconds = time.thread_time() - before
        assert used_seconds < 1.0, used_seconds  # half of the two seconds
        await wait_until(lambda: all(reader.is_flooded for reader in readers))
        for value in range(20):
            assert await neighbour.do(value=value) == value
        assert all(reader.is_flooded for reader in readers)
        for task in floods:
            task.cancel()
        await asyncio.wait(floods)


@pytest.mark.parametrize("name", ["morphir", "nexo", "mcp"])
async def test_a_line_without_an_end_is_a_flood_before_it_is_too_long(
    name: str, folder: Path
) -> None:
    async with run_hostile(PEERS[name], folder, watched=False) as child:
        session = child.ext.internals.queue.sessions[0]
        spewing = asyncio.ensure_future(child.spew((b"x" * 4096, 1_000_000)))
        await wait_until(lambda: session._reader.is_flooded)
        assert not session.conversation.framing.is_discarding
        assert not session._reader._large_frames.readers
        spewing.cancel()
        await asyncio.wait([spewing])


@pytest.mark.more
async def test_large_messages_that_no_call_waits_for_are_decoded_one_at_a_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large reply of another extension does not wait for these messages."""
    # After one such message, the host rests for longer than the test before it reads the next.
    monkeypatch.setattr("exthost.process.flood_queue._MAX_REST_SECONDS", 1000.0)
    monkeypatch.setattr("exthost.process.flood_queue._REST_FACTOR", 100_000)
    peer, count = PEERS["nexo"], 5
    decoded: list[int] = []
    async with contextlib.AsyncExitStack() as stack:
        extensions = [
            await stack.enter_async_context(run_hostile(peer, folder, watched=False))
            for _ in range(count + 1)
        ]
        for child in extensions[:count]:
            conversation = child.ext.internals.queue.sessions[0].conversation

            def decode(data: Bytes, decode: Callable[[Bytes], Any] = conversation.decode) -> Any:
                if len(data) > READ_BYTES:
                    decoded.append(len(data))
                return decode(data)

            monkeypatch.setattr(conversation, "decode", decode)
        floods = [
            asyncio.ensure_future(child.spew(*large_structure(MB // 4), timeout=FLOOD_SECONDS))
            for child in extensions[:count]
        ]
        queue = flood_queue(asyncio.get_running_loop())
        await wait_until(lambda: len(queue._resting) + len(decoded) >= count)
        large: list[list[int]] = [[]] * (MB // 8)
        assert await extensions[count].do(value=large) == large
        assert len(decoded) <= 1
        for task in floods:
            task.cancel()
        await asyncio.wait(floods)


@pytest.mark.more
async def test_requests_without_end_use_limited_memory(folder: Path) -> None:
    """The child sends requests without end and does not read the answers of the host."""

    async def ask_without_reading(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder, watched=False) as child:
            before = resident_bytes()
            result, lag = await measure_lag(
                child.do_or_error("ask", times=2_000_000, then="hang", timeout=2)
            )
            assert isinstance(result, CallTimeout), result
            assert resident_bytes() - before < 8 * MB, resident_bytes() - before
            assert lag < MAX_LAG_SECONDS, lag
            await child.ext.restart()
            await child.check_answers()

    async def ask_and_read(peer: HostilePeer) -> None:
        """The child reads at the end, and every request is answered."""
        async with run_hostile(peer, folder, watched=False) as child:
            call = child.do_or_error("ask", times=2000)
            assert await call == "asked"
            await child.check_answers()
            assert child.ext.stats.restarts == 0

    async def ask_until_write_deadline(peer: HostilePeer) -> None:
        """The child does not read until the write deadline."""
        async with run_hostile(peer, folder, watched=False, limits={"write": "0.5s"}) as child:
            error = await child.do_or_error("ask", times=2_000_000, then="hang")
            assert isinstance(error, ExtensionGone) and error.code == READ_NOTHING, error
            await child.check_answers()

    trials = Trials("pipes")
    for peer in (item for item in all_peers() if item.host_request is not None):
        trials.add("requests, unread", peer.dialect, partial(ask_without_reading, peer))
        trials.add("requests, deadline", peer.dialect, partial(ask_until_write_deadline, peer))
        trials.add("requests, read later", peer.dialect, partial(ask_and_read, peer))
    await trials.run(at_once=1)


@pytest.mark.more
async def test_a_child_that_never_reads_is_ended_at_the_write_deadline(folder: Path) -> None:
    long_text = "x" * 1_500_000  # more than the largest pipe buffer

    async def stop_reading(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder, limits={"write": "0.3s"}) as child:
            assert await child.do("deaf") == "deaf from now on"
            began = time.monotonic()
            calls = [child.do_or_error("echo", value=long_text) for _ in range(4)]
            results = await asyncio.gather(*calls)
            for error in results:
                # Calls that were not sent yet are served by the next process.
                assert error == long_text or isinstance(error, ExtensionGone), error
            assert isinstance(results[0], ExtensionGone) and results[0].code == READ_NOTHING
            assert time.monotonic() - began < AT_ONCE_SECONDS
            await child.check_answers()

    trials = Trials("pipes")
    for peer in all_peers():
        trials.add("stdin never read", peer.dialect, partial(stop_reading, peer))
    await trials.run()


@pytest.mark.more
async def test_a_child_blocked_in_a_write_can_be_ended(folder: Path) -> None:
    """The host has paused reading, as for a slow consumer of a stream, so the child blocks in its
    write. It can still be ended."""

    async def close_while_paused(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder) as child:
            session = child.ext.internals.queue.sessions[0]
            spewing = asyncio.ensure_future(child.spew((b"\n", 4 * MB), then="hang"))
            await asyncio.sleep(0)
            session._reader.pause()
            began = time.monotonic()
            await child.ext.close()
            assert time.monotonic() - began < AT_ONCE_SECONDS
            assert isinstance(await spewing, ExthostError)

    trials = Trials("pipes")
    for peer in all_peers():
        trials.add("output unread at the end", peer.dialect, partial(close_while_paused, peer))
    await trials.run()
