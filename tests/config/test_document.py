"""A config (exthost.toml) becomes values: every key, the defaults, and the order of precedence.

An entry of `[[extensions]]` becomes a `Spec`, the settings of one extension. A setting may also be
in `[defaults]`, for all extensions, and in `[overrides.ID]`, for one that discovery finds.
"""

from types import MappingProxyType
from typing import Any

import pytest

from exthost.config import (
    DIALECTS,
    Config,
    DiscoverySettings,
    WatchSettings,
    config_from_mapping,
    config_from_toml,
    spec_from_mapping,
)
from exthost.model.spec import Breaker, Limits, Permissions, Pool, Restart, Spec
from tests.dialects.requirements import shows

SOURCE = {"type": "process", "command": "python3", "args": ["x.py"]}

FULL = """
[[extensions]]
name = "validator"
enabled = true
protocol = "stdio"
config = { strict = true, depth = 3 }

[extensions.source]
type = "process"
command = "./extensions/validator.py"
args = ["--fast", ""]
env = { LEVEL = "debug" }

[extensions.permissions]
filesystem = ["/data", "/tmp/out:rw"]
max_memory = "256MB"
max_execution_time = "5s"

[extensions.restart]
strategy = "exponential"
initial_delay = "500ms"
max_delay = "30s"
max_retries = 0

[[extensions]]
name = "weather"
enabled = false
dialect = "nexo"
source = { command = "weather" }
"""


def read_toml(text: str) -> Config:
    """Return the config of a file in the folder /etc/x."""
    return config_from_toml(text, "exthost.toml", "/etc/x")


def read_entry(**keys: Any) -> Spec:
    """Return the spec of an entry with these further keys."""
    return spec_from_mapping({"name": "a", "source": SOURCE, **keys})


@shows("morphir-config-01")
def test_the_documented_entry_of_morphir_becomes_a_spec() -> None:
    spec = read_toml(FULL).specs[0]
    assert spec == Spec(
        id="validator",
        argv=("./extensions/validator.py", "--fast", ""),
        dialect="morphir",
        origin="exthost.toml",
        cwd="/etc/x",
        env={"LEVEL": "debug"},
        config={"strict": True, "depth": 3},
        restart=Restart(strategy="exponential", initial_delay=0.5, max_delay=30.0, max_retries=0),
        permissions=Permissions(
            network=False,
            filesystem=("/data", "/tmp/out:rw"),
            max_memory=256_000_000,
            max_execution_time=5.0,
        ),
    )


def test_a_disabled_entry_is_kept_and_marked() -> None:
    weather = read_toml(FULL).specs[1]
    assert (weather.id, weather.enabled, weather.dialect) == ("weather", False, "nexo")


def test_unset_keys_are_left_to_the_dialect() -> None:
    spec = spec_from_mapping({"name": "a", "source": {"command": "x"}})
    assert spec == Spec(id="a", argv=("x",))
    assert (spec.config, spec.permissions, spec.cwd) == ({}, None, None)


def test_every_setting_is_read_into_the_spec() -> None:
    spec = read_entry(
        limits={
            **dict.fromkeys(("start", "handshake", "call", "idle", "write", "stop", "cpu"), "2m"),
            "max_message": "1MiB",
            "max_in_flight": 8,
            "nofile": 64,
            "fsize": "1GB",
            "nproc": 5,
            "store": "2MiB",
        },
        restart={"strategy": "on_demand", "window": "5m"},
        breaker={
            "failures": 5,
            "open": "10s",
            "max_open": "2m",
            "successes": 2,
            "count_error_replies": True,
        },
        pool={"min": 0, "max": 4},
        sandbox="best-effort",
        env={"A": "1"},
        env_policy="minimal",
        cwd="/srv",
        sha256="AB" * 32,
        retry="once",
        start="lazy",
        lifetime="plain",
        options={"host_version": "1.2"},
    )
    assert spec.limits == Limits(
        **dict.fromkeys(("start", "handshake", "call", "idle", "write", "stop", "cpu"), 120.0),  # type: ignore[arg-type]
        max_message=2**20,
        max_in_flight=8,
        nofile=64,
        fsize=10**9,
        nproc=5,
        store=2**21,
    )
    assert spec.restart == Restart(strategy="on-demand", window=300.0)
    assert spec.breaker == Breaker(
        failures=5, open=10.0, max_open=120.0, successes=2, count_error_replies=True
    )
    assert spec.pool == Pool(min=0, max=4)
    assert (spec.sandbox, spec.env_policy, spec.retry, spec.start, spec.lifetime) == (
        *("best-effort", "minimal", "once", "lazy", "plain"),
    )
    assert (spec.cwd, spec.sha256) == ("/srv", "ab" * 32)
    assert (spec.env, spec.options) == ({"A": "1"}, {"host_version": "1.2"})


