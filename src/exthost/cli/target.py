"""Finds the extension of a verb: a name in the config, a folder or manifest, or a command."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.cli.common import DEFAULT_CONFIG, Args, escape_controls, given_config, say, show_line
from exthost.cli.log_handler import WarningHandler
from exthost.cli.start_note import start_note
from exthost.config import Config, DiscoverySettings, spec_from_mapping
from exthost.connection import Connection, command_id
from exthost.detection import DetectedConnection
from exthost.dialects import find
from exthost.discovery.configfile import (
    Wanted,
    completed,
    read_config,
    wanted,
)
from exthost.discovery.report import Report
from exthost.discovery.search import discover
from exthost.discovery.target import spec_at
from exthost.errors import NotFound, UsageError
from exthost.event_loop import new_event_loop
from exthost.events import Bus, LogLine, Progressed
from exthost.extension.extension import Extension
from exthost.host.audit import Audit
from exthost.names import nearest
from exthost.process.host_protection import harden
from exthost.spec import DEFAULT_DIALECT, Permissions, Spec
from exthost.trace.record import TraceRecord
from exthost.trace.recording import LineMaker
from exthost.trace.trace_file import TraceFile
from exthost.trace.traffic import Traffic


def has_config(args: Args) -> bool:
    """Whether there is a config: one named with --config, or the default file."""
    return args.config is not None or Path(DEFAULT_CONFIG).exists()


def read_wanted(args: Args) -> Wanted:
    """Return every extension of the config. Starts nothing."""
    return wanted(read_config(given_config(args)))


def read_targeted(args: Args) -> Wanted:
    """Return every extension of the config, or only those that the target names: one of the config,
    or what is in a folder or manifest. Starts nothing."""
    target = args.target
    if target is None:
        return read_wanted(args)
    if has_config(args):
        found = read_wanted(args)
        specs = tuple(spec for spec in found.specs if spec.id == target)
        own_diagnostics = tuple(
            diagnostic for diagnostic in found.diagnostics if diagnostic.extension == target
        )
        if specs or own_diagnostics or not Path(target).exists():
            if not specs and not own_diagnostics:
                find_spec(args, target, with_disabled=True)  # raises, unless it is disabled
            off = tuple(entry for entry in found.report.off if entry.spec.id == target)
            report = replace(found.report, off=off)
            return replace(found, specs=specs, diagnostics=own_diagnostics, report=report)
    if not Path(target).exists():
        find_spec(args, target)  # raises
    report = manifests_at(Path(target))
    specs = tuple(candidate.spec for candidate in report.candidates)
    diagnostics = report.diagnostics
    return Wanted(config=Config(), specs=specs, diagnostics=diagnostics, report=report)


def manifests_at(path: Path) -> Report:
    """Return what there is at this path, and nothing else. Raises NotFound if that is nothing."""
    if not path.exists():
        raise NotFound(
            "X1206",
            f"there is nothing at {path}",
            help="name a folder or a manifest; exthost doctor NAME looks at one of the config",
        )
    folder = path if path.is_dir() else path.parent
    report = discover(DiscoverySettings(search_paths=(str(folder),)), find.manifest_formats())
    if not path.is_dir():
        real = str(path.resolve())
        candidates = tuple(candidate for candidate in report.candidates if candidate.path == real)
        ids = {candidate.id for candidate in candidates}
        diagnostics = tuple(
            diagnostic
            for diagnostic in report.diagnostics
            if diagnostic.extension in ids or str(Path(diagnostic.path).resolve()) == real
        )
        report = Report(candidates=candidates, diagnostics=diagnostics)
    if not report.candidates and not report.diagnostics:
        names = ", ".join(name for form in find.manifest_formats() for name in form.names)
        raise NotFound("X1206", f"{path} holds no manifest", help=f"manifests are: {names}")
    return report


def find_spec(args: Args, target: str | None, *, with_disabled: bool = False) -> Spec | None:
    """Return the extension that the arguments name, with the launch flags applied; None if they
    name none. `with_disabled`: also find a disabled one."""
    spec = _find_spec(args, target, with_disabled)
    return None if spec is None else with_launch_flags(args, spec)


def with_launch_flags(args: Args, spec: Spec) -> Spec:
    """Return the spec with -e, --cwd, --sandbox and --lifetime applied. A strict sandbox without a
    permissions table grants nothing."""
    permissions = spec.permissions
    if args.cwd is not None:
        folder = Path(args.cwd)
        if not folder.is_dir():
            raise UsageError(
                "X1316", f"--cwd {args.cwd}: there is no such folder", help="name one that exists"
            )
        spec = replace(spec, cwd=str(folder.absolute()), own_cwd=True)
    if args.env:
        spec = replace(spec, env={**spec.env, **dict(args.env)})
    if args.sandbox == "strict" and permissions is None:
        permissions = Permissions()
    return replace(
        spec,
        permissions=permissions,
        sandbox=args.sandbox or spec.sandbox,
        lifetime=args.lifetime or spec.lifetime,
    )


def _find_spec(args: Args, target: str | None, with_disabled: bool) -> Spec | None:
    if args.command:
        if target is not None:
            raise UsageError("X1316", "give a target or a command after --, not both")
        spec = command_spec(args.command, args.dialect or DEFAULT_DIALECT)
        return spec if args.dialect is None else _with_manifest_beside(spec)
    if target is None:
        return None
    if has_config(args):
        found = read_wanted(args)
        for spec in (*found.specs, *found.disabled):
            if spec.id == target and (spec.enabled or with_disabled):
                return spec
            if spec.id == target:
                raise NotFound(
                    "X1206",
                    f"{target!r} is switched off in the config",
                    help=f"switch it on: exthost enable {target}",
                )
        for diagnostic in found.diagnostics:
            if diagnostic.level == "error" and diagnostic.extension == target:
                raise diagnostic.as_error()
        names = [spec.id for spec in found.specs]
    else:
        names = []
    if Path(target).exists():
        return spec_at(Path(target))
    near = nearest(target, names)
    raise NotFound(
        "X1206",
        f"{target!r} is neither an extension in the config nor a folder or manifest",
        help=f"did you mean {near!r}?" if near else "give a name, a path, or a command after --",
    )


def command_spec(command: Sequence[str], dialect: str) -> Spec:
    """A bare command as an extension."""
    source = {"type": "process", "command": command[0], "args": list(command[1:])}
    find.find_dialect(dialect)
    return spec_from_mapping({"name": command_id(command), "dialect": dialect, "source": source})


def _with_manifest_beside(spec: Spec) -> Spec:
    """Return the spec with the manifest in the folder of its program, for a dialect that cannot do
    without one."""
    if find.find_dialect(spec.dialect).traits.tools != "manifest":
        return spec
    format = find.manifest_format(spec.dialect)
    folders = [Path(word).parent for word in reversed(spec.argv) if Path(word).is_file()]
    for folder in folders if format is not None else ():
        for name in format.names if format is not None else ():
            if (folder / name).is_file():
                return completed(replace(spec, manifest_path=str(folder / name)))
    return spec


@asynccontextmanager
async def started(args: Args, spec: Spec) -> AsyncIterator[Extension]:
    """Start the extension, with its log on stderr. Detects the dialect of a command if none is
    given."""
    bus = printing_bus()
    traffic = Traffic(bus)
    if not args.command or args.dialect is not None:
        spec = with_start_limit(args, spec)
        audit = _open_audit(args, bus)
        connection = Connection(spec, events=bus, environ=_environ(), traffic=traffic)
        try:
            with traced(args, traffic):
                async with _announced(connection, spec.id) as extension:
                    yield extension
        finally:
            if audit is not None:
                audit.close()
        return
    detected = _detected(args, spec, bus, traffic)
    with traced(args, traffic):
        async with _announced(detected, spec.id) as extension:
            _tell_dialect(args, detected, extension.dialect.name)
            yield extension


@asynccontextmanager
async def _announced(
    connection: AbstractAsyncContextManager[Extension], name: str
) -> AsyncIterator[Extension]:
    """Open a connection, and say so if that takes long."""
    async with AsyncExitStack() as stack:
        with start_note(name):
            extension = await stack.enter_async_context(connection)
        yield extension


@contextmanager
def traced(args: Args, traffic: Traffic) -> Iterator[None]:
    """Record the traffic as `--trace` says, if it says so."""
    if args.trace is None:
        yield
        return
    if args.trace == "-":
        maker = LineMaker(traffic.dialects)
        unsubscribe = traffic.subscribe(lambda record: _print_record(maker, record))
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


def _print_record(maker: LineMaker, record: TraceRecord) -> None:
    sys.stderr.write(maker.lines(record).decode("utf-8", "replace"))
    sys.stderr.flush()


def _open_audit(args: Args, bus: Bus) -> Audit | None:
    """Open the config's audit, if it has one; a bare command has none."""
    if args.command or not has_config(args):
        return None
    path = read_config(given_config(args)).audit_path
    return None if path is None else Audit(path, bus)


