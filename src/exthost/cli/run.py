"""Start every extension of a config and supervise them until Ctrl-C: once drains, twice kills."""

import argparse
import asyncio
import signal
from typing import Any

from exthost.cli.frame import Asked, config_option, say, show_json
from exthost.cli.list import tell_diagnostics
from exthost.cli.target import run_async
from exthost.discovery.configfile import read_config
from exthost.events import (
    Exited,
    LogLine,
    ManifestChanged,
    OfferChanged,
    Spawned,
    StateChanged,
)
from exthost.host import Host

INTERRUPTED = 130


def options(parser: argparse.ArgumentParser) -> None:
    config_option(parser)


def run(asked: Asked) -> int:
    return run_async(_supervise(asked))


async def _supervise(asked: Asked) -> int:
    host = Host(read_config(asked.config or "exthost.toml"))
    _tell_what_happens(host, asked.json)
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signals.put_nowait, number)
    opening = asyncio.ensure_future(host.__aenter__())
    first = asyncio.ensure_future(signals.get())
    await asyncio.wait([opening, first], return_when="FIRST_COMPLETED")
    if opening.done():
        opening.result()
        tell_diagnostics(host.diagnostics)
        ready = sum(ext.state == "ready" for ext in host.extensions)
        say(f"{ready} of {len(host)} extensions ready, {len(host.tools)} tools; Ctrl-C ends")
        await first
    else:
        opening.cancel()
    say("stopping; Ctrl-C again kills")
    closing = asyncio.ensure_future(host.close(drain=True))
    second = asyncio.ensure_future(signals.get())
    await asyncio.wait([closing, second], return_when="FIRST_COMPLETED")
    if not closing.done():
        host.kill()
        await closing
    second.cancel()
    await asyncio.gather(opening, second, return_exceptions=True)
    return INTERRUPTED if first.result() == signal.SIGINT else 0


def _tell_what_happens(host: Host, as_json: bool) -> None:
    def tell(event: Any) -> None:
        if as_json:
            show_json({"event": type(event).__name__, **event._asdict()})
        elif isinstance(event, StateChanged):
            why = f" ({event.reason})" if event.reason else ""
            say(f"{event.extension}: {event.after}{why}")
        elif isinstance(event, Exited):
            say(f"{event.extension}: process {event.pid} {event.status}")
        elif isinstance(event, ManifestChanged):
            say(f"{event.extension}: manifest {event.change}: {event.path} ({event.note})")

    happenings = (StateChanged, Spawned, Exited, OfferChanged, ManifestChanged)
    host.events.subscribe(happenings, tell)
    host.events.subscribe(LogLine, lambda line: say(f"[{line.extension}] {line.text}"))
