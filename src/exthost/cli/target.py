"""Finds the extension of a verb: a name in the config, a folder or manifest, or a command."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.cli.common import DEFAULT_CONFIG, Args, escape_controls, given_config, say
from exthost.cli.log_handler import WarningHandler
from exthost.config import DiscoverySettings, spec_from_mapping
from exthost.connection import Connection, command_id
from exthost.detection import DetectedConnection
from exthost.dialects import find
from exthost.discovery.configfile import Wanted, from_manifest, read_config, wanted
from exthost.discovery.report import Diagnostic
from exthost.discovery.search import discover
from exthost.errors import Evidence, ManifestError, NotFound, UsageError
from exthost.events import Bus, LogLine, Progressed
from exthost.extension.extension import Extension
from exthost.host.audit import Audit
from exthost.names import nearest
from exthost.process.host_protection import harden
from exthost.spec import DEFAULT_DIALECT, Permissions, Spec


def has_config(args: Args) -> bool:
    """Whether a config holds here: one that was named, or the usual one."""
    return args.config is not None or Path(DEFAULT_CONFIG).exists()


def read_wanted(args: Args) -> Wanted:
    """Every extension of the config that holds here. Starts nothing."""
    return wanted(read_config(given_config(args)))


def find_spec(args: Args, target: str | None, *, with_disabled: bool = False) -> Spec | None:
    """The one extension that is meant, held as was asked; None if neither a target nor a command
    was given. `with_disabled`: one that is switched off may be meant as well."""
    spec = _find_spec(args, target, with_disabled)
    return None if spec is None else with_sandbox_flags(args, spec)


def with_sandbox_flags(args: Args, spec: Spec) -> Spec:
    """Return the spec with --sandbox and --lifetime applied. A strict sandbox without a permissions
    table grants nothing."""
    permissions = spec.permissions
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
        return command_spec(args.command, args.dialect or DEFAULT_DIALECT)
    if target is None:
        return None
    if has_config(args):
        found = read_wanted(args)
        for spec in found.specs:
            if spec.id == target:
                return spec
        for spec in found.disabled:
            if spec.id == target and with_disabled:
                return spec
            if spec.id == target:
                raise NotFound(
                    "X1206",
                    f"{target!r} is switched off in the config",
                    help=f"switch it on: exthost enable {target}",
                )
        for one in found.diagnostics:
            if one.level == "error" and one.extension == target:
                raise manifest_error(one)
        names = [spec.id for spec in found.specs]
    else:
        names = []
    if Path(target).exists():
        return _from_disk(Path(target))
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


def _from_disk(path: Path) -> Spec:
    path = path.resolve()
    formats = find.manifest_formats()
    if path.suffix == ".toml" and not any(
        one.claims(path.name, path.parent.name) for one in formats
    ):
        return from_manifest(path)
    folder = path if path.is_dir() else path.parent
    if any(one.parent == folder.name for one in formats):  # the extension is the folder above
        folder = folder.parent
    report = discover(DiscoverySettings(search_paths=(str(folder),), max_depth=2), formats)
    real = path.resolve()
    candidates = [
        one for one in report.candidates if path.is_dir() or Path(one.path).resolve() == real
    ]
    if candidates:
        return _only_one([one.spec for one in candidates], path)
    if path.is_dir() and (path / DEFAULT_CONFIG).is_file():
        return _only_one(wanted(read_config(str(path / DEFAULT_CONFIG))).specs, path)
    wrong = [one for one in report.diagnostics if one.level == "error"]
    if len(wrong) == 1:
        raise manifest_error(wrong[0])
    told = [one.message for one in report.diagnostics]
    raise NotFound(
        "X1206",
        f"{path} holds no extension that this version knows" + "".join(f"; {m}" for m in told),
        help="a bare program is run with -- COMMAND ARGS…",
    )


def _only_one(specs: Sequence[Spec], path: Path) -> Spec:
    """Return the only extension of a folder. Raises UsageError if there are several or none."""
    if len(specs) == 1:
        return specs[0]
    names = ", ".join(spec.id for spec in specs) or "none"
    raise UsageError(
        "X1316",
        f"{path} holds several extensions: {names}" if specs else f"{path} holds no extension",
        help=f"name one, with --config {path / DEFAULT_CONFIG}",
    )


def manifest_error(one: Diagnostic) -> ManifestError:
    """A manifest's diagnostic as the error that it is for whoever asked for just this one."""
    return ManifestError(
        one.code,
        one.message,
        extension=one.extension,
        help=one.help,
        evidence=Evidence(
            path=one.path,
            line=one.line,
            key=one.key,
            details=tuple(other.message for other in one.more),
        ),
    )


@asynccontextmanager
async def started(args: Args, spec: Spec) -> AsyncIterator[Extension]:
    """The extension, started; its log on stderr. Finds out the dialect where none was told."""
    if not args.command or args.dialect is not None:
        spec = with_start_limit(args, spec)
        bus = printing_bus()
        audit = _open_audit(args, bus)
        try:
            async with Connection(spec, events=bus, environ=_environ()) as extension:
                yield extension
        finally:
            if audit is not None:
                audit.close()
        return
    detected = _detected(args, spec, printing_bus())
    async with detected as extension:
        _tell_dialect(args, detected, extension.dialect.name)
        yield extension


def _open_audit(args: Args, bus: Bus) -> Audit | None:
    """Open the audit of the config that holds here, if it has one; a bare command has none."""
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


def _detected(args: Args, spec: Spec, events: Bus | None) -> DetectedConnection:
    seconds = args.start_seconds
    return DetectedConnection(spec, events=events, environ=_environ(), seconds=seconds)


def _tell_dialect(args: Args, detected: DetectedConnection, name: str) -> None:
    say(f"dialect: {name} (found out by trying; --dialect {name} saves that)")
    args.tried = tuple(detected.attempts)


def printing_bus() -> Bus:
    """Return a bus whose log lines and progress are printed to stderr."""
    bus = Bus()
    print_events(bus)
    return bus


def print_events(bus: Bus) -> None:
    """Print log lines and progress of this bus to stderr."""
    bus.subscribe(LogLine, lambda line: say(f"[{line.extension}] {line.text}"))
    bus.subscribe(Progressed, lambda told: say(f"[{told.extension}] {_progress_text(told)}"))


def _progress_text(told: Progressed) -> str:
    of = f" of {told.total:g}" if told.total is not None else ""
    return f"{told.method}: {told.progress:g}{of} {told.message}".rstrip()


def _environ() -> dict[str, str]:
    return dict(os.environ)


def run_async(main: Any) -> int:
    """Run a verb's coroutine; Ctrl-C ends it in order. What it starts cannot read our memory and
    variables by our pid."""
    harden()
    return int(asyncio.run(main))


def run_once(main: Any) -> int:
    """The same for a verb that ends by itself; what the host warns of is told on stderr."""
    with WarningHandler(lambda text: say(escape_controls(text))):
        return run_async(main)
