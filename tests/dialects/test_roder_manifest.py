"""The manifest of an extension of roder, `roder-extension.toml`, and the entries of a config that
name one (`[[process_extensions]]`).

A manifest lists what the extension provides: services such as an `event_sink`, or tools. A host
finds manifests in its search paths, or an entry of the config completes one. `@shows` names the
requirements (`requirements.toml` of roder) that a test shows.
"""

from pathlib import Path
from typing import Any

import pytest

from exthost.config import DiscoverySettings, config_from_mapping, config_from_toml
from exthost.config.discovery.configfile import find_extensions, read_config
from exthost.config.discovery.search import discover
from exthost.dialects.roder.manifest import FORMAT, checksum, parse
from exthost.errors import ConfigError, ManifestError
from exthost.launch.prerequisites import find_name_conflict
from exthost.model.spec import Limits, Spec
from tests.dialects.requirements import shows

HEAD = """
id = "demo"
name = "Demo"
version = "1.0.0"
api_version = "^0.1"
"""
SINK = """
[[provides]]
type = "event_sink"
id = "events"
"""
TOOL = """
[[provides]]
type = "tool_provider"
id = "tools"
[[provides.tools]]
name = "add"
description = "adds"
parameters = { type = "object" }
"""
LAUNCH = """
[launch]
command = "python3"
"""


def refuse(text: str) -> ManifestError:
    """Return the error of an invalid manifest."""
    with pytest.raises(ManifestError) as caught:
        parse(text.encode(), "/somewhere/m.toml")
    assert caught.value.evidence.path == "/somewhere/m.toml"
    return caught.value


# -- the manifest ------------------------------------------------------------------------------


@shows("roder-manifest-01", "roder-manifest-02", "roder-echo-05")
def test_a_manifest_is_read_with_its_defaults_and_unknown_keys_ignored() -> None:
    text = (HEAD + "future = 1\n" + TOOL + 'since = "2"\n' + SINK + "x = 1\n").encode()
    manifest = parse(text)
    assert (manifest.id, manifest.description, manifest.capabilities) == ("demo", "", ())
    assert manifest.launch is None and manifest.checksum == checksum(text)
    assert manifest.ids("event_sink") == ("events",)
    (tool,) = manifest.tools
    assert (tool.name, tool.extra["provider"]) == ("add", "tools")
    assert parse(b"\xef\xbb\xbf" + text).checksum != manifest.checksum, (
        "the checksum is of the raw bytes"
    )


@shows("roder-manifest-01")
@pytest.mark.parametrize("key", ["id", "name", "version", "api_version"])
def test_a_required_key_that_is_missing_or_not_text_is_named(key: str) -> None:
    lines = [line for line in HEAD.splitlines() if not line.startswith(f"{key} ")]
    error = refuse("\n".join(lines) + SINK)
    assert error.code == "X0240" and error.evidence.key == key and "missing" in error.message
    assert "text" in refuse("\n".join([*lines, f"{key} = 1"]) + SINK).message


@shows("roder-manifest-01")
@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD + "provides = 1",
        HEAD + "provides = [1]",
        HEAD + '[[provides]]\ntype = "event_sink"',
        HEAD + '[[provides]]\ntype = "tool_provider"\nid = "t"',
        HEAD + "required_capabilities = [1]\n" + SINK,
        HEAD + SINK + "[launch]\nargs = []",
        HEAD + SINK + LAUNCH + 'startup_timeout_ms = "1"',
        HEAD + SINK + LAUNCH + f"startup_timeout_ms = 0x{'f' * 5000}",
        HEAD + SINK + LAUNCH + "startup_timeout_ms = true",
        HEAD + SINK + LAUNCH + "env = { A = 1 }",
        HEAD + SINK + LAUNCH + 'env = { "A=B" = "x" }',
        HEAD + SINK + LAUNCH + 'env = { "" = "x" }',
        HEAD + SINK + LAUNCH + 'env = { A = "\\u0000" }',
        HEAD + SINK + LAUNCH + 'args = ["\\u0000"]',
        HEAD + SINK + LAUNCH + 'cwd = "\\u0000"',
        HEAD + SINK + '[launch]\ncommand = "a\\u0000b"',
        HEAD + TOOL.replace('description = "adds"\n', ""),
        HEAD + TOOL.replace("parameters", "params"),
        HEAD + TOOL.replace('"object" }', '"object", default = 2020-01-01 }'),
        HEAD + TOOL.replace('"object" }', '"object", default = nan }'),
        HEAD + TOOL.replace('"object" }', f'"object", default = 0x{"f" * 5000} }}'),
        "not toml",
        "x = " + "[" * 5000,
    ],
)
def test_a_manifest_of_the_wrong_shape_is_refused(text: str) -> None:
    assert refuse(text).code == "X0240"


