"""Reads config files, and finds all extensions of a config, discovered ones included.

The command line and the host both use this module, so that `exthost list` and a running host agree
about what a config means. The functions block. They start no process. Modules that not every config
needs are imported lazily.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exthost.config.discovery.report import Diagnostic, RejectedManifest, SearchReport
from exthost.config.discovery.trust import refuse_untrusted
from exthost.errors import ConfigError, Evidence, ExthostError, ManifestError, UsageError
from exthost.model.secret_names import looks_secret
from exthost.model.spec import Package
from exthost.process.own_process import host_environ

if TYPE_CHECKING:
    from exthost.config import (
        Config,
    )
    from exthost.model.spec import Spec

# The suffixes of configs in JSON. Other suffixes than these and those of YAML mean TOML.
JSON_SUFFIXES = (".json", ".jsonc")

# Larger than the config of thousands of extensions, and small enough to be read at once.
_MAX_CONFIG_BYTES = 16 * 1024 * 1024


def _parse_json(source: bytes, origin: str, folder: str | None) -> Config:
    """Return the config in this JSON. The config of an editor may refer to environment variables
    of the host, and to files with further variables (`envFile`)."""
    from exthost.config import config_from_json

    return config_from_json(
        source, origin, folder, host_environ(), env_file_reader(Path(folder or "."))
    )


def env_file_reader(folder: Path) -> Callable[[str], str]:
    """Return a function that takes a path relative to this folder, and returns the text of the
    file. It raises OSError or ValueError."""
    return lambda path: read_config_bytes(folder / path).decode("utf-8-sig")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredExtensions:
    """The extensions of a config that can be used, and the problems with those that cannot.

    config       the config itself
    specs        the entries of the config first, then the discovered extensions
    diagnostics  problems with the config and with manifests
    rejected     the manifests that are in use and have errors: those of enabled entries of the
                 config, and the discovered ones that are not disabled
    report       the result of discovery; empty if the config has no `[discovery]`
    has_lock     whether there is a lock (`exthost.lock`), also one that cannot be used
    entry_ids    the ids of the entries of the config, which are not discovered
    """

    config: Config
    specs: tuple[Spec, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    rejected: tuple[RejectedManifest, ...] = ()
    report: SearchReport = field(default_factory=SearchReport)
    has_lock: bool = False
    entry_ids: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "entry_ids", frozenset(spec.id for spec in self.config.specs))

    @property
    def disabled(self) -> tuple[Spec, ...]:
        """The discovered extensions that the `disabled` list of the config removed."""
        used_ids = {spec.id for spec in self.specs}
        removed = [
            spec for candidate in self.report.disabled_candidates for spec in candidate.all_specs
        ]
        return tuple(
            replace(self.config.apply_overrides(spec), enabled=False)
            for spec in removed
            if spec.id not in used_ids
        )

    def asks_for_secrets(self, spec: Spec) -> tuple[str, ...]:
        """Return the environment variables that look like secrets and that the extension gets only
        because its manifest requires them.

        The result is empty if an entry, an override or the allowlist of the config names the
        extension, because a user then decided to trust it.
        """
        config = self.config
        allowlist = config.discovery.allowlist if config.discovery is not None else ()
        if spec.package is not None and spec.permissions is not None and spec.sandbox != "off":
            return ()  # a sandboxed package gets no variable that its manifest requires
        if spec.id in allowlist or spec.id in config.overrides or spec.id in self.entry_ids:
            return ()
        variables = [setting.secret for setting in spec.settings]
        required_secrets = [name for name in spec.requires.env if looks_secret(name)]
        # Only the policy "filtered" passes a variable because a manifest requires it.
        if required_secrets and _find_env_policy(spec) == "filtered":
            variables += required_secrets
        return tuple(name for name in variables if looks_secret(name))


def _find_env_policy(spec: Spec) -> str:
    """Return the environment policy of the extension, or else the default of its dialect."""
    from exthost.dialects import find

    return spec.env_policy or find.find_dialect_of(spec).traits.environment


def read_config(source: str | Path | Mapping[str, Any]) -> Config:
    """Return the config in this file, or in this dict. Raises ConfigError; UsageError for what is
    neither."""
    if isinstance(source, Mapping):
        from exthost.config import config_from_mapping

        return config_from_mapping(source)
    if not isinstance(source, str | os.PathLike):
        raise UsageError("X1339", f"a config must be a path or a dict, not {source!r:.60}")
    path = Path(source)
    try:
        data = read_config_bytes(path)
    except OSError as error:
        raise config_read_error(path, error.strerror or str(error)) from None
    except ValueError as error:  # the path has a NUL character or half of a surrogate pair
        raise config_read_error(path, str(error)) from None
    return parse_config(path, data)


def config_read_error(path: Path, reason: str) -> ConfigError:
    """Return the error of a config file that cannot be read for this reason."""
    return ConfigError(
        "X0101",
        f"the config {path} cannot be read: {reason}",
        help="name it with --config, or write exthost.toml; see the README for a first one",
        evidence=Evidence(path=str(path)),
    )


def read_config_bytes(path: Path) -> bytes:
    """Return the content of a config file. Raises OSError, also if it is too large or not a regular
    file: reading a pipe would block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(_MAX_CONFIG_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > _MAX_CONFIG_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {_MAX_CONFIG_BYTES} bytes")
    return data


def parse_config(path: Path, data: bytes) -> Config:
    """Return the config in these bytes. `path` is the file that they were read from, or will be
    written to; its suffix decides about the format. Raises ConfigError."""
    from exthost.config import config_from_toml, config_from_yaml

    absolute = path.absolute()
    origin, folder = str(absolute), str(absolute.parent)
    if path.suffix in JSON_SUFFIXES:
        return _parse_json(data, origin, folder)
    parse = config_from_yaml if path.suffix in (".yaml", ".yml") else config_from_toml
    return parse(data, origin, folder)


def find_extensions(config: Config) -> ConfiguredExtensions:
    """Return the extensions of the config's entries and those that discovery finds. If both have
    the same id, the entry of the config is used."""
    report = SearchReport()
    if config.discovery is not None:
        from exthost.config.discovery.search import discover
        from exthost.dialects import find

        report = discover(config.discovery, find.load_manifest_formats(), base=config.folder or ".")
    # The entries of the config come first, and then the discovered extensions.
    from exthost.config.discovery.locked_specs import lock_specs, read_lock_state
    from exthost.config.discovery.writable_files import find_writable_files

    diagnostics = [
        *(_note_diagnostic(note, config.origin) for note in config.notes),
        *find_writable_files(config),
        *report.diagnostics,
    ]
    specs: dict[str, Spec] = {}
    rejected = [*report.rejected]
    for spec in config.specs:
        try:
            specs[spec.id] = read_named_manifest(spec) if spec.enabled else spec
        except ManifestError as error:
            diagnostics.append(Diagnostic.of((error,), config.origin))
            rejected.append(_rejected_entry(spec, diagnostics[-1]))
    for candidate in report.candidates:
        for spec in candidate.all_specs:
            if spec.id in specs:
                diagnostics.append(_shadowed_diagnostic(spec, specs[spec.id]))
            else:
                specs[spec.id] = with_environ(config.apply_overrides(spec))
    # Mistakes in the config: overrides and required guards without an extension.
    disabled = {spec.id for candidate in report.disabled_candidates for spec in candidate.all_specs}
    unused = sorted(config.overrides.keys() - specs.keys() - disabled)
    diagnostics += [_unused_override_diagnostic(id, config.origin) for id in unused]
    enabled = {id for id, spec in specs.items() if spec.enabled}
    # A guard whose manifest is rejected counts: calls that its hooks would judge are refused.
    present = enabled.union(*(manifest.ids for manifest in rejected))
    diagnostics += [
        _missing_guard_diagnostic(id, config.origin)
        for id in config.required_guards
        if id not in present
    ]
    # Extensions that must not start are kept, each with a refusal.
    # A config made of the extensions of a file has no file itself, and they keep theirs.
    checked = [
        replace(
            spec,
            config_file=config.origin or spec.config_file,
            audit_file=config.audit_path or spec.audit_file,
        )
        for spec in refuse_untrusted(config, report, specs)
    ]
    lock_state = read_lock_state(config)
    checked, lock_diagnostics = lock_specs(config, checked, lock_state)
    diagnostics += lock_diagnostics
    return ConfiguredExtensions(
        config=config,
        specs=_with_neighbours(checked),
        diagnostics=tuple(diagnostics),
        rejected=tuple(rejected),
        report=report,
        has_lock=lock_state.is_present,
    )


def _with_neighbours(specs: list[Spec]) -> tuple[Spec, ...]:
    """Return these extensions. If one of them may write files, each gets all of them as
    `Spec.neighbours`: the one that writes must not be able to change the code of another."""
    if not any(
        spec.permissions is not None
        and any(path.endswith(":rw") for path in spec.permissions.filesystem)
        for spec in specs
    ):
        return tuple(specs)
    neighbours = tuple(spec for spec in specs if spec.enabled)
    return tuple(replace(spec, neighbours=neighbours) for spec in specs)


def _rejected_entry(spec: Spec, diagnostic: Diagnostic) -> RejectedManifest:
    """Return the rejected manifest of a config entry, with what can be read of its hooks, because
    calls that these hooks would judge are refused."""
    assert spec.manifest_path is not None
    path = str(Path(spec.manifest_path).absolute())
    folder = str(Path(path).parent)
    from exthost.dialects import find

    format = find.find_manifest_format(spec.dialect)
    hooks = None
    if format is not None:
        from exthost.config.discovery.search import read_rejected_hooks
        from exthost.config.discovery.untrusted_files import read_file
        from exthost.dialects.manifest_format import ManifestFile

        try:
            data = read_file(os.path.realpath(path)) or b""
        except ManifestError:
            data = b""
        hooks = read_rejected_hooks(format, ManifestFile(path=path, folder=folder, data=data))
    if hooks is not None:
        hooks = replace(
            spec,
            manifest_path=None,
            manifest_file=path,
            manifest=hooks.manifest,
            declared_hooks=hooks.declared_hooks,
            advisory_hooks=hooks.advisory_hooks,
            has_unknown_hooks=hooks.has_unknown_hooks,
        )
    return RejectedManifest(
        diagnostic=diagnostic,
        path=path,
        folder=folder,
        home=folder,
        root_index=-1,
        dialect=spec.dialect,
        hooks=hooks,
    )


def read_named_manifest(spec: Spec) -> Spec:
    """Read the manifest that a config entry names, and return the extension with the settings of
    both, and with those of environment variables (`with_environ`). Raises ManifestError."""
    if spec.manifest_path is None:
        return with_environ(spec)
    path = str(Path(spec.manifest_path).absolute())
    from exthost.dialects import find

    format = find.find_manifest_format(spec.dialect)
    try:
        if format is None or format.join is None:
            raise ManifestError(
                "X0248", f"a {spec.dialect} extension has no manifest that could be named"
            )
        from exthost.config.discovery.untrusted_files import read_file
        from exthost.dialects.manifest_format import ManifestFile

        data = read_file(os.path.realpath(path))
        if data is None:
            raise ManifestError(
                "X0201",
                f"its manifest {path} is not there",
                help="a relative path is relative to the folder of the config",
                evidence=Evidence(path=path),
            )
        manifest = ManifestFile(path=path, folder=str(Path(path).parent), data=data)
        try:
            joined = format.join(spec, manifest)
        except ExthostError:
            raise
        except (Exception, SystemExit) as error:
            from exthost.config.discovery.search import failed_reader_error

            raise failed_reader_error(format, path, error) from error
        return with_environ(replace(joined, manifest_path=None, manifest_file=path))
    except ManifestError as error:
        error.extension = spec.id
        raise


def with_environ(spec: Spec) -> Spec:
    """Return the extension with settings from the environment variables of its dialect, such as
    NEXO_PLUGIN_TOOL_TIMEOUT_MS. A setting in the config takes precedence."""
    from exthost.dialects import find

    variables = find.find_package(spec.dialect).host_variables
    if not any(name in os.environ for name in variables):  # the dialect is not imported for this
        return spec
    dialect = find.find_dialect_of(spec)
    return dialect.with_environ(spec, os.environ)


def spec_from_manifest(path: Path) -> Spec:
    """Read the manifest at this path and return its extension. The name of the file does not
    matter: the first format that accepts the content is used. Raises ManifestError."""
    real = path.resolve()
    from exthost.config.discovery.untrusted_files import read_file
    from exthost.dialects import find
    from exthost.dialects.manifest_format import ManifestFile, Rejected

    data = read_file(str(real))
    # A missing file is read as an empty one, which every format rejects.
    manifest = ManifestFile(path=str(real), folder=str(real.parent), data=data or b"")
    errors = []
    for format in find.load_manifest_formats():
        if format.join is None:  # manifests of this format can only be recognised by their name
            continue
        try:
            verdict = format.read(manifest)
        except ManifestError as error:
            errors.append(error)
            continue
        if isinstance(verdict, Rejected):
            errors += verdict.errors
        elif verdict is not None:
            spec = verdict.spec
            cwd = spec.cwd or manifest.folder
            return replace(
                spec,
                origin=spec.origin or str(real),
                cwd=cwd,
                manifest_file=str(real),
                package=Package(root=manifest.folder, argv=spec.argv, env=spec.env, cwd=cwd),
            )
    raise errors[0]


def _shadowed_diagnostic(spec: Spec, winner: Spec) -> Diagnostic:
    """Return the warning for a discovered extension whose id another one has already."""
    message = f"{spec.id} is also in {winner.origin or 'the config'}, which takes precedence"
    return Diagnostic(
        level="warning", path=spec.origin, message=message, code="X0208", extension=spec.id
    )


def _note_diagnostic(note: str, origin: str) -> Diagnostic:
    return Diagnostic(level="warning", path=origin, message=note, code="X0161")


def _missing_guard_diagnostic(id: str, origin: str) -> Diagnostic:
    return Diagnostic(
        level="error",
        path=origin,
        message=f"[hooks] requires the guard {id}, which was not found, or is disabled",
        code="X0353",
        help="install or enable it, or take it out of [hooks] required: no tool is called without",
        extension=id,
    )


def _unused_override_diagnostic(id: str, origin: str) -> Diagnostic:
    message = f"[overrides.{id}] is for an extension that was not found"
    return Diagnostic(level="warning", path=origin, message=message, code="X0109", extension=id)
