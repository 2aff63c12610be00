"""Starts the extension that a verb works with: detects its dialect, prints its log, records its
traffic."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace

from exthost.cli.common import Args, require_config_path, say, show_line
from exthost.cli.start_note import start_note
from exthost.cli.target_specs import has_config
from exthost.connection import Connection
from exthost.detection import DetectedConnection
from exthost.discovery.configfile import (
    read_config,
)
from exthost.events import Bus, LogLine, Progressed
from exthost.extension.extension import Extension
from exthost.host.audit import Audit
from exthost.spec import Spec
from exthost.trace.record import TraceRecord
from exthost.trace.trace_file import TraceFile
from exthost.trace.trace_format import LineMaker
from exthost.trace.traffic import Traffic


@asynccontextmanager
async def start_extension(args: Args, spec: Spec) -> AsyncIterator[Extension]:
    """Start an extension for the length of a block, and print its log to stderr. The dialect of a
    bare command is detected unless `--dialect` is given."""
    bus = printing_bus()
    traffic = Traffic(bus)
    if not args.command or args.dialect is not None:
        spec = with_start_limit(args, spec)
        audit = _open_audit(args, bus)
        connection = Connection(spec, events=bus, environ=_environ(), traffic=traffic)
        try:
            with record_traffic(args, traffic):
                async with _open_with_note(connection, spec.id) as extension:
                    yield extension
        finally:
            if audit is not None:
                audit.close()
        return
    detected = _make_detected_connection(args, spec, bus, traffic)
    with record_traffic(args, traffic):
        async with _open_with_note(detected, spec.id) as extension:
            _report_dialect(args, detected, extension.dialect.name)
            yield extension


@asynccontextmanager
async def _open_with_note(
    connection: AbstractAsyncContextManager[Extension], name: str
) -> AsyncIterator[Extension]:
    """Open a connection. If that takes long, print a note."""
    async with AsyncExitStack() as stack:
        with start_note(name):
            extension = await stack.enter_async_context(connection)
        yield extension


@contextmanager
def record_traffic(args: Args, traffic: Traffic) -> Iterator[None]:
    """Record the messages to the file of `--trace`, or print them to stderr with `--trace -`.
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


def _open_audit(args: Args, bus: Bus) -> Audit | None:
    """Open the audit file of the config. Return None if it has none, or for a bare command."""
    if args.command or not has_config(args):
        return None
    path = read_config(require_config_path(args)).audit_path
    return None if path is None else Audit(path, bus)


async def detect_dialect(args: Args, spec: Spec) -> Spec:
    """Return the spec with the dialect that its command speaks."""
    connection = _make_detected_connection(args, spec, None)
    async with connection as extension:
        _report_dialect(args, connection, extension.dialect.name)
        return replace(spec, dialect=extension.dialect.name)


def with_start_limit(args: Args, spec: Spec) -> Spec:
    """Return the spec with `args.start_seconds` as the time limits of its start and its handshake,
    if that is set."""
    seconds = args.start_seconds
    if seconds is None:
        return spec
    return replace(spec, limits=replace(spec.limits, start=seconds, handshake=seconds))


def _make_detected_connection(
    args: Args, spec: Spec, events: Bus | None, traffic: Traffic | None = None
) -> DetectedConnection:
    seconds = args.start_seconds
    return DetectedConnection(
        spec, events=events, environ=_environ(), seconds=seconds, traffic=traffic
    )


def _report_dialect(args: Args, connection: DetectedConnection, name: str) -> None:
    say(f"dialect: {name} (detected; --dialect {name} skips the detection)")
    args.tried = tuple(connection.attempts)


def printing_bus() -> Bus:
    """Return a bus whose log lines and progress are printed to stderr."""
    bus = Bus()
    print_events(bus)
    return bus


def print_events(bus: Bus) -> None:
    """Print log lines and progress of this bus to stderr."""
    bus.subscribe(LogLine, lambda line: show_line(line.extension, line.text))
    bus.subscribe(
        Progressed, lambda progress: say(f"[{progress.extension}] {_progress_text(progress)}")
    )


def _progress_text(progress: Progressed) -> str:
    total = f" of {progress.total:g}" if progress.total is not None else ""
    return f"{progress.method}: {progress.progress:g}{total} {progress.message}".rstrip()


def _environ() -> dict[str, str]:
    return dict(os.environ)