@shows("roder-manifest-02")
def test_an_unknown_type_of_service_is_refused() -> None:
    error = refuse(HEAD + '[[provides]]\ntype = "web_server"\nid = "w"')
    assert error.code == "X0240" and "web_server" in error.message


BAD_TOOL = TOOL.replace('"object"', '"string"')
NO_SERVICE = "provides = []\n"


@shows("roder-manifest-03")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (HEAD.replace("demo", " ").replace("^0.1", "no") + NO_SERVICE, "X0241"),
        (HEAD.replace("^0.1", "no") + NO_SERVICE, "X0242"),
        (HEAD.replace("^0.1", "no") + BAD_TOOL, "X0243"),
        (HEAD.replace("^0.1", "^0.2") + BAD_TOOL, "X0244"),
        (HEAD + BAD_TOOL, "X0245"),
    ],
)
def test_the_first_mistake_in_the_order_of_the_specification_is_reported(
    text: str, code: str
) -> None:
    assert refuse(text).code == code


@shows("roder-manifest-04")
@pytest.mark.parametrize(
    "text",
    [
        '[[provides]]\ntype = "tool_provider"\nid = "t"\ntools = []',
        TOOL.replace('"add"', '" "'),
        TOOL + TOOL.partition('id = "tools"')[2],
        BAD_TOOL,
        TOOL.replace('{ type = "object" }', "{}"),
        TOOL.replace('{ type = "object" }', '{ type = ["object"] }'),
        TOOL.replace('{ type = "object" }', '"object"'),
    ],
)
def test_a_faulty_tool_provider_is_refused(text: str) -> None:
    assert refuse(HEAD + text).code == "X0245"


@shows("roder-manifest-07")
@pytest.mark.parametrize(
    "text",
    [
        SINK + SINK,
        TOOL + TOOL.replace('"tools"', '"more"'),
        'required_capabilities = ["net", "net"]\n' + SINK,
    ],
)
def test_duplicates_in_one_manifest_are_refused(text: str) -> None:
    assert refuse(HEAD + text).code == "X0247"


# -- discovery ---------------------------------------------------------------------------------


def discover_manifest(folder: Path, text: str) -> Any:
    (folder / "ext").mkdir()
    (folder / "ext" / "roder-extension.toml").write_text(text)
    return discover(DiscoverySettings(search_paths=(str(folder),)), (FORMAT,))


@shows("roder-manifest-05")
def test_a_discovered_manifest_has_a_command_and_a_folder(tmp_path: Path) -> None:
    launch = """
    [launch]
    command = "bin/ext"
    args = ["--x"]
    env = { A = "1" }
    startup_timeout_ms = 2500
    event_filter_kinds = ["turn."]
    """
    report = discover_manifest(tmp_path, HEAD + SINK + launch)
    (candidate,) = report.candidates
    spec = candidate.spec
    folder = str(tmp_path.resolve() / "ext")
    assert (spec.id, spec.dialect, spec.version) == ("demo", "roder", "1.0.0")
    assert (spec.argv, spec.cwd, dict(spec.env)) == (
        (f"{folder}/bin/ext", "--x"),
        folder,
        {"A": "1"},
    )
    assert (spec.limits.start, spec.limits.handshake) == (2.5, 2.5)
    assert spec.options["event_filter"] == {"kinds": ["turn."]}


@shows("roder-manifest-05")
def test_a_bare_command_is_searched_in_path_and_cwd_is_relative_to_the_manifest(
    tmp_path: Path,
) -> None:
    report = discover_manifest(tmp_path, HEAD + SINK + LAUNCH + 'cwd = "sub"\n')
    (candidate,) = report.candidates
    assert candidate.spec.argv == ("python3",)
    assert candidate.spec.cwd == str(tmp_path.resolve() / "ext" / "sub")


