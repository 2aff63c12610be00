"""Large messages, as ratios to a pipe that carries the same bytes without a codec."""

import importlib
import importlib.util
from collections.abc import Callable

from bench import baselines, cores, subject
from bench.children import bare
from bench.memory import MIB
from bench.rounds import duration, held, ratios, read_values, take_turns, take_turns_async
from bench.row import NotHere, Reading, Setting

LONG_LINE_BYTES = 128_000_000
LONG_LINE_CAP_BYTES = 200_000_000


def large_echo(size: int, *, uvloop: bool = False) -> Callable[[Setting], Reading]:
    """A text of `size` bytes there and back / the same line over bare pipes."""
    # Several calls a block if one takes about a millisecond; one if it takes a tenth of a second.
    calls = max(1, 4 * MIB // size)

    async def work(setting: Setting) -> Reading:
        pair = cores.apart()
        params = {"text": "x" * size}
        line = baselines.large_line(size)
        with bare(setting.child) as raw:
            trip = baselines.round_trip(raw, line, baselines.reply_bytes(line))
            async with subject.connect(setting.child) as extension:
                note = cores.pin(pair)
                assert await extension.call("echo", params, timeout=subject.CALL_S) == params

                async def through_host() -> None:
                    for _ in range(calls):
                        await extension.call("echo", params, timeout=subject.CALL_S)

                def through_pipe() -> None:
                    for _ in range(calls):
                        trip()

                blocks = {"raw": held(through_pipe), "exthost": through_host}
                took = await take_turns_async(blocks, setting.rounds, calls)
        absolute = (("exthost", duration(took["exthost"])), ("raw pipe", duration(took["raw"])))
        return read_values(ratios(took["exthost"], took["raw"]), absolute, note)

    return lambda setting: subject.run(work(setting), uvloop=uvloop)


def codec_floor(size: int) -> Callable[[Setting], Reading]:
    """The same line over bare pipes, encoded and decoded by msgspec / without a codec. This is the
    lower bound of a large echo on this machine, with this codec."""

    def measure(setting: Setting) -> Reading:
        if importlib.util.find_spec("msgspec") is None:
            raise NotHere("msgspec is not installed")
        json = importlib.import_module("msgspec.json")
        pair = cores.apart()
        request = {"id": 1000, "method": "echo", "params": {"text": "x" * size}}
        line = baselines.large_line(size)
        calls = max(1, 4 * MIB // size)
        with bare(setting.child) as raw:
            trip = baselines.round_trip(raw, line, baselines.reply_bytes(line))
            note = cores.pin(pair)

            def with_codec() -> None:
                for _ in range(calls):
                    sent = json.encode(request)
                    trip()
                    json.decode(sent)

            def without() -> None:
                for _ in range(calls):
                    trip()

            blocks = {"codec": with_codec, "raw": without}
            took = take_turns(blocks, setting.few, calls)
        absolute = (("with codec", duration(took["codec"])), ("raw pipe", duration(took["raw"])))
        return read_values(ratios(took["codec"], took["raw"]), absolute, note)

    return measure


def bare_pipe(size: int) -> Callable[[Setting], Reading]:
    """MB per second of the line echo, both directions added, beside those of a plain byte echo."""

    def measure(setting: Setting) -> Reading:
        if not setting.child_is_c:
            raise NotHere("needs a C compiler")
        pair = cores.apart()
        line = baselines.large_line(size)
        with bare(setting.child) as lines, bare((*setting.child, "--raw")) as plain:
            note = cores.pin(pair)
            blocks = {
                "lines": baselines.round_trip(lines, line, baselines.reply_bytes(line)),
                "bytes": baselines.round_trip(plain, line, len(line)),
            }
            took = take_turns(blocks, setting.few)
        absolute = (("lines", duration(took["lines"])), ("plain bytes", duration(took["bytes"])))
        rates = [2 * size / 1e6 / seconds for seconds in took["lines"]]
        return read_values(rates, absolute, note)

    return measure


def long_line_allowed(setting: Setting) -> Reading:
    """Seconds to receive 128 MB on one line, when the limits allow it."""

    async def work() -> Reading:
        pair = cores.apart()
        request = b'{"id":1000,"method":"big","params":%d}\n' % LONG_LINE_BYTES
        expected = len(b'{"id":1000,"result":""}\n') + LONG_LINE_BYTES
        limits = {"max_message": LONG_LINE_CAP_BYTES}
        with bare(setting.child) as raw:
            trip = baselines.round_trip(raw, request, expected)
            async with subject.connect(setting.child, limits=limits) as extension:
                note = cores.pin(pair)

                async def through_host() -> None:
                    text = await extension.call("big", LONG_LINE_BYTES, timeout=subject.CALL_S)
                    assert len(text) == LONG_LINE_BYTES

                blocks = {"raw": held(trip), "exthost": through_host}
                # Each round takes seconds, and the rounds hardly differ.
                took = await take_turns_async(blocks, 3, warm=0)
        absolute = (("raw pipe", duration(took["raw"])),)
        return read_values(took["exthost"], absolute, note)

    return subject.run(work())
