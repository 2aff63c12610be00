"""The sections of a config that belong to no dialect: the upper level of the table of keys."""

from collections.abc import Mapping

from exthost.config.cluster import CLUSTER_KEYS
from exthost.config.discovery import DISCOVERY_KEYS
from exthost.config.entry import ENTRY_KEYS
from exthost.documents.keys import TEXT, Key, section
from exthost.documents.setting_keys import HOOKS, SETTING_KEYS

AUDIT_KEYS: Mapping[str, Key] = {
    "path": Key(
        TEXT,
        "The file to which a line of JSON is appended for each call.",
        '"audit.jsonl"',
        "(no audit)",
    ),
}

SECTION_KEYS: Mapping[str, Key] = {
    "extensions": section("The extensions.", {**ENTRY_KEYS, **SETTING_KEYS}, "list"),
    "defaults": section("Settings for all extensions.", SETTING_KEYS),
    "overrides": section(
        "Settings by id, for discovered extensions above all; they take precedence over defaults.",
        SETTING_KEYS,
        "names",
    ),
    "discovery": section("Where extensions are searched for.", DISCOVERY_KEYS),
    "cluster": section("Processes on other machines (`pool.engine`).", CLUSTER_KEYS),
    "audit": section("A record of every call.", AUDIT_KEYS),
    "hooks": Key(HOOKS, "What happens when a hook fails, for extensions that do not set it."),
}