@shows("roder-manifest-05")
def test_a_discovered_manifest_without_launch_is_refused(tmp_path: Path) -> None:
    report = discover_manifest(tmp_path, HEAD + SINK)
    assert not report.candidates and [diagnostic.code for diagnostic in report.diagnostics] == [
        "X0246"
    ]


# -- config entries ----------------------------------------------------------------------------


@shows("roder-config-01")
def test_an_entry_has_the_keys_and_defaults_of_the_specification() -> None:
    entry = {"id": "a", "manifest": "m.toml", "command": "run"}
    (spec,) = config_from_mapping({"process_extensions": [entry]}).specs
    assert spec == Spec(id="a", argv=("run",), dialect="roder", manifest_path="m.toml")
    entry_with_all_keys = {
        **entry,
        "enabled": False,
        "args": ["-v"],
        "cwd": "/w",
        "env": {"A": "1"},
        "startup_timeout_ms": 1500,
        "event_filter": {"kinds": ["turn.", ""]},
        "config": {"a": 1},
    }
    (spec,) = config_from_mapping({"process_extensions": [entry_with_all_keys]}).specs
    assert (spec.enabled, spec.argv, spec.cwd) == (False, ("run", "-v"), "/w")
    assert (dict(spec.env), spec.config) == ({"A": "1"}, {"a": 1})
    assert spec.limits == Limits(start=1.5, handshake=1.5)
    assert spec.options["event_filter"] == {"kinds": ["turn.", ""]}


@shows("roder-config-02")
def test_relative_paths_are_relative_to_the_folder_of_the_config() -> None:
    text = """
    [[process_extensions]]
    id = "a"
    manifest = "m/m.toml"
    command = "bin/run"
    cwd = "w"
    [[process_extensions]]
    id = "b"
    manifest = "/m.toml"
    command = "run"
    """
    first, second = config_from_toml(text, "/c/exthost.toml", "/c").specs
    assert (first.manifest_path, first.argv, first.cwd) == ("/c/m/m.toml", ("/c/bin/run",), "/c/w")
    assert (second.manifest_path, second.argv, second.cwd) == ("/m.toml", ("run",), "/c")


def write_config(folder: Path, entries: str) -> Path:
    (folder / "m.toml").write_text(HEAD + TOOL + SINK)
    path = folder / "exthost.toml"
    path.write_text(entries)
    return path


ENTRY = """
[[process_extensions]]
id = "mine"
manifest = "m.toml"
command = "no-such-program"
"""


@shows("roder-config-03", "roder-life-01")
def test_an_entry_is_completed_by_its_manifest_without_a_process(tmp_path: Path) -> None:
    (spec,) = find_extensions(read_config(write_config(tmp_path, ENTRY))).specs
    assert (spec.id, spec.wire_id, spec.version) == ("mine", "demo", "1.0.0")
    assert [tool.name for tool in spec.declared_tools] == ["add"]
    assert spec.cwd == str(tmp_path) and spec.manifest_path is None


def test_an_entry_of_extensions_can_name_a_manifest(tmp_path: Path) -> None:
    entry = """
    [[extensions]]
    name = "mine"
    dialect = "roder"
    manifest = "m.toml"
    source = { type = "process", command = "run" }
    """
    (spec,) = find_extensions(read_config(write_config(tmp_path, entry))).specs
    assert spec.wire_id == "demo" and spec.argv == ("run",)
    entry_of_morphir = entry.replace("roder", "morphir")
    outcome = find_extensions(read_config(write_config(tmp_path, entry_of_morphir)))
    assert not outcome.specs
    assert [diagnostic.code for diagnostic in outcome.diagnostics] == ["X0248"]


@pytest.mark.parametrize(
    ("text", "code"), [("", "X0240"), (HEAD + BAD_TOOL, "X0245"), (None, "X0201")]
)
def test_an_unusable_manifest_is_reported_and_other_entries_are_loaded(
    tmp_path: Path, text: str | None, code: str
) -> None:
    second = ENTRY.replace("mine", "other").replace("m.toml", "n.toml")
    config = write_config(tmp_path, ENTRY + second)
    if text is not None:
        (tmp_path / "n.toml").write_text(text)
    outcome = find_extensions(read_config(config))
    assert [spec.id for spec in outcome.specs] == ["mine"]
    (diagnostic,) = outcome.diagnostics
    assert (diagnostic.code, diagnostic.extension, diagnostic.level) == (code, "other", "error")
    config.write_text(ENTRY + second + "enabled = false\n")
    assert not find_extensions(read_config(config)).diagnostics, (
        "the manifest of a disabled entry is not read"
    )


