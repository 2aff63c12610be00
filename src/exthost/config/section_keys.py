"""The sections of a config that belong to no dialect (the protocol that an extension speaks), and
their keys, as data for documentation.

`config.document` reads these sections. The JSON Schema (`json_schema`) and the reference page of
the config are made from this table.
"""

from collections.abc import Mapping

from exthost.config.cluster import CLUSTER_KEYS
from exthost.config.discovery_section import DISCOVERY_KEYS
from exthost.config.entry import ENTRY_KEYS
from exthost.config.gateway import GATEWAY_KEYS
from exthost.config.rules import RULE_KEYS
from exthost.config.trust_section import TRUST_KEYS
from exthost.model.documents.keys import TEXT, Key, make_section
from exthost.model.documents.setting_keys import HOST_HOOKS, SETTING_KEYS

AUDIT_KEYS: Mapping[str, Key] = {
    "path": Key(
        TEXT,
        "The file to which a line of JSON is appended for each call.",
        '"audit.jsonl"',
        "(no audit)",
    ),
}

SECTION_KEYS: Mapping[str, Key] = {
    "extensions": make_section("The extensions.", {**ENTRY_KEYS, **SETTING_KEYS}, "list"),
    "defaults": make_section("Settings for all extensions.", SETTING_KEYS),
    "overrides": make_section(
        "Settings by id, for discovered extensions above all; they take precedence over defaults.",
        {"config": ENTRY_KEYS["config"], **SETTING_KEYS},
        "names",
    ),
    "discovery": make_section("Where extensions are searched for.", DISCOVERY_KEYS),
    "cluster": make_section("Processes on other machines (`pool.engine`).", CLUSTER_KEYS),
    "gateway": make_section("How the gateway serves its clients.", GATEWAY_KEYS),
    "trust": make_section("Which extensions are started.", TRUST_KEYS),
    "audit": make_section("A record of every call.", AUDIT_KEYS),
    "hooks": Key(
        HOST_HOOKS,
        "The required guards; and the effect of a failed hook, for extensions that do not set it.",
    ),
    "rules": make_section(
        "Which tool calls are made: the first rule that fits decides, without one the call is "
        "made.",
        RULE_KEYS,
        "list",
    ),
}
