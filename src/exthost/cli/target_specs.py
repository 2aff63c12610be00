"""The specs that the arguments of a verb name: by a name in the config, a path, or a command.

Starts nothing. Raises NotFound if there is no such extension.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from exthost.cli.common import DEFAULT_CONFIG, Args, given_config
from exthost.config import Config, DiscoverySettings, spec_from_mapping
from exthost.connection import command_id
from exthost.dialects import find
from exthost.discovery.configfile import (
    ConfiguredExtensions,
    find_extensions,
    read_config,
    read_named_manifest,
)
from exthost.discovery.extension_at_path import spec_at
from exthost.discovery.report import Report
from exthost.discovery.search import discover
from exthost.errors import NotFound, UsageError
from exthost.names import nearest
from exthost.spec import DEFAULT_DIALECT, Permissions, Spec


def has_config(args: Args) -> bool:
    """Whether there is a config: one named with --config, or the default file."""
    return args.config is not None or Path(DEFAULT_CONFIG).exists()


def read_wanted(args: Args) -> ConfiguredExtensions:
    """Return every extension of the config. Starts nothing."""
    return find_extensions(read_config(given_config(args)))


def read_targeted(args: Args) -> ConfiguredExtensions:
    """Return every extension of the config, or only those that the target names: one of the config,
    or what is in a folder or manifest. Starts nothing."""
    target = args.target
    if target is None:
        return read_wanted(args)
    if has_config(args):
        configured = read_wanted(args)
        specs = tuple(spec for spec in configured.specs if spec.id == target)
        own_diagnostics = tuple(
            diagnostic for diagnostic in configured.diagnostics if diagnostic.extension == target
        )
        if specs or own_diagnostics or not Path(target).exists():
            if not specs and not own_diagnostics:
                find_spec(args, target, with_disabled=True)  # raises, unless it is disabled
            off = tuple(entry for entry in configured.report.off if entry.spec.id == target)
            report = replace(configured.report, off=off)
            return replace(configured, specs=specs, diagnostics=own_diagnostics, report=report)
    if not Path(target).exists():
        find_spec(args, target)  # raises
    report = manifests_at(Path(target))
    specs = tuple(candidate.spec for candidate in report.candidates)
    diagnostics = report.diagnostics
    return ConfiguredExtensions(
        config=Config(), specs=specs, diagnostics=diagnostics, report=report
    )


def manifests_at(path: Path) -> Report:
    """Return what there is at this path, and nothing else. Raises NotFound if that is nothing."""
    if not path.exists():
        raise NotFound(
            "X1206",
            f"there is nothing at {path}",
            help="name a folder or a manifest; exthost doctor NAME looks at one of the config",
        )
    folder = path if path.is_dir() else path.parent
    report = discover(DiscoverySettings(search_paths=(str(folder),)), find.load_manifest_formats())
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
        names = ", ".join(name for form in find.load_manifest_formats() for name in form.names)
        config = f"; of a config: --config {path}" if path.is_file() else ""
        help = f"manifests are: {names}{config}"
        raise NotFound("X1206", f"{path} holds no manifest", help=help)
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
        configured = read_wanted(args)
        for spec in (*configured.specs, *configured.disabled):
            if spec.id == target and (spec.enabled or with_disabled):
                return spec
            if spec.id == target:
                raise NotFound(
                    "X1206",
                    f"{target!r} is switched off in the config",
                    help=f"switch it on: exthost enable {target}",
                )
        for diagnostic in configured.diagnostics:
            if diagnostic.level == "error" and diagnostic.extension == target:
                raise diagnostic.as_error()
        names = [spec.id for spec in configured.specs]
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
    format = find.find_manifest_format(spec.dialect)
    folders = [Path(word).parent for word in reversed(spec.argv) if Path(word).is_file()]
    for folder in folders if format is not None else ():
        for name in format.names if format is not None else ():
            if (folder / name).is_file():
                return read_named_manifest(replace(spec, manifest_path=str(folder / name)))
    return spec
