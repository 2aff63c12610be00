"""Every form of config → values: `Spec`, `Settings`, `DiscoverySettings`, `Config`.

Pure: text or mappings in, frozen values out. The caller reads the file and says in which folder it
lies. Nothing here opens, looks up or spawns anything. The only error that leaves this package is
ConfigError, which carries the first mistake in the file and, in its evidence, every other one.

In reading order:

    document     the sections of a config, and what they come to together
    entry        one `[[extensions]]` entry
    options      `options`, as each dialect says what they are
    yaml_config  `extensions.yaml`, which is `[discovery]` in another notation
    discovery    `[discovery]`
    extension_settings  the settings of an extension, as typed dictionaries
    toggle       enabling and disabling an extension in the text of a config

Sections that belong to one dialect are in its package. Single values, shared settings and mistakes
are in `exthost.documents`.
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
from exthost.config.yaml_config import config_from_yaml
from exthost.documents.settings import NO_SETTINGS, Settings
from exthost.documents.units import UnitError, seconds, size

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
