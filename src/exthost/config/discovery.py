"""`[discovery]`: where to search for extensions, and which of them to use.

The keys and their defaults are those of nexo (nexo-disc-11). Only the settings are here;
`exthost.discovery` does the search. Relative search paths are relative to the folder of the config
file. `$PATH` stands for every folder on PATH, where only programs that are their own manifests are
looked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exthost.documents.keys import FLAG, TEXT_LIST, Key, integer_at_least, table_type
from exthost.documents.problems import Place
from exthost.documents.readers import read_table
from exthost.documents.settings import resolve_path

ON_PATH = "$PATH"

# Editors write a file in several steps; after a shorter pause the steps would be seen.
MIN_DEBOUNCE_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """Whether manifests are watched, and whether changed extensions are reloaded."""

    enabled: bool = False
    debounce_ms: int = 500
    reload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    """The settings of a search. An empty allowlist allows all. A search path itself is depth 0. If
    `prefers_working_folder` is true, a relative search path is relative to the working folder if it
    exists there, and otherwise to the folder of the config."""

    enabled: bool = True
    search_paths: tuple[str, ...] = ("./extensions",)
    ignore_dirs: tuple[str, ...] = ("node_modules", ".git", "target")
    disabled: tuple[str, ...] = ()
    allowlist: tuple[str, ...] = ()
    max_depth: int = 4
    follow_links: bool = False
    watch: WatchSettings = WatchSettings()
    prefers_working_folder: bool = False


WATCH_KEYS: Mapping[str, Key] = {
    "enabled": Key(FLAG, "Whether manifests are watched while a host runs.", "true", "false"),
    "debounce_ms": Key(
        integer_at_least(MIN_DEBOUNCE_MS),
        "How long a file must be unchanged, in milliseconds.",
        "200",
        "500",
    ),
    "reload": Key(
        FLAG, "Whether an extension whose manifest changed is reloaded.", "true", "false"
    ),
}


def _watch(value: Any, place: Place) -> WatchSettings:
    return WatchSettings(**_set_values(read_table(value, place, WATCH_KEYS)))


DISCOVERY_KEYS: Mapping[str, Key] = {
    "enabled": Key(FLAG, "Whether there is a search at all.", "false", "true"),
    "search_paths": Key(
        TEXT_LIST,
        "Folders to search; $PATH is every folder on PATH, $SYNAPS that dialect's own.",
        '["./extensions", "$PATH"]',
        '["./extensions"]',
    ),
    "ignore_dirs": Key(
        TEXT_LIST,
        "Names of folders that are not searched.",
        '["node_modules"]',
        '["node_modules", ".git", "target"]',
    ),
    "disabled": Key(TEXT_LIST, "Ids that are found and not used.", '["weather"]', "[]"),
    "allowlist": Key(TEXT_LIST, "The only ids that are used; empty for all.", '["weather"]', "[]"),
    "max_depth": Key(integer_at_least(0), "How many levels of folders are searched.", "2", "4"),
    "follow_links": Key(FLAG, "Whether symbolic links are followed.", "true", "false"),
    "watch": Key(
        table_type(WATCH_KEYS, _watch),
        "Whether changes of manifests are noticed.",
        "{ enabled = true, reload = true }",
    ),
}


def discovery(value: Any, place: Place, folder: str | None) -> DiscoverySettings:
    """Read the section. A key that is not set has its default."""
    values = _set_values(read_table(value, place, DISCOVERY_KEYS))
    roots = values.get("search_paths", DiscoverySettings().search_paths)
    # $PATH, $SYNAPS and ~ are resolved when the search begins; they are not relative to the folder.
    values["search_paths"] = tuple(
        root if root.startswith(("$", "~")) else resolve_path(folder, root) for root in roots
    )
    return DiscoverySettings(**values)


def _set_values(read: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in read.items() if item is not None}
