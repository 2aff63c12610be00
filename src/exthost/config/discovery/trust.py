"""Decides which discovered extensions a config must not let start.

A package is an extension that was found in a search path, with the files beside its manifest. It
must not escape the restrictions that the operator wrote in the config, whatever id it has and
wherever it lies. This module prevents three such attempts, and needs no record of an earlier state
for that:

- A sandboxed extension puts a package into a folder that it may write. Each discovered extension
  gets the folders that the config lets extensions write (`WriteGrant`), and is refused before its
  start if its code is in one of them. It does not matter whether the writer is still there.
- A package changes its id, so that the permissions or pins of its `[overrides.ID]` no longer apply
  to it. While such an override has no extension, an extension that nothing in the config names is
  refused, unless it has a sandbox.
- A second package in the same search path, a rival, takes the id of another, and with it the
  variables and permissions of its override, or replaces its hooks. If the id has an override, or if
  the package that is not used has a hook that the other one lacks, the extension is refused.

A refused extension keeps its declared hooks, so that calls which its hooks would judge are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from exthost.model.spec import Refusal, WriteGrant

if TYPE_CHECKING:
    from exthost.config import Config
    from exthost.config.discovery.report import Candidate, SearchReport
    from exthost.model.spec import Permissions, Spec


def refuse_untrusted(config: Config, report: SearchReport, specs: Mapping[str, Spec]) -> list[Spec]:
    """Return these extensions, each discovered one with the grants of the config, and with a
    refusal if it must not be started."""
    grants = tuple(_find_write_grants(config, specs))
    missing_ids = _find_missing_ids(config, report, specs)
    return [
        spec if spec.package is None else _check_package(config, report, spec, grants, missing_ids)
        for spec in specs.values()
    ]


def _check_package(
    config: Config,
    report: SearchReport,
    spec: Spec,
    grants: tuple[WriteGrant, ...],
    missing_ids: list[str],
) -> Spec:
    """Return a discovered extension with these grants, and with a refusal if it must not be
    started."""
    spec = replace(spec, write_grants=grants)
    rivals = report.rivals.get(spec.id, ())
    if rivals:
        all_hooks = [*spec.declared_hooks]
        for rival in rivals:
            all_hooks += rival.spec.declared_hooks
        hooks = tuple(dict.fromkeys(all_hooks))
        if spec.id in config.overrides or hooks != spec.declared_hooks:
            refusal = _rival_refusal(spec, rivals[0])
            return replace(spec, refusal=refusal, declared_hooks=hooks)
    if missing_ids and not _is_sandboxed(spec) and not is_named(config, spec):
        return replace(spec, refusal=_unnamed_refusal(missing_ids[0]))
    return spec


def _find_write_grants(config: Config, specs: Mapping[str, Spec]) -> Iterator[WriteGrant]:
    """Yield what the entries and overrides of the config grant with `:rw`. Grants in `[defaults]`
    are left out: they are for every discovered extension, and then each of them has a sandbox."""
    for spec in config.specs:
        if spec.sandbox != "off":
            yield from _read_grants(spec.id, spec.permissions, spec.cwd)
    for id, settings in config.overrides.items():
        if (settings.sandbox or config.defaults.sandbox) != "off":
            cwd = specs[id].cwd if id in specs else settings.cwd
            yield from _read_grants(id, settings.permissions, cwd or config.folder)


def _read_grants(id: str, permissions: Permissions | None, cwd: str | None) -> Iterator[WriteGrant]:
    for entry in permissions.filesystem if permissions is not None else ():
        if entry.endswith(":rw"):
            folder = os.path.expanduser(entry[:-3])  # noqa: PTH111
            yield WriteGrant(id, os.path.join(cwd or "", folder))  # noqa: PTH118


def _find_missing_ids(config: Config, report: SearchReport, specs: Iterable[str]) -> list[str]:
    """Return the ids that have an override with restrictions, and no extension. An extension that
    is disabled, or whose manifest has errors, is not missing."""
    present_ids = {
        *specs,
        *(spec.id for candidate in report.disabled_candidates for spec in candidate.all_specs),
        *(diagnostic.extension for diagnostic in report.diagnostics if diagnostic.level == "error"),
    }
    return [
        id
        for id, settings in config.overrides.items()
        if id not in present_ids
        and (settings.permissions is not None or settings.sha256 is not None)
    ]


def _is_sandboxed(spec: Spec) -> bool:
    """Return whether this extension runs in a sandbox."""
    return spec.permissions is not None and spec.sandbox != "off"


def is_named(config: Config, spec: Spec) -> bool:
    """Return whether an override or the allowlist of the config names this extension or the main
    extension of its package."""
    allowlist = config.discovery.allowlist if config.discovery is not None else ()
    ids = {spec.id, spec.package.owner if spec.package is not None else ""}
    return not ids.isdisjoint(config.overrides) or not ids.isdisjoint(allowlist)


def _rival_refusal(spec: Spec, rival: Candidate) -> Refusal:
    return Refusal(
        "X0399",
        f"two packages in one search path have its id, {spec.manifest_file} and {rival.path}, and "
        "one may be meant to replace the other",
        "remove one of the two, or give it another id",
    )


def _unnamed_refusal(missing_id: str) -> Refusal:
    return Refusal(
        "X0394",
        f"[overrides.{missing_id}] restricts an extension that was not found; this one, which the "
        "config does not name, may be the same package with another id",
        f"remove [overrides.{missing_id}] if that extension is gone, or name this one: in the "
        "allowlist, or by an override",
    )
