"""Show every message between a running host and its extensions, as it comes, until Ctrl-C.

The stderr, processes and states of extensions are shown between the messages. Secrets are hidden.
With --json each message is one line with a JSON object. With --save the messages are written to a
file, whose last line is whole after Ctrl-C; the exit code is then 0, and 130 without --save.
`exthost replay FILE` plays it again. To record a session from its beginning, restart the extension
meanwhile, or use --trace FILE of `exthost call` and `exthost inspect`.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from exthost.errors import Evidence, UsageError
from exthost.faces.cli.common import Args, add_config_option, config_path, parse_count, plural, say
from exthost.faces.cli.traffic_lines import traffic_line
from exthost.host.control.client import HELLO_SECONDS, HostClient
from exthost.host.control.protocol import ControlRequest
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.trace_file import TraceFile, dropped_record
from exthost.session.trace.trace_format import LineMaker


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="only this extension")
    parser.add_argument("--save", metavar="FILE", help="write a recording instead of showing it")
    parser.add_argument(
        "--count", type=parse_count, default=0, metavar="N", help="end after N messages"
    )
    add_config_option(parser)


def run(args: Args) -> int:
    dialects: dict[str, str] = {}
    if not args.save:
        line_maker = LineMaker(dialects)
        _follow(args, dialects, lambda record: _show(args, line_maker, record))
        return 0
    return _save(args, dialects)


def _save(args: Args, dialects: dict[str, str]) -> int:
    """Write the messages to the file of --save. Return the exit code. `_follow` adds the dialect of
    each extension to `dialects`, which the file needs to write a message of it."""
    file = TraceFile(args.save, dialects)

    def store(record: TraceRecord) -> None:
        if file.write_error:
            raise _TraceEnded
        file(record)

    try:
        messages = _follow(args, dialects, store)
    finally:
        file.close()
    if file.write_error:
        raise UsageError(
            "X1386",
            f"the trace {args.save} is not complete: {file.write_error}",
            help="is the disk full? the earlier messages are in the file; its last line may be cut",
            evidence=Evidence(path=args.save),
        )
    say(f"{plural(messages, 'message')} in {args.save}")
    return 0


def _follow(args: Args, dialects: dict[str, str], store: Callable[[TraceRecord], None]) -> int:
    """Pass each record to `store`. Return the number of messages."""
    messages, is_announced = 0, False

    def on_event(event: Mapping[str, Any]) -> None:
        """Store the records of a batch. The first batch shows that the trace has begun."""
        nonlocal messages, is_announced
        if not is_announced:
            is_announced = True
            say(f"messages of {args.name or 'every extension'}; Ctrl-C ends")
        dialects.update(event["dialects"])
        if event["dropped"]:
            # Stored as a record, so that a recording and --json have the gap, too.
            store(dropped_record(event["records"][0]["extension"], event["dropped"]))
        for data in event["records"]:
            record = TraceRecord.from_dict(data)
            store(record)
            messages += record.is_message
            if args.count and messages >= args.count:
                raise _TraceEnded

    with HostClient(config_path(args), timeout=HELLO_SECONDS) as client:
        try:
            client.ask(ControlRequest("trace", args.name), on_event=on_event)
        except _TraceEnded:
            pass
        except KeyboardInterrupt:
            if not args.save:
                raise
    return messages


class _TraceEnded(Exception):
    """Raised to end the request when --count messages were received, or no more can be saved."""


def _show(args: Args, line_maker: LineMaker, record: TraceRecord) -> None:
    """Print a record to stdout, as JSON or as text."""
    if args.json:
        sys.stdout.buffer.write(line_maker.lines(record))
    else:
        sys.stdout.buffer.write(traffic_line(record).encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.flush()
