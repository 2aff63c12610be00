"""plugin.toml, the manifest of an extension of nexo: valid manifests, and the mistakes in others.

`read` returns Accepted with a Spec (the configuration of one extension), or Rejected with all
errors. Each error names the key and the line in the file. `@shows` names the requirements (the
`requirements.toml` of nexo) that a test shows.
"""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.dialects.manifest_format import Accepted, ManifestFile, Rejected
from exthost.dialects.nexo.dialect import DIALECT
from exthost.dialects.nexo.manifest import RESERVED_IDS, NexoManifest, read
from exthost.dialects.nexo.mcp_servers import replace_placeholders
from exthost.errors import ManifestError, Refused
from exthost.launch.plan import admit
from exthost.model.spec import HostEnvRef, Requires, Spec
from tests.dialects.requirements import shows

# The three sections that a manifest must have.
PLUGIN = '[plugin]\nid = "weather"\nversion = "1.2.3"\n'
CAPABLE = '[capabilities]\ntools = ["get"]\n'
STDIO = '[transport]\nkind = "stdio"\ncommand = "run"\n'
GOOD = PLUGIN + CAPABLE + STDIO


def manifest_file(text: str | bytes, mcp_json: bytes | None = None) -> ManifestFile:
    """Return a plugin.toml, and the file .mcp.json beside it, if any."""
    data = text if isinstance(text, bytes) else text.encode()

    def sibling(name: str) -> bytes | None:
        assert name == ".mcp.json"
        return mcp_json

    return ManifestFile(path="/x/w/plugin.toml", folder="/x/w", data=data, read_sibling=sibling)


def accept(text: str, mcp_json: bytes | None = None) -> Accepted:
    outcome = read(manifest_file(text, mcp_json))
    assert isinstance(outcome, Accepted), outcome
    return outcome


def spec_of(text: str) -> Spec:
    return accept(text).spec


def manifest_of(text: str) -> NexoManifest:
    manifest = spec_of(text).manifest
    assert isinstance(manifest, NexoManifest)
    return manifest


def errors_in(text: str | bytes) -> tuple[ManifestError, ...]:
    try:
        outcome = read(manifest_file(text))
    except ManifestError as error:
        return (error,)
    assert isinstance(outcome, Rejected), outcome
    return outcome.errors


def error_keys(text: str) -> list[str]:
    return [error.evidence.key for error in errors_in(text)]


@shows("nexo-manifest-10")
def test_a_manifest_with_every_key() -> None:
    spec = spec_of(
        """
        [plugin]
        id = "weather"
        version = "1.2.3-rc.1+build.5"
        name = "The weather"
        description = "clear"
        min_agent_version = "0.0.1"
        priority = -5
        [capabilities]
        tools = ["get_weather"]
        hooks = ["before_message"]
        channels = ["radio"]
        providers = ["sat"]
        pollers = ["hourly"]
        [transport]
        type = "stdio"
        command = "./run"
        args = ["--fast", ""]
        [requires]
        bins = ["curl"]
        env = ["WEATHER_KEY"]
        [context]
        passthrough = true
        [meta]
        author = "a"
        license = "MIT"
        [outbound_bindings]
        radio = ["one", "two"]
        """
    )
    assert (spec.id, spec.version, spec.argv) == (
        "weather",
        "1.2.3-rc.1+build.5",
        ("./run", "--fast", ""),
    )
    assert (spec.dialect, spec.priority) == ("nexo", -5)
    assert spec.requires == Requires(bins=("curl",), env=("WEATHER_KEY",), host="0.0.1")
    assert [tool.name for tool in spec.declared_tools] == ["get_weather"]
    assert spec.manifest == NexoManifest(
        name="The weather",
        description="clear",
        hooks=("before_message",),
        channels=("radio",),
        providers=("sat",),
        pollers=("hourly",),
        passthrough=True,
        author="a",
        license="MIT",
        outbound_bindings={"radio": ("one", "two")},
    )


def test_the_minimal_manifest() -> None:
    assert spec_of(GOOD).argv == ("run",)
    assert spec_of("\ufeff" + GOOD.replace("\n", "\r\n")).id == "weather"


@shows("nexo-manifest-01")
@pytest.mark.parametrize("id", ["a", "a-b_c9", "z" * 64])
def test_a_valid_id(id: str) -> None:
    assert spec_of(GOOD.replace("weather", id)).id == id


@shows("nexo-manifest-01")
@pytest.mark.parametrize(
    "id", ["", "A", "9a", "-a", "a.b", "a b", "é", "z" * 65, "a\\n", *sorted(RESERVED_IDS)]
)
def test_an_invalid_id(id: str) -> None:
    [error] = errors_in(GOOD.replace("weather", id))
    assert (error.evidence.key, error.evidence.line) == ("plugin.id", 2)