def test_an_empty_permissions_table_is_a_policy_that_grants_nothing() -> None:
    assert read_entry(permissions={}).permissions == Permissions(network=False, filesystem=())


def test_variables_of_the_source_override_those_of_the_entry() -> None:
    source = {"command": "x", "env": {"A": "source", "B": "source"}}
    spec = read_entry(source=source, env={"A": "entry", "C": "entry"})
    assert spec.env == {"A": "source", "B": "source", "C": "entry"}


def test_args_can_be_in_the_entry_instead_of_its_source() -> None:
    assert read_entry(source={"command": "x"}, args=["1", "2"]).argv == ("x", "1", "2")


@shows("morphir-config-05")
@pytest.mark.parametrize(
    ("cwd", "folder", "expected"),
    [
        (None, "/etc/x", "/etc/x"),
        (None, None, None),
        ("sub", "/etc/x", "/etc/x/sub"),
        ("./sub", "/etc/x", "/etc/x/sub"),
        ("../sub", "/etc/x", "/etc/x/../sub"),
        ("/abs", "/etc/x", "/abs"),
        ("sub", None, "sub"),
    ],
)
def test_a_relative_cwd_is_below_the_folder_of_the_config(
    cwd: str | None, folder: str | None, expected: str | None
) -> None:
    keys = {} if cwd is None else {"cwd": cwd}
    spec = spec_from_mapping({"name": "a", "source": SOURCE, **keys}, folder=folder)
    assert spec.cwd == expected
    assert spec.argv == ("python3", "x.py")


# Settings on two levels. Each value of the extension `a` shows where it comes from: in `env`, "d"
# is for the defaults and "o" for the override; an entry has "e", and a manifest "m".
LEVELS = {
    "defaults": {
        "limits": {"call": "1s", "start": "1s", "stop": "1s"},
        "retry": "once",
        "start": "lazy",
        "sandbox": "strict",
        "env": {"A": "d", "B": "d", "C": "d"},
        "permissions": {"network": True},
    },
    "overrides": {
        "a": {
            "limits": {"call": "2s", "start": "2s"},
            "start": "eager",
            "sandbox": "off",
            "env": {"A": "o", "B": "o"},
        },
    },
}


def test_the_entry_has_precedence_over_the_overrides_and_these_over_the_defaults() -> None:
    keys = {"limits": {"call": "3s"}, "sandbox": "best-effort", "env": {"A": "e"}}
    config = config_from_mapping(
        {**LEVELS, "extensions": [{"name": "a", "source": SOURCE, **keys}]}
    )
    (spec,) = config.specs
    assert spec.limits == Limits(call=3.0, start=2.0, stop=1.0)
    assert (spec.sandbox, spec.start, spec.retry) == ("best-effort", "eager", "once")
    assert spec.env == {"A": "e", "B": "o", "C": "d"}


def test_settings_of_the_config_override_those_of_a_manifest() -> None:
    config = config_from_mapping({**LEVELS, "overrides": {"a": {"args": ["--quiet"]}}})
    discovered = Spec(
        id="a",
        argv=("prog", "old"),
        origin="/x/plugin.toml",
        cwd="/x",
        env={"A": "m", "M": "m"},
        limits=Limits(call=99.0, write=9.0),
        retry="never",
    )
    spec = config.apply_overrides(discovered)
    assert spec.argv == ("prog", "--quiet")
    assert spec.limits == Limits(call=1.0, start=1.0, stop=1.0, write=9.0)
    assert spec.env == {"A": "d", "B": "d", "C": "d", "M": "m"}
    assert (spec.retry, spec.cwd, spec.origin) == ("once", "/x", "/x/plugin.toml")


def test_overrides_do_not_affect_other_extensions() -> None:
    config = config_from_mapping({"overrides": LEVELS["overrides"]})
    discovered = Spec(id="b", argv=("prog",))
    assert config.apply_overrides(discovered) == discovered


