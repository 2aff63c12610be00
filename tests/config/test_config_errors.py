"""Errors for mistakes in configs: their code, the place of the mistake, and the help.

The codes:  X0101  the text is not TOML
            X0102  a key that does not exist
            X0103  a wrong value, or a missing key
            X0104  a name that is used twice
            X0105  a source that cannot be run
            X0106  a duration or a size that cannot be read
            X0107  an unknown dialect
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.config import config_from_mapping, config_from_toml, spec_from_mapping
from exthost.errors import ConfigError
from tests.dialects.requirements import shows

PROCESS = {"id": "a", "manifest": "m.toml", "command": "c"}
SOURCE = {"type": "process", "command": "python3"}


def error_of(document: Any) -> ConfigError:
    """Return the error for a config."""
    with pytest.raises(ConfigError) as caught:
        config_from_mapping(document)
    return caught.value


def error_of_entry(**keys: Any) -> ConfigError:
    """Return the error for an `[[extensions]]` entry with these further keys."""
    return error_of({"extensions": [{"name": "a", "source": SOURCE, **keys}]})


def error_of_toml(text: str | bytes) -> ConfigError:
    """Return the error for a config file with this text."""
    with pytest.raises(ConfigError) as caught:
        config_from_toml(text, "exthost.toml", "/etc/x")
    return caught.value


@pytest.mark.parametrize(
    ("keys", "code", "key", "message"),
    [
        ({"enabeld": True}, "X0102", "enabeld", "did you mean `enabled`?"),
        ({"command": "x"}, "X0102", "command", "belongs in `source`"),
        ({"limits": {"cal": 1}}, "X0102", "limits.cal", "did you mean `call`?"),
        ({"source": {"comand": "x"}}, "X0102", "source.comand", "did you mean `command`?"),
        ({"restart": {"forgiven_by": "call"}}, "X0102", "restart.forgiven_by", "unknown key"),
        ({"permissions": {"net": 1}}, "X0102", "permissions.net", "did you mean `network`?"),
        ({"options": {"x": 1}}, "X0102", "options.x", "unknown key"),
        (
            {"dialect": "cigen", "options": {"plam": False}},
            "X0102",
            "options.plam",
            "did you mean `plan`?",
        ),
        ({"dialect": "cigen", "options": {"plan": "no"}}, "X0103", "options.plan", "true or false"),
        ({"dialect": "cigen", "options": {"methods": 5}}, "X0103", "options.methods", "a list"),
        (
            {"dialect": "cigen", "options": {"methods": ["detekt"]}},
            "X0103",
            "options.methods",
            "must be a list of: plan, generate",
        ),
        (
            {"dialect": "nexo", "options": {"context_passthrough": 1}},
            "X0103",
            "options.context_passthrough",
            "true or false",
        ),
        ({"name": 5}, "X0103", "name", "must be text, not a number"),
        ({"name": " "}, "X0103", "name", "must not be blank"),
        ({"name": "a\nb"}, "X0103", "name", "control characters"),
        ({"enabled": "yes"}, "X0103", "enabled", "must be true or false, not text"),
        ({"enabled": 1}, "X0103", "enabled", "must be true or false, not a number"),
        ({"source": "x"}, "X0103", "source", "must be a table, not text"),
        ({"source": {}}, "X0103", "source", "no `command`"),
        ({"source": {"command": ""}}, "X0103", "source.command", "must not be blank"),
        ({"source": {"command": ["x"]}}, "X0103", "source.command", "not a list"),
        ({"source": {"command": "a\0b"}}, "X0103", "source.command", "NUL"),
        ({"source": {**SOURCE, "args": "x"}}, "X0103", "source.args", "must be a list of text"),
        ({"source": {**SOURCE, "args": [1]}}, "X0103", "source.args[0]", "not a number"),
        ({"source": {**SOURCE, "args": ["\ud800"]}}, "X0103", "source.args[0]", "surrogate"),
        ({"source": {**SOURCE, "env": {"A": 1}}}, "X0103", "source.env.A", "must be text"),
        ({"env": {"A=B": "x"}}, "X0103", "env", "variable's name"),
        ({"env": ["A"]}, "X0103", "env", "must be a table of text, not a list"),
        ({"source": {**SOURCE, "args": []}, "args": []}, "X0103", "args", "given twice"),
        ({"restart": {"strategy": "nevr"}}, "X0103", "restart.strategy", 'did you mean "never"?'),
        ({"restart": {"max_retries": -1}}, "X0103", "restart.max_retries", "between 0"),
        ({"restart": {"max_retries": True}}, "X0103", "restart.max_retries", "whole number"),
        ({"limits": {"max_in_flight": 0}}, "X0103", "limits.max_in_flight", "between 1"),
        ({"pool": {"min": 3, "max": 2}}, "X0103", "pool", "min (3) must not be more than max (2)"),
        ({"permissions": None}, "X0103", "permissions", "must be a table, not null"),
        ({"sandbox": "on"}, "X0103", "sandbox", '"strict", "best-effort", "landlock", "off"'),
        ({"env_policy": "all"}, "X0103", "env_policy", '"filtered", "minimal", "declared"'),
        ({"retry": "twice"}, "X0103", "retry", '"never", "once"'),
        ({"start": "now"}, "X0103", "start", '"eager", "lazy"'),
        ({"lifetime": "long"}, "X0103", "lifetime", '"tree", "plain"'),
        ({"sha256": "ab"}, "X0103", "sha256", "64 hexadecimal digits"),
        ({"sha256": "g" * 64}, "X0103", "sha256", "64 hexadecimal digits"),
        ({"config": {"when": object()}}, "X0103", "config.when", "JSON does not have"),
        ({"config": [float("nan")]}, "X0103", "config[0]", "a number that JSON cannot express"),
        ({"options": []}, "X0103", "options", "must be a table, not a list"),
        ({"source": {"type": "proces"}}, "X0105", "source.type", "'proces' is unknown"),
        ({"limits": {"call": "5 parsecs"}}, "X0106", "limits.call", "'5 parsecs'"),
        ({"limits": {"call": 0}}, "X0106", "limits.call", "longer than 0"),
        ({"limits": {"max_message": "64M"}}, "X0106", "limits.max_message", '"256MiB"'),
        ({"permissions": {"max_memory": 0}}, "X0106", "permissions.max_memory", "more than 0"),
        ({"dialect": "morphr"}, "X0107", "dialect", 'did you mean "morphir"?'),
    ],
)
def test_the_error_for_a_mistake_in_an_entry_has_its_code_and_key(
    keys: dict[str, Any], code: str, key: str, message: str
) -> None:
    error = error_of_entry(**keys)
    assert (error.code, error.evidence.key) == (code, f"extensions[0].{key}")
    assert message in error.message


@shows("morphir-config-02")
@pytest.mark.parametrize("kind", ["grpc", "wasmcomponent"])
def test_only_the_entry_with_an_unsupported_source_is_refused(kind: str) -> None:
    unsupported = {"name": "far", "source": {"type": kind, "url": "http://x"}}
    document = {"extensions": [unsupported, {"name": "near", "source": SOURCE}]}
    far, near = config_from_mapping(document).specs
    assert f"'{kind}' cannot be run here" in far.unrunnable and not near.unrunnable


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("proces", 'did you mean "process"?'),
        ("grcp", 'use "process", "wasm" or "http"'),
        ("carrier pigeon", 'use "process", "wasm" or "http"'),
    ],
)
def test_the_error_for_an_unknown_source_suggests_only_what_can_be_run(
    kind: str, advice: str
) -> None:
    error = error_of_entry(source={"type": kind, "command": "x"})
    assert error.code == "X0105"
    assert f"'{kind}' is unknown; {advice}" in error.message


@shows("morphir-config-02")
def test_only_the_entry_with_an_http_source_of_another_dialect_is_refused() -> None:
    foreign = {"name": "far", "source": {"type": "http", "url": "x", "port": 1}}
    document = {"extensions": [foreign, {"name": "near", "source": SOURCE}]}
    far, near = config_from_mapping(document).specs
    assert 'needs dialect = "mcp"' in far.unrunnable and not near.unrunnable


@shows("morphir-config-02")
@pytest.mark.parametrize(
    "protocol", ["grpc", "jsonrpc", "jsonrpc2", "extism", "component", "smoke", "studio"]
)
def test_only_the_entry_with_an_unsupported_protocol_is_refused(protocol: str) -> None:
    unsupported = {"name": "far", "source": SOURCE, "protocol": protocol}
    document = {"extensions": [unsupported, {"name": "near", "source": SOURCE}]}
    far, near = config_from_mapping(document).specs
    assert f"'{protocol}' is not supported" in far.unrunnable and not near.unrunnable
    assert ('did you mean "stdio"?' in far.unrunnable) is (protocol == "studio")


@pytest.mark.parametrize(
    ("document", "code", "key"),
    [
        ([], "X0103", ""),
        (None, "X0103", ""),
        ({1: 2}, "X0103", ""),
        ({"extension": []}, "X0102", "extension"),
        ({"extensions": {}}, "X0103", "extensions"),
        ({"extensions": [1]}, "X0103", "extensions[0]"),
        ({"extensions": [{"source": SOURCE}]}, "X0103", "extensions[0]"),
        ({"extensions": [{"name": "a"}]}, "X0103", "extensions[0]"),
        ({"defaults": {"name": "a"}}, "X0102", "defaults.name"),
        ({"overrides": []}, "X0103", "overrides"),
        ({"overrides": {"a.b": {"cwd": 1}}}, "X0103", "overrides.'a.b'.cwd"),
        ({"discovery": {"max_deph": 1}}, "X0102", "discovery.max_deph"),
        ({"discovery": {"watch": {"debounce_ms": 49}}}, "X0103", "discovery.watch.debounce_ms"),
        ({"audit": "x"}, "X0103", "audit"),
        ({"audit": {"path": ""}}, "X0103", "audit.path"),
        ({"process_extensions": {}}, "X0103", "process_extensions"),
        ({"process_extensions": [1]}, "X0103", "process_extensions[0]"),
        ({"process_extensions": [{**PROCESS, "id": " "}]}, "X0103", "process_extensions[0].id"),
        ({"process_extensions": [{"id": "a", "manifest": "m"}]}, "X0103", "process_extensions[0]"),
        ({"process_extensions": [{"id": "a", "command": "c"}]}, "X0103", "process_extensions[0]"),
        (
            {"process_extensions": [{**PROCESS, "startup_timeout_ms": 0}]},
            "X0103",
            "process_extensions[0].startup_timeout_ms",
        ),
        (
            {"process_extensions": [{**PROCESS, "eventFilter": {}}]},
            "X0102",
            "process_extensions[0].eventFilter",
        ),
        (
            {"process_extensions": [{**PROCESS, "event_filter": {"kinds": "turn."}}]},
            "X0103",
            "process_extensions[0].event_filter.kinds",
        ),
        ({"process_extensions": [PROCESS, PROCESS]}, "X0104", "process_extensions[1].id"),
        ({"mcp_servers": []}, "X0103", "mcp_servers"),
        ({"mcp_servers": {"a": 5}}, "X0103", "mcp_servers.a"),
        ({"mcp_servers": {"a": {}}}, "X0103", "mcp_servers.a"),
        ({"mcp_servers": {"a": {"command": "x", "argv": []}}}, "X0102", "mcp_servers.a.argv"),
        ({"mcp_servers": {"a\nb": {"command": "x"}}}, "X0103", "mcp_servers"),
    ],
)
def test_the_error_for_a_mistake_in_a_section_has_its_code_and_key(
    document: Any, code: str, key: str
) -> None:
    error = error_of(document)
    assert (error.code, error.evidence.key) == (code, key)


def test_the_error_for_an_unknown_key_lists_the_keys_that_exist() -> None:
    assert error_of_entry(pool={"size": 3}).help == (
        "the keys here are engine, files, image, labels, max, min, per_node, resources, spread"
    )


def test_the_error_for_a_mistake_in_a_file_names_file_line_key_and_extension() -> None:
    error = error_of_toml(
        '[[extensions]]\nname = "one"\nsource = { command = "x" }\n\n'
        '[[extensions]]\nname = "two"\nsource = { command = "x" }\n'
        '[extensions.restart]\nstrategy = "nevr"\n'
    )
    assert (error.evidence.path, error.evidence.line) == ("exthost.toml", 9)
    assert error.message.startswith("exthost.toml:9: extensions[1].restart.strategy: must be")
    assert error.extension == "two"


def test_the_first_mistake_in_the_file_is_raised_and_the_others_are_listed() -> None:
    error = error_of_toml(
        "[defaults]\nretry = 5\n[discovery]\nmax_depth = -1\n[audit]\npth = 'x'\n"
    )
    assert (error.code, error.evidence.line) == ("X0103", 2)
    assert error.message.endswith("(and 2 more)")
    first, second = error.evidence.details
    assert first.startswith("exthost.toml:4: discovery.max_depth: ")
    assert first.endswith("[X0103]")
    assert second.startswith("exthost.toml:6: audit.pth: ")
    assert second.endswith("[X0102]")


def test_ten_thousand_mistakes_are_counted_but_not_all_listed() -> None:
    error = error_of({"extensions": [1] * 10_000})
    assert len(error.evidence.details) == 50 + 1  # 50 mistakes, and the number of the others
    assert error.evidence.details[-1] == "and 9949 more"


def test_the_error_for_a_repeated_name_names_both_places() -> None:
    error = error_of_toml(
        '[[extensions]]\nname = "twin"\nsource = { command = "x" }\n'
        '[[extensions]]\nname = "twin"\nenabled = false\nsource = { command = "y" }\n'
    )
    assert (error.code, error.evidence.line) == ("X0104", 5)
    assert "extensions[1].name" in error.message
    assert "'twin' is already the name at extensions[0].name, line 2" in error.message


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a = 1\nb = \n", 2),
        (b"a = 1\nb = '\xff'\n", 2),
        ("a = " + "[" * 5000 + "]" * 5000, 0),
        ("a = " + "1" * 5000, 0),
    ],
)
def test_invalid_toml_is_unreadable(source: str | bytes, line: int) -> None:
    error = error_of_toml(source)
    assert (error.code, error.evidence.path, error.evidence.line) == ("X0101", "exthost.toml", line)


def test_the_error_for_a_date_says_to_put_it_in_quotes() -> None:
    error = error_of_toml(
        "[[extensions]]\nname = 'a'\nsource = { command = 'x' }\nconfig.since = 2024-01-01\n"
    )
    assert (error.code, error.evidence.line, error.help) == ("X0103", 4, "put it in quotes")


def test_an_error_does_not_contain_values_that_could_be_secrets() -> None:
    error = error_of_entry(env={"TOKEN": ["hunter2"]}, sha256="hunter2", config={"k": {"hunter2"}})
    text = f"{error} {error.evidence}"
    assert len(error.evidence.details) == 2
    assert "hunter2" not in text


def test_a_config_that_contains_itself_is_refused_in_bounded_time() -> None:
    loop: dict[str, Any] = {}
    loop["left"] = loop["right"] = loop
    error = error_of_entry(config=loop)
    assert (error.code, error.evidence.details) == ("X0103", ())
    assert "contains itself" in error.message


def test_a_config_that_doubles_with_each_level_is_refused_in_bounded_time() -> None:
    nested: Any = 1
    for _ in range(40):  # 40 levels are allowed, but 2^40 values are not
        nested = [nested, nested]
    error = error_of_entry(config=nested)
    assert (error.code, error.evidence.details) == ("X0103", ())
    assert "100000 values" in error.message


def test_spec_from_mapping_reports_an_unknown_key() -> None:
    with pytest.raises(ConfigError) as caught:
        spec_from_mapping({"name": "a", "source": SOURCE, "limit": {}})
    assert (caught.value.code, caught.value.extension) == ("X0102", "a")
    assert caught.value.evidence.key == "limit"


# Names of keys, so that generated documents often have valid keys.
SECTIONS = ("extensions", "defaults", "overrides", "discovery", "audit", "mcp_servers")
SHARED_KEYS = (
    *("limits", "restart", "breaker", "pool", "permissions", "sandbox", "env", "env_policy"),
    *("cwd", "args", "sha256", "retry", "start", "lifetime", "options"),
)
ENTRY_KEYS = ("enabled", "protocol", "dialect", "config")
NESTED_KEYS = (
    *("type", "command", "call", "max_message", "strategy", "max_retries", "min", "max", "path"),
    *("network", "filesystem", "max_memory", "watch", "debounce_ms", "search_paths"),
)
WORDS = ["stdio", "process", "http", "morphir", "never", "strict", "1s", "1MB", "", "x", "\0"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.dates(),
    st.just(object()),
)
names = st.one_of(
    st.sampled_from([*SECTIONS, *SHARED_KEYS, *ENTRY_KEYS, *NESTED_KEYS]),
    st.text(max_size=4),
    st.integers(),
    st.none(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(names, inner, max_size=4),
    ),
    max_leaves=12,
)


def tables_with_keys(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    """Generate tables with valid keys, so that invalid values are checked, too."""
    return st.dictionaries(st.sampled_from(keys), values, max_size=5)


entries = st.fixed_dictionaries(
    {
        "name": st.one_of(st.sampled_from("abcdef"), values),
        "source": st.one_of(st.just(SOURCE), tables_with_keys("type", "command", "args", "env")),
    },
    optional={
        **dict.fromkeys((*SHARED_KEYS, *ENTRY_KEYS), values),
        "enabled": st.booleans(),
        "config": st.one_of(st.text(max_size=3), values),
        "limits": tables_with_keys("call", "max_message"),
    },
)
shared = tables_with_keys(*SHARED_KEYS)
documents = st.one_of(
    values,
    st.dictionaries(names, values, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "extensions": st.lists(entries, max_size=3),
            "defaults": shared,
            "overrides": st.dictionaries(names, shared, max_size=2),
            "discovery": tables_with_keys("enabled", "search_paths", "max_depth", "watch"),
            "audit": tables_with_keys("path"),
        },
    ),
)


@settings(max_examples=150, deadline=None)
@given(documents)
def test_every_mapping_becomes_a_config_or_a_config_error(
    document: Any,
) -> None:
    try:
        config = config_from_mapping(document)
    except ConfigError as error:
        assert error.code in {f"X010{digit}" for digit in range(2, 9)}
        assert error.message
    else:
        assert all(spec.id and (spec.argv or not spec.enabled) for spec in config.specs)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=60), st.binary(max_size=60)))
def test_every_text_becomes_a_config_or_a_config_error(
    source: str | bytes,
) -> None:
    try:
        config = config_from_toml(source, "c.toml", "/x")
    except ConfigError as error:
        assert error.evidence.path == "c.toml"
    else:
        assert config.specs == ()


@pytest.mark.parametrize("section", ["defaults", "overrides.a"])
def test_shared_options_are_checked_by_type_and_can_belong_to_any_dialect(section: str) -> None:
    error = error_of_toml(f"[{section}]\noptions = {{ plan = 1 }}\n")
    assert error.evidence.key == f"{section}.options.plan" and error.evidence.line == 2
    config_from_toml(f"[{section}]\noptions = {{ plan = false, theirs = 1 }}\n", "f", "/x")


def test_the_error_for_an_incomplete_file_names_its_last_line() -> None:
    error = error_of_toml("[defaults]\nlimits = [\n\n")
    assert (error.evidence.line, error.message[:15]) == (2, "exthost.toml:2:")


def test_an_error_without_a_line_does_not_mention_a_line() -> None:
    error = error_of_toml("a = " + "[" * 100_000)
    assert error.evidence.line == 0 and "line" not in error.help