@shows("roder-config-04")
def test_an_entry_has_precedence_over_a_discovered_manifest_of_the_same_id(tmp_path: Path) -> None:
    (tmp_path / "ext").mkdir()
    (tmp_path / "ext" / "roder-extension.toml").write_text(HEAD + SINK + LAUNCH)
    entry = ENTRY.replace("mine", "demo") + '[discovery]\nsearch_paths = ["ext"]\n'
    outcome = find_extensions(read_config(write_config(tmp_path, entry)))
    (spec,) = outcome.specs
    assert spec.argv == ("no-such-program",)
    assert [diagnostic.code for diagnostic in outcome.diagnostics] == ["X0208"]


CONFIG_OF_A_LATER_VERSION = (
    """
theme = "dark"
[models]
default = "small"
"""
    + ENTRY
    + """
sandbox_profile = "tight"
retry_policy = "none"
event_filter = { kinds = ["turn."], sampling = 0.5 }
"""
)


@shows("roder-config-05")
def test_keys_of_a_later_version_are_warnings(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(HEAD + TOOL + SINK)
    config = tmp_path / "config.toml"
    config.write_text(CONFIG_OF_A_LATER_VERSION)
    outcome = find_extensions(read_config(config))
    (spec,) = outcome.specs
    assert spec.options["event_filter"] == {"kinds": ["turn."]}
    keys = (
        *("theme", "models", "[0].sandbox_profile", "[0].retry_policy"),
        "[0].event_filter.sampling",
    )
    messages = [diagnostic.message for diagnostic in outcome.diagnostics]
    assert [key for key in keys if not any(f"{key}`" in message for message in messages)] == []
    assert [(diagnostic.level, diagnostic.code) for diagnostic in outcome.diagnostics] == [
        ("warning", "X0161")
    ] * 5


@shows("roder-config-05")
@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("exthost.toml", CONFIG_OF_A_LATER_VERSION, "theme"),
        ("config.toml", CONFIG_OF_A_LATER_VERSION + "[audit]\n", "theme"),
        ("config.toml", ENTRY + "enable = true", "process_extensions[0].enable"),
        ("config.toml", 'theme = "dark"\n', "theme"),
        ("config.toml", "[overides.a]\n" + ENTRY, "overides"),
    ],
)
def test_an_unknown_key_that_may_belong_to_exthost_is_a_mistake(
    tmp_path: Path, name: str, text: str, key: str
) -> None:
    """Unknown keys are warnings only in a config of roder: a config.toml that has entries of roder
    and no key of exthost. A key that resembles one of exthost is a mistake there, too."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / name)
    assert (caught.value.code, caught.value.evidence.key) == ("X0102", key)


# -- names that are unique in a host -----------------------------------------------------------


@shows("roder-manifest-07")
@pytest.mark.parametrize(
    ("text", "kind_of_name"),
    [
        (HEAD + SINK.replace("events", "other"), "extension id"),
        (HEAD.replace("demo", "d2") + SINK, "service"),
        (HEAD.replace("demo", "d2") + TOOL.replace('"tools"', '"t2"'), "tool name"),
        (
            HEAD.replace("demo", "d2")
            + 'required_capabilities = ["net"]'
            + SINK.replace("events", "other"),
            "",
        ),
        (HEAD.replace("demo", "d2") + SINK.replace("event_sink", "task_executor"), ""),
    ],
)
def test_a_unique_name_that_another_extension_already_has_is_refused(
    text: str, kind_of_name: str
) -> None:
    first = parse((HEAD + 'required_capabilities = ["net"]' + TOOL + SINK).encode())
    first_spec = Spec(id="first", argv=("x",), unique_names=first.unique_names)
    names = parse(text.encode()).unique_names
    conflict = find_name_conflict(Spec(id="second", argv=("x",), unique_names=names), [first_spec])
    if kind_of_name:
        assert conflict is not None and conflict.code == "X0340"
        assert kind_of_name in conflict.message and "'first'" in conflict.message
    else:
        assert conflict is None