@shows("nexo-manifest-02")
@pytest.mark.parametrize(
    "version", ["1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3 "]
)
def test_an_invalid_version(version: str) -> None:
    plugin = f'[plugin]\nid = "w"\nversion = "{version}"\n'
    assert error_keys(plugin + CAPABLE + STDIO) == ["plugin.version"]
    minimum = f'min_agent_version = "{version}"\n'
    assert error_keys(PLUGIN + minimum + CAPABLE + STDIO) == ["plugin.min_agent_version"]


@shows("nexo-manifest-03")
def test_a_manifest_for_a_newer_host_is_refused() -> None:
    spec = spec_of(GOOD.replace("[capabilities]", 'min_agent_version = "2.0.0"\n[capabilities]'))
    with pytest.raises(Refused) as caught:
        admit(spec, DIALECT, {})
    assert caught.value.code == "X0330" and "2.0.0" in caught.value.message
    admit(replace(spec, options={"host_version": "2.0.0"}), DIALECT, {})
    with pytest.raises(Refused):
        admit(replace(spec, options={"host_version": "2.0.0-rc.1"}), DIALECT, {})


@shows("nexo-gate-01")
def test_a_configured_variable_satisfies_the_requirement() -> None:
    spec = spec_of(GOOD + '[requires]\nenv = ["A_TOKEN"]\n')
    admit(replace(spec, env={"A_TOKEN": "t"}), DIALECT, {})
    admit(replace(spec, env={"A_TOKEN": HostEnvRef("B")}), DIALECT, {"B": "t"})
    for env in ({}, {"A_TOKEN": ""}, {"A_TOKEN": HostEnvRef("B")}):
        with pytest.raises(Refused, match="A_TOKEN"):
            admit(replace(spec, env=env), DIALECT, {})


@pytest.mark.parametrize(
    "value", [f"0x{'f' * 5000}", "true", "1.0", "1979-05-27", "9223372036854775808"]
)
def test_an_invalid_priority(value: str) -> None:
    text = GOOD.replace("[plugin]\n", f"[plugin]\npriority = {value}\n")
    assert error_keys(text) == ["plugin.priority"]


@shows("nexo-manifest-04")
def test_a_description_has_512_characters_at_most() -> None:
    def with_description(length: int) -> str:
        return PLUGIN + f'description = "{"é" * length}"\n' + CAPABLE + STDIO

    accept(with_description(512))
    assert error_keys(with_description(513)) == ["plugin.description"]


@shows("nexo-manifest-05")
@pytest.mark.parametrize(
    ("capabilities", "expected_keys"),
    [
        ("", ["capabilities"]),
        ("tools = []\nhooks = []", ["capabilities"]),
        ('tools = ["Get"]', ["capabilities.tools[0]"]),
        ('tools = ["a", "b-c"]', ["capabilities.tools[1]"]),
        (f'hooks = ["{"a" * 65}"]', ["capabilities.hooks[0]"]),
        ('tools = ["a", "b", "a"]', ["capabilities.tools[2]"]),
        ('tools = "a"', ["capabilities.tools"]),
        ("tools = [1]", ["capabilities.tools[0]"]),
        ('tool = ["a"]', ["capabilities.tool"]),
    ],
)
def test_invalid_capabilities(capabilities: str, expected_keys: list[str]) -> None:
    assert error_keys(PLUGIN + "[capabilities]\n" + capabilities + "\n" + STDIO) == expected_keys


@shows("nexo-manifest-05")
def test_each_invalid_name_of_a_list_is_reported_with_its_index() -> None:
    text = 'tools = ["a", 5, "B", "a"]'
    assert error_keys(PLUGIN + f"[capabilities]\n{text}\n" + STDIO) == [
        "capabilities.tools[1]",
        "capabilities.tools[2]",
        "capabilities.tools[3]",
    ]


def test_a_name_can_be_in_two_lists() -> None:
    accept(PLUGIN + '[capabilities]\ntools = ["a"]\nhooks = ["a"]\n' + STDIO)
    accept(PLUGIN + '[capabilities]\npollers = ["a"]\n' + STDIO)


@shows("nexo-manifest-06")
@pytest.mark.parametrize(
    ("transport", "expected_keys"),
    [
        ("", ["transport.kind"]),
        ('kind = "stdoi"', ["transport.kind"]),
        ("kind = 5", ["transport.kind"]),
        ('kind = "stdio"', ["transport.command"]),
        ('kind = "stdio"\ncommand = ""', ["transport.command"]),
        ('kind = "stdio"\ncommand = ["a"]', ["transport.command"]),
        ('kind = "stdio"\ntype = "stdio"\ncommand = "a"', ["transport.type"]),
        ('kind = "stdio"\ncommand = "a"\nurl = "b"', ["transport.url"]),
        ('kind = "nats"', ["transport.subject_prefix"]),
        ('kind = "http"\nurl = 5', ["transport.url"]),
        ('kind = "http"\nurl = "ftp://h/x"', ["transport.url"]),
    ],
)
def test_invalid_transports(transport: str, expected_keys: list[str]) -> None:
    assert error_keys(PLUGIN + CAPABLE + "[transport]\n" + transport) == expected_keys