async def detect_dialect(args: Args, spec: Spec) -> Spec:
    """Return the spec with the dialect that its command speaks."""
    detected = _detected(args, spec, None)
    async with detected as extension:
        _tell_dialect(args, detected, extension.dialect.name)
        return replace(spec, dialect=extension.dialect.name)


def with_start_limit(args: Args, spec: Spec) -> Spec:
    """Return the spec with `--timeout` as its time to start and to shake hands, for the verbs whose
    `--timeout` means that."""
    seconds = args.start_seconds
    if seconds is None:
        return spec
    return replace(spec, limits=replace(spec.limits, start=seconds, handshake=seconds))


def _detected(
    args: Args, spec: Spec, events: Bus | None, traffic: Traffic | None = None
) -> DetectedConnection:
    seconds = args.start_seconds
    return DetectedConnection(
        spec, events=events, environ=_environ(), seconds=seconds, traffic=traffic
    )


def _tell_dialect(args: Args, detected: DetectedConnection, name: str) -> None:
    say(f"dialect: {name} (detected; --dialect {name} skips the detection)")
    args.tried = tuple(detected.attempts)


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
    of = f" of {progress.total:g}" if progress.total is not None else ""
    return f"{progress.method}: {progress.progress:g}{of} {progress.message}".rstrip()


def _environ() -> dict[str, str]:
    return dict(os.environ)


def run_async(main: Any) -> int:
    """Run a verb's coroutine; Ctrl-C cancels it. The processes that it starts cannot read the
    memory and the variables of this one."""
    harden()
    return int(asyncio.run(main))


def run_service(main: Any) -> int:
    """Do the same as `run_async` for a verb that serves for long: on uvloop, if it is installed."""
    harden()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return int(runner.run(main))


def run_once(main: Any) -> int:
    """Do the same as `run_async` for a verb that ends by itself, with the host's warnings on
    stderr."""
    with WarningHandler(lambda text: say(escape_controls(text))):
        return run_async(main)
