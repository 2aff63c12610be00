"""Config files: from a path on disk to what it says, discovery included.

Everything above asks here, so that `exthost list` and a running host cannot disagree about what
a config means. Blocking; starts nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exthost.config import Config, config_from_mapping, config_from_toml
from exthost.discovery.report import Diagnostic, Report
from exthost.discovery.search import discover
from exthost.errors import ConfigError, Evidence
from exthost.manifests import cigen
from exthost.manifests.format import Format
from exthost.model import Spec

DEFAULT_CONFIG = "exthost.toml"

# The manifest formats there are; each comes with its dialect.
FORMATS: tuple[Format, ...] = (cigen.FORMAT,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Every extension that a config wants, its own entries first; what was wrong with others."""

    config: Config
    specs: tuple[Spec, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def read_config(source: str | Path | Mapping[str, Any]) -> Config:
    """The config in this file, or the same as a dict. Raises ConfigError."""
    if isinstance(source, Mapping):
        return config_from_mapping(source)
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            "X0101",
            f"the config {path} cannot be read: {error.strerror}",
            help="name it with --config, or write exthost.toml; see the README for a first one",
            evidence=Evidence(path=str(path)),
        ) from None
    absolute = path.absolute()
    return config_from_toml(data, str(absolute), str(absolute.parent))


def wanted(config: Config) -> Wanted:
    """The extensions of a config and of its discovery; an entry goes before one found."""
    report = Report()
    if config.discovery is not None:
        report = discover(config.discovery, FORMATS, base=config.folder or ".")
    specs = {spec.id: spec for spec in config.specs}
    diagnostics = list(report.diagnostics)
    for candidate in report.candidates:
        for spec in (candidate.spec, *candidate.also):
            if spec.id in specs:
                diagnostics.append(_shadowed(spec, specs[spec.id]))
            else:
                specs[spec.id] = config.apply_overrides(spec)
    unused = sorted(config.overrides.keys() - specs.keys())
    diagnostics += [_unused_override(id, config.origin) for id in unused]
    return Wanted(config=config, specs=tuple(specs.values()), diagnostics=tuple(diagnostics))


def _shadowed(spec: Spec, by: Spec) -> Diagnostic:
    message = f"{spec.id} is also named in {by.origin or 'the config'}, which goes before it"
    return Diagnostic(
        level="warning", path=spec.origin, message=message, code="X0208", extension=spec.id
    )


def _unused_override(id: str, origin: str) -> Diagnostic:
    message = f"[overrides.{id}] is for an extension that was not found"
    return Diagnostic(level="warning", path=origin, message=message, code="X0109", extension=id)
