"""`[discovery]`: where extensions are looked for, and which of those found are wanted.

Settings only: the walk itself is in `exthost.discovery`.
Relative search paths count from the folder of the config file; `$PATH` stands for every folder on
PATH, where only programs that are their own manifests are looked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exthost.documents.problems import Place
from exthost.documents.readers import Reader, count, flag, table, texts
from exthost.documents.settings import within

ON_PATH = "$PATH"

# Editors write a file in several steps; a shorter pause would see the steps.
MIN_DEBOUNCE_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """Whether changes on disk are noticed, and whether they are acted on."""

    enabled: bool = False
    debounce_ms: int = 500
    reload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    """An empty allowlist allows all. The root itself is depth 0. `prefers_working_folder`: a
    relative search path counts from the working folder if it is there, and else from the folder
    of the config."""

    enabled: bool = True
    search_paths: tuple[str, ...] = ("./extensions",)
    ignore_dirs: tuple[str, ...] = ("node_modules", ".git", "target")
    disabled: tuple[str, ...] = ()
    allowlist: tuple[str, ...] = ()
    max_depth: int = 4
    follow_links: bool = False
    watch: WatchSettings = WatchSettings()
    prefers_working_folder: bool = False


_WATCH: Mapping[str, Reader] = {
    "enabled": flag,
    "debounce_ms": count(MIN_DEBOUNCE_MS),
    "reload": flag,
}


def _watch(value: Any, place: Place) -> WatchSettings:
    return WatchSettings(**_said(table(value, place, _WATCH)))


_DISCOVERY: Mapping[str, Reader] = {
    "enabled": flag,
    "search_paths": texts,
    "ignore_dirs": texts,
    "disabled": texts,
    "allowlist": texts,
    "max_depth": count(0),
    "follow_links": flag,
    "watch": _watch,
}


def discovery(value: Any, place: Place, folder: str | None) -> DiscoverySettings:
    """The section; what it does not say is as on the page."""
    said = _said(table(value, place, _DISCOVERY))
    roots = said.get("search_paths", DiscoverySettings().search_paths)
    # $PATH, $SYNAPS and a home folder are found where the walk begins; none lies in this folder.
    said["search_paths"] = tuple(
        root if root.startswith(("$", "~")) else within(folder, root) for root in roots
    )
    return DiscoverySettings(**said)


def _said(read: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in read.items() if item is not None}
