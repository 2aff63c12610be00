"""Every form of config → values: `Spec`, `Settings`, `DiscoverySettings`, `Config`.

Pure: text or mappings in, frozen values out. The caller reads the file and says in which folder
it lies; nothing here opens, looks up or spawns anything, so a program that does not exist is no
business of this room. The only error that leaves it is ConfigError, which carries the first
mistake in the file and, in its evidence, every other one.

    document        the sections of a config, and what they mean together (start reading here)
    entry           one `[[extensions]]` entry
    processes       one `[[process_extensions]]` entry
    servers         `[mcp_servers.NAME]`, and the same in other programs' JSON
    yaml_config     `extensions.yaml`, which is `[discovery]` in another notation
    settings        the keys that entries, `[overrides.<id>]` and `[defaults]` share, and who wins
    discovery       `[discovery]`
    readers         checked reading of single values; unknown keys
    problems        mistakes, and where they are
    toml_positions  the line of each key of a TOML text
    toggle          enabling and disabling an extension in the text of a config
    units           durations and sizes
"""

from exthost.config.discovery import DiscoverySettings, WatchSettings
from exthost.config.document import (
    Config,
    config_from_json,
    config_from_mapping,
    config_from_toml,
    spec_from_mapping,
)
from exthost.config.entry import DIALECTS
from exthost.config.settings import NO_SETTINGS, Settings
from exthost.config.units import UnitError, seconds, size
from exthost.config.yaml_config import config_from_yaml

__all__ = [
    "Config",
    "config_from_json",
    "config_from_mapping",
    "config_from_toml",
    "config_from_yaml",
    "spec_from_mapping",
    "Settings",
    "NO_SETTINGS",
    "DiscoverySettings",
    "WatchSettings",
    "DIALECTS",
    "UnitError",
    "seconds",
    "size",
]
