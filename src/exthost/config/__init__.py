"""Every form of config → values: `Spec`, `Settings`, `DiscoverySettings`, `Config`.

Pure: text or mappings in, frozen values out. The caller reads the file and passes its folder.
Nothing here opens a file or starts a process. This package raises only ConfigError, which reports
the first mistake in the file and lists every other one in its evidence.

In reading order:

    document            a whole config: its sections, and how they are combined
    entry               one `[[extensions]]` entry
    options             check `options` against the declarations of the dialect
    section_keys        the sections, with their keys as data
    json_schema         the JSON Schema of a config, made from those keys
    yaml_config         `extensions.yaml`, which is `[discovery]` in another notation
    discovery           `[discovery]`
    extension_settings  the settings that `connect` takes as keyword arguments
    toggle              enable or disable an extension in the text of a config

Sections that belong to one dialect are in its package. Single values, shared settings and mistakes
are in `exthost.documents`.
"""

from exthost.config.discovery import DiscoverySettings, WatchSettings
from exthost.config.document import (
    DEFAULT_CONFIG,
    Config,
    config_from_json,
    config_from_mapping,
    config_from_toml,
    spec_from_mapping,
)
from exthost.config.entry import DIALECTS
from exthost.config.yaml_config import config_from_yaml
from exthost.documents.settings import NO_SETTINGS, Settings
from exthost.documents.units import UnitError, parse_seconds, parse_size

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
    "DEFAULT_CONFIG",
    "DIALECTS",
    "UnitError",
    "parse_seconds",
    "parse_size",
]