@shows("nexo-manifest-06")
@pytest.mark.parametrize(
    "transport", ['kind = "nats"\nsubject_prefix = "a.b"', 'type = "http"\nurl = "http://h"']
)
def test_extensions_with_other_transports_are_listed_but_not_started(transport: str) -> None:
    spec = spec_of(PLUGIN + CAPABLE + "[transport]\n" + transport)
    assert spec.argv == () and spec.unrunnable
    with pytest.raises(Refused) as caught:
        admit(spec, DIALECT, {})
    assert caught.value.code == "X0331"


@shows("nexo-manifest-07")
@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("[colour]\na = 1", "colour"),
        ('[requires]\nbin = ["a"]', "requires.bin"),
        ("[context]\npass = true", "context.pass"),
        ('[meta]\nhomepage = "x"', "meta.homepage"),
        ('[mcp_servers.a]\ntransport = "stdio"\ncommand = "x"\nport = 1', "mcp_servers.a.port"),
    ],
)
def test_unknown_keys_are_errors(section: str, key: str) -> None:
    assert error_keys(GOOD + section) == [key]


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ('[context]\npassthrough = "yes"', "context.passthrough"),
        ("[requires]\nbins = [5]", "requires.bins[0]"),
        ("[outbound_bindings]\nradio = 5", "outbound_bindings.radio"),
        ("[[meta]]\nauthor = 'a'", "meta"),
        ("[outbound_bindings]\nradio = 1979-05-27", "outbound_bindings.radio"),
    ],
)
def test_values_of_the_wrong_type_are_errors(section: str, key: str) -> None:
    assert error_keys(GOOD + section) == [key]


@shows("nexo-manifest-08")
def test_all_mistakes_are_reported_in_order_with_their_lines() -> None:
    """The order is that of the specification, so the sections in the file have another."""
    text = (
        '[mcp_servers.a]\ntransport = "carrier pigeon"\n[transport]\nkind = "x"\n'
        '[capabilities]\ntools = ["A"]\n[plugin]\npriority = "high"\n'
        f'description = "{"d" * 513}"\nmin_agent_version = "1"\nversion = "2"\nid = "core"\n'
    )
    keys_and_lines = [(error.evidence.key, error.evidence.line) for error in errors_in(text)]
    assert keys_and_lines == [
        ("plugin.id", 12),
        ("plugin.version", 11),
        ("plugin.min_agent_version", 10),
        ("plugin.description", 9),
        ("capabilities.tools[0]", 6),
        ("transport.kind", 4),
        ("mcp_servers.a.transport", 2),
        ("plugin.priority", 8),
    ]
    assert {error.evidence.path for error in errors_in(text)} == {"/x/w/plugin.toml"}
    assert {error.code for error in errors_in(text)} == {"X0202"}


@shows("nexo-manifest-08")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[plugin]\nid = ", 2),
        (b'[plugin]\nid = "\xff"', 2),
        ("a = " + "[" * 5000, 0),
        ("[plugin]\n[plugin]\n", 2),
    ],
)
def test_invalid_toml_is_one_error_with_its_line(text: str | bytes, line: int) -> None:
    [error] = errors_in(text)
    assert line in (0, error.evidence.line)  # 0: any line


def test_missing_sections_are_named() -> None:
    assert error_keys("") == ["plugin", "capabilities", "transport"]
    assert error_keys('plugin = 1\n[capabilities]\ntools = ["A"]\n' + STDIO)[0] == "plugin"
    assert error_keys("[plugin]\n" + CAPABLE + STDIO) == ["plugin.id", "plugin.version"]


# -- MCP servers -----------------------------------------------------------------------------

SERVERS = """
[mcp_servers.files]
transport = "stdio"
command = "${EXTENSION_ROOT}/files"
args = ["--id", "${EXTENSION_ID}@${EXTENSION_VERSION}"]
env = { HOST = "${AGENT_VERSION}" }
cwd = "${EXTENSION_ROOT}"
log_level = "debug"
context_passthrough = true
[mcp_servers.far]
transport = "streamable_http"
url = "HTTPS://h/${EXTENSION_ID}"
headers = { A = "b" }
"""


