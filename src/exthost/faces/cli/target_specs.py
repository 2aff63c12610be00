"""Finds the extensions that the arguments of a verb (a subcommand of exthost) name, as specs.

A spec describes an extension: its id, how it is launched, its settings and permissions. An
extension is named by its id in the config, by the path of its folder or manifest, or by a command
after `--`. Nothing is started. Functions raise NotFound if there is no such extension.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from exthost.config import Config, DiscoverySettings, spec_from_mapping
from exthost.config.discovery.configfile import (
    ConfiguredExtensions,
    find_extensions,
    read_config,
    read_named_manifest,
)
from exthost.config.discovery.extension_at_path import spec_at
from exthost.config.discovery.locked_specs import without_lock
from exthost.config.discovery.report import SearchReport
from exthost.config.discovery.search import discover
from exthost.dialects import find
from exthost.errors import ConfigError, NotFound, UsageError
from exthost.faces.cli.common import DEFAULT_CONFIG, Args, list_names, require_config_path
from exthost.host.connection import command_id
from exthost.model.names import nearest
from exthost.model.spec import DEFAULT_DIALECT, Permissions, Spec


def has_config(args: Args) -> bool:
    """Return whether a config is named with --config, or the default file exists."""
    return args.config is not None or Path(DEFAULT_CONFIG).exists()


def path_exists(path: str | Path) -> bool:
    """Return whether there is something at this path. Unlike `Path.exists`, return False for a path
    that is too long for the system."""
    return os.path.exists(path)  # noqa: PTH110


def read_extensions(args: Args) -> ConfiguredExtensions:
    """Return every extension that the config has or finds, with the diagnostics of its search."""
    return find_extensions(read_config(require_config_path(args)))


def read_target_extensions(args: Args) -> ConfiguredExtensions:
    """Return the extensions that the target of the verb names: an extension of the config, or the
    extensions in a folder or manifest. Without a target, return every extension of the config."""
    target = args.target
    if target is None:
        return read_extensions(args)
    if has_config(args):
        configured = read_extensions(args)
        specs = tuple(spec for spec in configured.specs if spec.id == target)
        target_diagnostics = tuple(
            diagnostic for diagnostic in configured.diagnostics if diagnostic.extension == target
        )
        if specs or target_diagnostics or not path_exists(target):
            if not specs and not target_diagnostics:
                # Raises NotFound, unless the target is a disabled extension.
                find_spec(args, target, with_disabled=True)
            disabled = tuple(
                entry for entry in configured.report.disabled_candidates if entry.spec.id == target
            )
            report = replace(configured.report, disabled_candidates=disabled)
            return replace(configured, specs=specs, diagnostics=target_diagnostics, report=report)
    if not path_exists(target):
        find_spec(args, target)  # raises NotFound, with a suggestion
    report = manifests_at(Path(target))
    specs = tuple(candidate.spec for candidate in report.candidates)
    diagnostics = report.diagnostics
    return ConfiguredExtensions(
        config=Config(), specs=specs, diagnostics=diagnostics, report=report
    )


def manifests_at(path: Path) -> SearchReport:
    """Return the extensions and diagnostics of the manifest at this path, or of all manifests in
    this folder. Raises NotFound if there is no manifest."""
    if not path_exists(path):
        raise NotFound(
            "X1206",
            f"there is nothing at {path}",
            help="name a folder or a manifest; exthost doctor NAME looks at one of the config",
        )
    folder = path if path.is_dir() else path.parent
    report = discover(DiscoverySettings(search_paths=(str(folder),)), find.load_manifest_formats())
    if not path.is_dir():
        real_path = str(path.resolve())
        candidates = tuple(
            candidate for candidate in report.candidates if candidate.path == real_path
        )
        ids = {candidate.id for candidate in candidates}
        diagnostics = tuple(
            diagnostic
            for diagnostic in report.diagnostics
            if diagnostic.extension in ids or str(Path(diagnostic.path).resolve()) == real_path
        )
        report = SearchReport(candidates=candidates, diagnostics=diagnostics)
    if not report.candidates and not report.diagnostics:
        names = ", ".join(name for format in find.load_manifest_formats() for name in format.names)
        config = f"; of a config: --config {shlex.quote(str(path))}" if path.is_file() else ""
        help = f"manifests are: {names}{config}"
        raise NotFound("X1206", f"{path} has no manifest", help=help)
    return report


def find_spec(args: Args, target: str | None, *, with_disabled: bool = False) -> Spec | None:
    """Return the extension that the target or the command after `--` names, with the launch options
    applied. Return None if neither is given. A disabled extension is found only with
    `with_disabled`; otherwise it raises NotFound. Raises UsageError if `--dialect` names another
    dialect than the config or manifest, or none that exists."""
    check_dialect_option(args)
    spec = _find_spec(args, target, with_disabled)
    if spec is None:
        return None
    dialect = _dialect_option(args)
    if dialect is not None and dialect != spec.dialect:
        raise _other_dialect_error(dialect, spec)
    return with_launch_flags(args, spec)


def find_unlocked_spec(args: Args, target: str | None) -> Spec | None:
    """Do the same as `find_spec`, for a verb that does not compare the extension with the record
    that the lock of the config (`exthost.lock`) has of it."""
    spec = find_spec(args, target)
    return spec if spec is None else without_lock(spec)


def _dialect_option(args: Args) -> str | None:
    """Return the value of `--dialect`; None without one, and for verbs without this option."""
    return getattr(args, "dialect", None)


def check_dialect_option(args: Args) -> None:
    """Raise UsageError if `--dialect` names no dialect, and ConfigError if the package of the
    dialect cannot be used."""
    dialect = _dialect_option(args)
    if dialect is None:
        return
    try:
        find.find_dialect(dialect)
    except ConfigError as error:
        if dialect in find.DIALECT_NAMES:
            raise
        raise UsageError("X1316", f"--dialect: {error.message}", help=error.help) from None


def _other_dialect_error(name: str, spec: Spec) -> UsageError:
    origin = "by default" if spec.is_dialect_assumed else f"by {spec.origin or 'the config'}"
    return UsageError(
        "X1316",
        f"--dialect {name}, but {spec.id} speaks {spec.dialect} {origin}",
        help=f'remove --dialect, or set dialect = "{name}" there; '
        "--dialect is for a command after --",
    )


def refuse_dialect(args: Args) -> None:
    """Raise UsageError if there is a `--dialect`. Called if the verb uses every extension of the
    config, each in its own dialect."""
    if args.dialect is not None:
        raise UsageError(
            "X1316",
            f"--dialect {args.dialect} does not apply to the extensions of a config",
            help="remove --dialect, or write a command after --",
        )


def with_launch_flags(args: Args, spec: Spec) -> Spec:
    """Return the spec with the options -e, --cwd, --sandbox and --lifetime applied. An extension
    without a permissions table gets no permissions in a strict sandbox."""
    permissions = spec.permissions
    if args.cwd is not None:
        folder = Path(args.cwd)
        if not folder.is_dir():
            raise UsageError(
                "X1316",
                f"--cwd {args.cwd}: there is no such folder",
                help="name a folder that exists",
            )
        spec = replace(spec, cwd=str(folder.absolute()), own_cwd=True)
    if args.env:
        spec = replace(spec, env={**spec.env, **dict(args.env)})
    if args.sandbox in ("strict", "landlock") and permissions is None:
        permissions = Permissions()
    return replace(
        spec,
        permissions=permissions,
        sandbox=args.sandbox or spec.sandbox,
        lifetime=args.lifetime or spec.lifetime,
    )


def _find_spec(args: Args, target: str | None, with_disabled: bool) -> Spec | None:
    """Do what `find_spec` does, without checking `--dialect` and applying the launch options."""
    if args.command:
        if target is not None:
            raise UsageError("X1316", "give a target or a command after --, not both")
        spec = command_spec(args.command, args.dialect or DEFAULT_DIALECT)
        return spec if args.dialect is None else _with_manifest_of_program(spec)
    if target is None:
        return None
    if has_config(args):
        configured = read_extensions(args)
        for spec in (*configured.specs, *configured.disabled):
            if spec.id == target and (spec.enabled or with_disabled):
                return spec
            if spec.id == target:
                raise NotFound(
                    "X1206",
                    f"{target!r} is switched off in the config",
                    help=f"switch it on: exthost enable {shlex.quote(target)}",
                )
        for diagnostic in configured.diagnostics:
            if diagnostic.level == "error" and diagnostic.extension == target:
                raise diagnostic.as_error()
        names = [spec.id for spec in configured.specs]
    else:
        names = []
    if path_exists(target):
        return spec_at(Path(target))
    suggestion = nearest(target, names)
    known = f"the extensions here are {list_names(names)}; " if names else ""
    raise NotFound(
        "X1206",
        f"{target!r} is neither an extension in the config nor a folder or manifest"
        if has_config(args)
        else f"{target!r} is not a folder or manifest, and there is no {DEFAULT_CONFIG} here",
        help=f"did you mean {suggestion!r}?"
        if suggestion
        else f"{known}give a name, a path, or a command after --",
    )


def command_spec(command: Sequence[str], dialect: str) -> Spec:
    """Return the spec of a bare command (a command after `--` in place of an extension of the
    config)."""
    source = {"type": "process", "command": command[0], "args": list(command[1:])}
    find.find_dialect(dialect)  # raises if there is no such dialect
    return spec_from_mapping({"name": command_id(command), "dialect": dialect, "source": source})


def _with_manifest_of_program(spec: Spec) -> Spec:
    """Return the spec completed by the manifest in the folder of its program, for a dialect whose
    tools are declared only in the manifest."""
    if find.find_dialect_of(spec).traits.tools != "manifest":
        return spec
    format = find.find_manifest_format(spec.dialect)
    # The files of the command line are searched from the last to the first, because interpreters
    # come before the program that they run.
    # Not `Path.is_file`, which raises OSError for an argument that is too long for a path.
    files = [argument for argument in reversed(spec.argv) if os.path.isfile(argument)]  # noqa: PTH113
    folders = [Path(argument).parent for argument in files]
    manifest_names = format.names if format is not None else ()
    for folder in folders:
        for name in manifest_names:
            if (folder / name).is_file():
                return read_named_manifest(replace(spec, manifest_path=str(folder / name)))
    return spec