def test_permissions_of_an_entry_replace_those_of_the_defaults() -> None:
    config = config_from_mapping(
        {
            "defaults": {"permissions": {"network": True, "filesystem": ["/data"]}},
            "extensions": [
                {"name": "own", "source": SOURCE, "permissions": {"max_memory": "1MB"}},
                {"name": "none", "source": SOURCE},
            ],
        }
    )
    with_permissions, without_permissions = config.specs
    assert with_permissions.permissions == Permissions(max_memory=10**6)
    assert without_permissions.permissions == Permissions(network=True, filesystem=("/data",))


def test_defaults_passed_to_a_single_entry_apply_to_it() -> None:
    defaults = config_from_mapping(LEVELS).defaults
    spec = spec_from_mapping({"name": "a", "source": SOURCE, "retry": "never"}, defaults=defaults)
    assert (spec.retry, spec.start) == ("never", "lazy")


def test_the_order_of_sections_does_not_matter() -> None:
    entries = {"extensions": [{"name": "a", "source": SOURCE}]}
    assert config_from_mapping({**LEVELS, **entries}) == config_from_mapping({**entries, **LEVELS})


def test_the_defaults_of_discovery_are_the_documented_ones() -> None:
    assert read_toml("").discovery is None
    assert read_toml("[discovery]").discovery == DiscoverySettings(
        enabled=True,
        search_paths=("/etc/x/extensions",),
        ignore_dirs=("node_modules", ".git", "target"),
        disabled=(),
        allowlist=(),
        max_depth=4,
        follow_links=False,
        watch=WatchSettings(enabled=False, debounce_ms=500, reload=False),
    )


def test_every_discovery_key_is_read() -> None:
    section = {
        "enabled": False,
        "search_paths": ["one", "/two"],
        "ignore_dirs": [],
        "disabled": ["a"],
        "allowlist": ["b"],
        "max_depth": 0,
        "follow_links": True,
        "watch": {"enabled": True, "debounce_ms": 50, "reload": True},
    }
    config = config_from_mapping({"discovery": section})
    assert config.discovery == DiscoverySettings(
        enabled=False,
        search_paths=("one", "/two"),
        ignore_dirs=(),
        disabled=("a",),
        allowlist=("b",),
        max_depth=0,
        follow_links=True,
        watch=WatchSettings(enabled=True, debounce_ms=50, reload=True),
    )


def test_a_relative_audit_path_is_below_the_folder_of_the_config() -> None:
    assert read_toml('[audit]\npath = "log/audit.jsonl"').audit_path == "/etc/x/log/audit.jsonl"
    assert read_toml("").audit_path is None


def test_a_config_has_its_origin_and_folder() -> None:
    config = read_toml("")
    assert (config.origin, config.folder, config.specs) == ("exthost.toml", "/etc/x", ())


@pytest.mark.parametrize(
    "source",
    [b"\xef\xbb\xbf[audit]\r\npath = 'x'\r\n", "\ufeff[audit]\npath = 'x'", b"[audit]\npath='x'"],
)
def test_bytes_and_byte_order_marks_are_accepted(source: str | bytes) -> None:
    assert config_from_toml(source, "c.toml", None).audit_path == "x"


def test_a_disabled_entry_can_have_an_unsupported_source() -> None:
    spec = read_entry(
        enabled=False, protocol="grpc", source={"type": "http", "url": "x"}, args=["y"]
    )
    assert (spec.enabled, spec.argv) == (False, ())


def test_the_caller_can_name_further_dialects() -> None:
    spec = spec_from_mapping(
        {"name": "a", "source": SOURCE, "dialect": "own"}, dialects={*DIALECTS, "own"}
    )
    assert spec.dialect == "own"


def test_later_changes_of_the_mapping_do_not_change_the_spec() -> None:
    config: dict[str, Any] = {"list": [1], "table": {"a": 1}}
    env = {"A": "1"}
    spec = spec_from_mapping(
        {"name": "a", "source": SOURCE, "config": config, "env": env, "dialect": "own"}
        | {"options": config},
        dialects={"own"},
    )
    config["list"].append(2)
    config["table"]["a"] = 2
    env["A"] = "2"
    assert spec.config == spec.options == {"list": [1], "table": {"a": 1}}
    assert spec.env == {"A": "1"}
    assert isinstance(spec.env, MappingProxyType)
    assert isinstance(spec.options, MappingProxyType)


def test_a_search_path_is_below_the_folder_of_the_config_unless_it_has_a_tilde() -> None:
    config = config_from_toml('[discovery]\nsearch_paths = ["~/x", "y", "$PATH"]', "f", "/folder")
    assert config.discovery is not None
    assert config.discovery.search_paths[:2] == ("~/x", "/folder/y")
