"""Starts the extension that a verb (a subcommand of `exthost`, such as `call`) works with.

While the extension runs, its log is printed to stderr. Its messages are recorded if the verb has
the option `--trace`, and its calls are written to the audit file of the config.

With `exthost call -- PROGRAM`, the program is started in place of an extension of the config. It is
called a bare command. Its dialect (the protocol that it speaks) is detected unless `--dialect`
names it.
"""

import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace

from exthost.config.discovery.configfile import read_config
from exthost.events import Bus, LogLine, Progressed
from exthost.extension.extension import Extension
from exthost.faces.cli.common import (
    Args,
    format_number,
    plural,
    require_config_path,
    say,
    show_line,
)
from exthost.faces.cli.start_note import start_note
from exthost.faces.cli.target_specs import has_config
from exthost.host.audit import Audit
from exthost.host.connection import Connection
from exthost.host.detection import DetectedConnection
from exthost.model.spec import Spec
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.trace_file import TraceFile
from exthost.session.trace.trace_format import LineMaker
from exthost.session.trace.traffic import Traffic

# How much of a long log `abridged_log` prints: the first lines at once, and at the end the last
# ones, or after a failure all that are held.
_FIRST_LINES = 10
_LAST_LINES = 5
_MAX_HELD_LINES = 1000


@asynccontextmanager
async def start_extension(
    args: Args, spec: Spec, bus: Bus | None = None
) -> AsyncIterator[Extension]:
    """Start an extension for the length of a block. The dialect in `spec` is ignored for a bare
    command without `--dialect`. Without a bus, the log of the extension is printed line by line."""
    bus = printing_bus() if bus is None else bus
    traffic = Traffic(bus)
    with _write_audit(args, bus), record_traffic(args, traffic):
        needs_detection = args.command and args.dialect is None
        if needs_detection:
            detecting_connection = _make_detecting_connection(args, spec, bus, traffic)
            async with _open_with_start_note(detecting_connection, spec.id) as extension:
                _report_dialect(args, detecting_connection, extension.dialect.name)
                yield extension
            return
        spec = with_start_limit(args, spec)
        connection = Connection(spec, events=bus, environ=_environ(), traffic=traffic)
        async with _open_with_start_note(connection, spec.id) as extension:
            yield extension


@asynccontextmanager
async def _open_with_start_note(
    connection: AbstractAsyncContextManager[Extension], name: str
) -> AsyncIterator[Extension]:
    """Open a connection for the length of a block. If the start takes long, print a message."""
    async with AsyncExitStack() as stack:
        # Only the start is timed, so the note ends before the block begins.
        with start_note(name):
            extension = await stack.enter_async_context(connection)
        yield extension


@contextmanager
def record_traffic(args: Args, traffic: Traffic) -> Iterator[None]:
    """Record messages to the file that `--trace` names, or print them to stderr with `--trace -`.
    Without the option, do nothing."""
    if args.trace is None:
        yield
        return
    if args.trace == "-":
        line_maker = LineMaker(traffic.dialects)
        unsubscribe = traffic.subscribe(lambda record: _print_record(line_maker, record))
        try:
            yield
        finally:
            unsubscribe()
        return
    file = TraceFile(args.trace, traffic.dialects)
    unsubscribe = traffic.subscribe(file)
    try:
        yield
    finally:
        unsubscribe()
        file.close()


def _print_record(line_maker: LineMaker, record: TraceRecord) -> None:
    sys.stderr.write(line_maker.lines(record).decode("utf-8", "replace"))
    sys.stderr.flush()


@contextmanager
def _write_audit(args: Args, bus: Bus) -> Iterator[None]:
    """Write the calls on this bus to the audit file of the config. Do nothing if the config names
    no audit file, and for a bare command, to which no config applies."""
    if args.command or not has_config(args):
        yield
        return
    path = read_config(require_config_path(args)).audit_path
    if path is None:
        yield
        return
    audit = Audit(path, bus)
    try:
        yield
    finally:
        audit.close()


async def detect_dialect(args: Args, spec: Spec) -> Spec:
    """Start the program of a spec, detect its dialect, and end it. Return the spec with that
    dialect."""
    connection = _make_detecting_connection(args, spec, None)
    async with connection as extension:
        _report_dialect(args, connection, extension.dialect.name)
        return replace(spec, dialect=extension.dialect.name)


def with_start_limit(args: Args, spec: Spec) -> Spec:
    """Return the spec with `args.start_seconds` as the time limits of its start and its handshake.
    Return it unchanged if that option is not given."""
    seconds = args.start_seconds
    if seconds is None:
        return spec
    return replace(spec, limits=replace(spec.limits, start=seconds, handshake=seconds))


def _make_detecting_connection(
    args: Args, spec: Spec, events: Bus | None, traffic: Traffic | None = None
) -> DetectedConnection:
    """Return a connection that detects the dialect when it is opened."""
    seconds = args.start_seconds
    return DetectedConnection(
        spec, events=events, environ=_environ(), seconds=seconds, traffic=traffic
    )


def _report_dialect(args: Args, connection: DetectedConnection, name: str) -> None:
    """Print the name of the detected dialect. Keep the attempts with other dialects in `args`, for
    the report of `inspect`."""
    say(f"dialect: {name} (detected; --dialect {name} skips the detection)")
    args.failed_attempts = tuple(connection.attempts)


def printing_bus() -> Bus:
    """Return an event bus whose log lines and progress are printed to stderr."""
    bus = Bus()
    print_events(bus)
    return bus


@contextmanager
def abridged_log() -> Iterator[Bus]:
    """Return an event bus whose log lines and progress are printed to stderr. Of a long log, the
    middle is left out, so that it does not bury the report of a verb. If the block raises an
    exception, the last thousand lines are printed."""
    bus = Bus()
    _print_progress(bus)
    line_count = 0
    kept_lines = deque[LogLine](maxlen=_MAX_HELD_LINES)

    def show_or_keep(line: LogLine) -> None:
        nonlocal line_count
        line_count += 1
        if line_count <= _FIRST_LINES:
            show_line(line.extension, line.text)
        else:
            kept_lines.append(line)

    bus.subscribe(LogLine, show_or_keep)
    last_count = _LAST_LINES
    try:
        yield bus
    except BaseException:
        last_count = _MAX_HELD_LINES
        raise
    finally:
        last_lines = list(kept_lines)[-last_count:]
        left_out_count = line_count - _FIRST_LINES - len(last_lines)
        if left_out_count > 0:
            say(f"{plural(left_out_count, 'line')} of its log left out")
        for line in last_lines:
            show_line(line.extension, line.text)


def print_events(bus: Bus) -> None:
    """Print log lines and progress of this bus to stderr."""
    bus.subscribe(LogLine, lambda line: show_line(line.extension, line.text))
    _print_progress(bus)


def _print_progress(bus: Bus) -> None:
    bus.subscribe(
        Progressed, lambda progress: say(f"[{progress.extension}] {_progress_text(progress)}")
    )


def _progress_text(progress: Progressed) -> str:
    total = f" of {format_number(progress.total)}" if progress.total is not None else ""
    done = format_number(progress.progress)
    return f"{progress.method}: {done}{total} {progress.message}".rstrip()


def _environ() -> dict[str, str]:
    return dict(os.environ)
