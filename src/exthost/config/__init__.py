"""Parses configs (TOML, JSON, YAML or mappings) into frozen dataclasses.

`Config` is a whole config. It has a `Spec` (the values of one extension) for each entry,
`SettingValues` (limits, restart policy and so on) from `[defaults]` and `[overrides]`, and the
`DiscoverySettings` of `[discovery]`.

No module here starts a process, and only `discovery/` opens files: the others take the text of a
file and its folder, against which relative paths are resolved. A wrong config raises ConfigError:
its message is about the first problem in the file, and its `evidence.details` lists the others.

In reading order:

    host_config         `Config`: the values of a whole config
    document            reads a whole config: its sections, and how they are combined
    entry               reads one `[[extensions]]` entry
    options             checks `options` and `limits` against the declarations of the dialect (the
                        protocol that an extension speaks)
    discovery_section   reads `[discovery]`: where extensions are searched for
    cluster             reads `[cluster]`: how processes on other machines are reached
    gateway             reads `[gateway]`: how the gateway serves its clients
    rules               reads `[[rules]]`: which tool calls are made
    trust_section       reads `[trust]`: which extensions are started without asking the user
    lock_file           the text of `exthost.lock`, which records what was approved
    yaml_config         reads `extensions.yaml`, the config file of nexo's own host
    placeholders        replaces `${NAME}` in the configs of other programs
    section_keys        the keys of each section, as data
    env_file            the key `envFile` of editors
    jsonc_edit          sets or removes a member in a JSON text with comments
    json_schema         makes the JSON Schema of a config from those keys
    extension_settings  the keys of an entry as TypedDicts, written by `make reference`
    entry_edit          adds or removes an entry in the text of a config
    enabled_edit        enables or disables an extension in the text of a config
    permissions_edit    sets the permissions of an extension in the text of a config
    discovery/          finds config files and manifests on disk

A section that only one dialect has is read by that dialect's package. The readers of single values,
and the keys that every extension may have (`SettingValues`), are in `exthost.model.documents`.
"""

from exthost.config.host_config import Config
from exthost.model.documents.settings import NO_SETTINGS, SettingValues
from exthost.model.documents.units import UnitError, parse_seconds, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from exthost.config.discovery_section import DiscoverySettings, WatchSettings
    from exthost.config.document import (
        DEFAULT_CONFIG,
        config_from_json,
        config_from_mapping,
        config_from_toml,
        spec_from_mapping,
    )
    from exthost.config.entry import DIALECTS
    from exthost.config.yaml_config import config_from_yaml

# The modules of the other names, which are imported at their first use: a host without a config
# file reads none.
_MODULES_BY_NAME = {
    "config_from_json": "document",
    "config_from_mapping": "document",
    "config_from_toml": "document",
    "config_from_yaml": "yaml_config",
    "spec_from_mapping": "document",
    "DEFAULT_CONFIG": "document",
    "DIALECTS": "entry",
    "DiscoverySettings": "discovery_section",
    "WatchSettings": "discovery_section",
}

__all__ = [
    "Config",
    "config_from_json",
    "config_from_mapping",
    "config_from_toml",
    "config_from_yaml",
    "spec_from_mapping",
    "SettingValues",
    "NO_SETTINGS",
    "DiscoverySettings",
    "WatchSettings",
    "DEFAULT_CONFIG",
    "DIALECTS",
    "UnitError",
    "parse_seconds",
    "parse_size",
]


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name not in _MODULES_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES_BY_NAME[name]}"), name)
    globals()[name] = value
    return value