@shows("nexo-manifest-09")
def test_mcp_servers_are_kept_and_their_placeholders_can_be_filled_in() -> None:
    stdio_server, http_server = manifest_of(GOOD + SERVERS).mcp_servers
    assert (stdio_server.key, stdio_server.transport, stdio_server.command) == (
        "weather.files",
        "stdio",
        "${EXTENSION_ROOT}/files",
    )
    assert (stdio_server.log_level, stdio_server.context_passthrough) == ("debug", True)
    facts = {"root": "/x/w", "extension": "weather", "version": "1.2.3", "host_version": "9.0.0"}
    filled = replace_placeholders(stdio_server, **facts)
    assert (filled.command, filled.args, dict(filled.env), filled.cwd) == (
        "/x/w/files",
        ("--id", "weather@1.2.3"),
        {"HOST": "9.0.0"},
        "/x/w",
    )
    assert replace_placeholders(http_server, **facts).url == "HTTPS://h/weather"
    assert "headers" not in repr(http_server)  # headers can contain secrets


@shows("nexo-manifest-09")
@pytest.mark.parametrize(
    ("server", "key"),
    [
        (f'[mcp_servers.{"a" * 33}]\ncommand = "x"', f"mcp_servers.{'a' * 33}"),
        ('[mcp_servers.BadName]\ncommand = "x"', "mcp_servers.BadName"),
        ('[mcp_servers.a]\ntransport = "stdio"', "mcp_servers.a"),
        ('[mcp_servers.a]\ntransport = "sse"', "mcp_servers.a"),
        ("[mcp_servers.a]\nargs = []", "mcp_servers.a"),
        ('[mcp_servers.a]\ntransport = "sse"\nurl = "http://x"\nargs = []', "mcp_servers.a.args"),
        ('[mcp_servers.a]\ncommand = "x"\nenv = { A = 1 }', "mcp_servers.a.env.A"),
        ("[mcp_servers]\na = 5", "mcp_servers.a"),
        ('[mcp_servers."a\\u001bb"]\ncommand = "x"', r"mcp_servers.'a\x1bb'"),
    ],
)
def test_invalid_mcp_servers(server: str, key: str) -> None:
    assert error_keys(GOOD + server) == [key]


@shows("nexo-disc-05")
@pytest.mark.parametrize("top_level_key", ["mcpServers", "mcp_servers"])
def test_servers_are_read_from_mcp_json_next_to_the_manifest(top_level_key: str) -> None:
    servers = {
        "a": {"command": "x", "args": ["y"], "disabled": False},
        "b": {"url": "https://h"},
        "c": {"type": "http", "url": "https://h", "headers": {"A": "b"}},
    }
    outcome = accept(GOOD, json.dumps({top_level_key: servers}).encode())
    servers_read = outcome.spec.manifest.mcp_servers
    assert [(item.key, item.transport) for item in servers_read] == [
        ("weather.a", "stdio"),
        ("weather.b", "auto"),
        ("weather.c", "streamable_http"),
    ]
    assert not outcome.warnings


@shows("nexo-disc-05")
@pytest.mark.parametrize(
    "mcp_json",
    [
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"mcpServers": {"a": {}}}',
        b'{"mcpServers": 5}',
    ],
)
def test_an_invalid_mcp_json_is_a_warning(mcp_json: bytes) -> None:
    outcome = accept(GOOD, mcp_json)
    assert outcome.spec.manifest.mcp_servers == ()
    assert len(outcome.warnings) == 1 and ".mcp.json" in outcome.warnings[0]


@shows("nexo-disc-05")
def test_mcp_json_is_not_read_if_the_manifest_has_servers() -> None:
    outcome = accept(GOOD + SERVERS, b"{broken")
    assert len(outcome.spec.manifest.mcp_servers) == 2 and not outcome.warnings


# -- any input -------------------------------------------------------------------------

OTHER_SECTIONS = ("outbound_bindings", "mcp_servers")
_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return '""' if value is None else json.dumps(value)


@given(
    section=st.sampled_from(
        [*("plugin", "capabilities", "transport", "requires", "context", "meta"), *OTHER_SECTIONS]
    ),
    value=_VALUES,
)
def test_any_value_in_any_section_is_accepted_or_reported(section: str, value: Any) -> None:
    text = f"{section} = {_toml(value)}\n"
    try:
        tomllib.loads(text)
    except ValueError:
        return
    for error in errors_in(text):
        assert error.message and error.evidence.path


@given(st.binary(max_size=60))
def test_any_bytes_are_reported(data: bytes) -> None:
    assert errors_in(data)


def test_the_examples_are_valid() -> None:
    root = Path(__file__).parents[2] / "examples" / "nexo"
    for path in root.rglob("plugin.toml"):
        assert isinstance(read(manifest_file(path.read_bytes())), Accepted)
