"""Start every extension of a config and supervise them until Ctrl-C: once drains, twice kills.

On a terminal a live table shows how they are; elsewhere each happening is a line on stderr, and
with --json each event is a line of JSON on stdout. `exthost status`, `start`, `stop`, `restart`
and `logs` work from any other terminal meanwhile. SIGTERM is one Ctrl-C, and so is the
end of the terminal, unless nohup says otherwise.
"""

import argparse
import asyncio
import os
import signal
from contextlib import AsyncExitStack

from exthost.cli.common import Args, config_option, given_config, no_command
from exthost.cli.displays import Display, display_for
from exthost.cli.list import tell_diagnostics
from exthost.cli.log_handler import WarningHandler
from exthost.cli.target import run_async
from exthost.control.address import key_of
from exthost.control.report import Report
from exthost.control.server import Control
from exthost.discovery.configfile import read_config
from exthost.errors import Refused
from exthost.host.extension_logs import ExtensionLogs
from exthost.host.host import Host
from exthost.process.state_dirs import log_file

INTERRUPTED = 130


def options(parser: argparse.ArgumentParser) -> None:
    config_option(parser)


def run(args: Args) -> int:
    no_command(args)
    return run_async(_supervise(args))


async def _supervise(args: Args) -> int:
    config = given_config(args)
    host = Host(read_config(config))
    report = Report(host)
    async with AsyncExitStack() as leaving:
        display = display_for(args, host, report)
        leaving.callback(display.close)
        control = _control(host, report, config, display)
        if control is not None:
            leaving.push_async_callback(control.close)
        key = key_of(config)
        logs = ExtensionLogs(host.events, lambda extension: log_file(os.environ, key, extension))
        leaving.callback(logs.close)
        leaving.enter_context(WarningHandler(display.say))
        leaving.push_async_callback(host.close)
        if control is not None:
            await control.serve()
        return await _until_told(host, control, display)


def _control(host: Host, report: Report, config: str, display: Display) -> Control | None:
    """Its socket; without one, where no folder can be had for it, the host runs all the same."""
    try:
        return Control(host, report, config)
    except Refused as refused:
        display.say(
            f"warning: {refused.message}; exthost status and other verbs cannot reach this host"
        )
        return None


async def _until_told(host: Host, control: Control | None, display: Display) -> int:
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        ends.append(signal.SIGHUP)
    for number in ends:
        loop.add_signal_handler(number, signals.put_nowait, number)
    opening = asyncio.ensure_future(host.__aenter__())
    first = asyncio.ensure_future(signals.get())
    await asyncio.wait([opening, first], return_when="FIRST_COMPLETED")
    if opening.done():
        opening.result()
        tell_diagnostics(host.diagnostics, tell=display.say)
        ready = sum(ext.state == "ready" for ext in host.extensions)
        display.say(
            f"{ready} of {len(host)} extensions ready, {len(host.tools)} tools; Ctrl-C ends"
        )
        await first
    else:
        opening.cancel()
    if control is not None:
        control.ending = True
    display.say("stopping; Ctrl-C again kills")
    closing = asyncio.ensure_future(host.close(drain=True))
    second = asyncio.ensure_future(signals.get())
    await asyncio.wait([closing, second], return_when="FIRST_COMPLETED")
    if not closing.done():
        display.say("killing")
        host.kill()
        await closing
    second.cancel()
    await asyncio.gather(opening, second, return_exceptions=True)
    return INTERRUPTED if first.result() == signal.SIGINT else 0
