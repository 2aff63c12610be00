"""Reads `[discovery]`: where to search for extensions, and which of them to use.

The keys and their defaults are those of nexo (the requirement nexo-disc-11). `config.discovery`
does the search. Relative search paths are relative to the folder of the config file. The search
path `$PATH` stands for every folder on PATH. These folders are searched only for programs that need
no manifest file, which some dialects (protocols of extensions) have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exthost.model.documents.keys import FLAG, TEXT_LIST, Key, integer_at_least, table_type
from exthost.model.documents.problems import Place
from exthost.model.documents.readers import read_table
from exthost.model.documents.settings import resolve_path

# The search path that stands for every folder on PATH.
ENV_PATH = "$PATH"

# An editor may write a file in several steps. A shorter delay would report each step as a change.
MIN_DEBOUNCE_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """The settings of the manifest watch.

    enabled      whether manifests are watched while a host runs
    debounce_ms  for how many milliseconds there must be no further change before a change is
                 reported
    reload       whether an extension is reloaded when its manifest has changed
    """

    enabled: bool = False
    debounce_ms: int = 500
    reload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    """The settings of a search for extensions.

    enabled                 whether there is a search at all
    search_paths            the folders to search
    ignore_dirs             names of folders that are not searched
    disabled                ids of extensions that are found and not used
    allowlist               the only ids that are used; empty for all ids
    max_depth               how deep files are searched for; a file directly in a search path has
                            depth 1
    follow_links            whether symlinks are followed; they must not lead out of the search path
    watch                   whether changes of manifests are detected
    prefers_working_folder  whether a relative search path is relative to the working folder if it
                            exists there, and to the folder of the config only otherwise
    """

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


def _read_watch(value: Any, place: Place) -> WatchSettings:
    return WatchSettings(**_without_none(read_table(value, place, WATCH_KEYS)))


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
        table_type(WATCH_KEYS, _read_watch),
        "Whether changes of manifests are noticed.",
        "{ enabled = true, reload = true }",
    ),
}


def read_discovery(value: Any, place: Place, folder: str | None) -> DiscoverySettings:
    """Read the section. `folder` is the folder of the config file; with None, relative paths stay
    relative."""
    values = _without_none(read_table(value, place, DISCOVERY_KEYS))
    paths = values.get("search_paths", DiscoverySettings().search_paths)
    # The search itself resolves $PATH, $SYNAPS and ~.
    values["search_paths"] = tuple(
        path if path.startswith(("$", "~")) else resolve_path(folder, path) for path in paths
    )
    return DiscoverySettings(**values)


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not None. None means that a value is wrong; its problem is already
    reported, and the default takes its place until the whole config is refused."""
    return {key: value for key, value in values.items() if value is not None}
