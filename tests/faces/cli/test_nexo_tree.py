"""Tests of nexo extensions on the command line: discovery, calls, checks and reloads.

A nexo extension is a folder with a manifest `plugin.toml`. The config (here `extensions.yaml`)
names the folders to search. Discovery has many rules, such as the greatest depth and what happens
to two extensions of one id; `@shows` names the rules (`nexo-disc-01`) that a test shows.
"""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.requirements import shows
from tests.extensions.nexo_tree import rewrite, write_plugin, write_yaml
from tests.faces.cli.cli_process import EXTHOST, RUN_SECONDS
from tests.faces.cli.cli_process import run_inside as run

EXAMPLES = Path(__file__).parents[3] / "examples" / "nexo"


def run_json(*arguments: str, code: int = 0, **env: str) -> Any:
    """Run a verb with --json; return the JSON that it prints, which must be all of stdout."""
    result = run(*arguments, "--json", env=os.environ | env)
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)


def run_list(config: Path, *arguments: str, **env: str) -> Any:
    """Return what `exthost list` reports about a config."""
    return run_json("list", "--config", str(config), *arguments, code=0, **env)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with two search paths, which have every kind of extension that the rules of
    discovery distinguish."""
    one, two = tmp_path / "one", tmp_path / "two"
    write_plugin(one / "zebra", "zebra", behaviour={"listed": ["echo", "other"]})
    write_plugin(one / "deep" / "er", "ant")
    # The next three are not found: they are too deep, in a folder that is never searched, and
    # inside another extension.
    write_plugin(one / "too" / "very" / "far" / "down", "far")
    write_plugin(one / "node_modules" / "x", "ignored")
    write_plugin(one / "zebra" / "inner", "nested")
    write_plugin(one / "off", "off")
    write_plugin(one / "off" / "inside", "under_off")
    gated = '[requires]\nbins = ["no-such-program", "sh"]\nenv = ["NO_SUCH_VARIABLE"]'
    write_plugin(one / "gated", "gated", more=gated)
    broken = write_plugin(one / "broken", "broken")
    broken.write_text('[plugin]\nid = "core"\nversion = "1"\ncolour = 1\n')
    (one / "loop").mkdir()
    (one / "loop" / "again").symlink_to(one)
    write_plugin(two / "zebra", "zebra")  # an id that the first search path has, too
    write_plugin(two / "bee", "bee", more='[requires]\nenv = ["BEE_TOKEN"]')
    (two / "bee" / ".mcp.json").write_text("{")
    (tmp_path / "outside").mkdir()
    write_plugin(tmp_path / "outside", "outside")
    (two / "link").symlink_to(tmp_path / "outside")  # a link out of the search path
    return tmp_path


def tree_config(tree: Path, **more: Any) -> Path:
    """Write a config that searches the tree; return its path."""
    paths = ["one", "no-such-root", "two"]
    return write_yaml(tree, search_paths=paths, **{"disabled": ["off"], **more})


# -- list ------------------------------------------------------------------------------------


@shows("nexo-disc-01", "nexo-disc-02", "nexo-disc-04", "nexo-disc-05")
@shows("nexo-disc-06", "nexo-disc-07", "nexo-disc-08", "nexo-disc-10")
def test_the_extensions_their_order_and_the_diagnostics_are_those_of_the_rules(tree: Path) -> None:
    report = run_list(tree_config(tree), BEE_TOKEN="t")
    assert [(item["id"], item["state"]) for item in report["extensions"]] == [
        ("ant", "admitted"),
        ("gated", "refused"),
        ("zebra", "admitted"),
        ("bee", "admitted"),
        ("off", "disabled"),
    ]
    diagnostics = [
        (item["level"], item["code"], os.path.relpath(item["path"], tree), item["line"])
        for item in report["diagnostics"]
    ]
    assert diagnostics == [
        ("error", "X0202", "one/broken/plugin.toml", 2),
        ("warning", "X0204", "no-such-root", 0),
        ("warning", "X0207", "two/bee/.mcp.json", 1),
        ("warning", "X0205", "two/zebra/plugin.toml", 0),
    ]
    assert report["counts"] == {"scanned": 9, "disabled": 1, "invalid": 1}


@shows("nexo-disc-03")
def test_a_link_out_of_the_root_is_an_error_when_links_are_followed(tree: Path) -> None:
    report = run_list(tree_config(tree, follow_links=True))
    errors = [item for item in report["diagnostics"] if item["code"] == "X0203"]
    assert [os.path.relpath(item["path"], tree) for item in errors] == ["two/link"]
    assert [item["id"] for item in report["extensions"]] == ["ant", "gated", "zebra", "bee", "off"]


@shows("nexo-cli-05")
def test_a_disabled_extension_is_listed_and_described_but_not_started(tree: Path) -> None:
    path = str(tree_config(tree))
    (row,) = run_list(tree_config(tree), "--disabled")["extensions"]
    assert (row["id"], row["state"]) == ("off", "disabled") and "disabled" in row["reason"]
    defaults = {"stdio": {"call_timeout_ms": 1500}}
    info = run_json("info", "off", "--config", str(tree_config(tree, transport_defaults=defaults)))
    assert info["state"] == "disabled" and info["path"].endswith("one/off/plugin.toml")
    assert info["limits"]["call"] == 1.5, "the config applies to a disabled extension, too"
    error = run_json("call", "off", "echo", "--config", path, code=2)["error"]
    assert "switched off" in error["message"] and "exthost enable off" in error["help"]
    result = run("list", "--disabled", "--config", str(write_yaml(tree, search_paths=["two"])))
    assert result.returncode == 0 and "none are disabled" in result.stderr


@shows("nexo-disc-14")
def test_paths_are_reported_below_the_root_that_the_config_names(tmp_path: Path) -> None:
    broken = write_plugin(tmp_path / "real" / "broken", "broken")
    broken.write_text('[plugin]\nid = "core"\nversion = "1"\n')
    write_plugin(tmp_path / "real" / "bee", "bee")
    servers = '{\n  "mcpServers": {\n    "s": {}\n  }\n}'
    (tmp_path / "real" / "bee" / ".mcp.json").write_text(servers)
    (tmp_path / "named").symlink_to(tmp_path / "real")
    diagnostics = run_list(write_yaml(tmp_path, search_paths=["named"]), "--all")["diagnostics"]
    places = {(os.path.relpath(item["path"], tmp_path), item["line"]) for item in diagnostics}
    assert ("named/bee/.mcp.json", 3) in places
    assert {path for path, _ in places} == {"named/bee/.mcp.json", "named/broken/plugin.toml"}
    report = run_json("validate", str(tmp_path / "named" / "broken" / "plugin.toml"), code=3)
    assert report["diagnostics"][0]["path"].endswith("named/broken/plugin.toml")


@shows("nexo-cli-06")
def test_validate_checks_the_urls_and_names_of_servers(tmp_path: Path) -> None:
    invalid_tables = {
        "[mcp_servers.s]\nurl = 'ftp://host/x'\n": "mcp_servers.s.url",
        "[mcp_servers.s]\nurl = 'https://'\n": "mcp_servers.s.url",
        "[mcp_servers.'not a name']\ncommand = 'x'\n": "mcp_servers.'not a name'",
        "[mcp_servers.'a.b']\ncommand = 'x'\n": "mcp_servers.'a.b'",
    }
    for n, more in enumerate(invalid_tables):
        write_plugin(tmp_path / f"x{n}", f"x{n}", more=more)
    diagnostics = run_json("validate", str(tmp_path), code=3)["diagnostics"]
    assert [item["key"] for item in diagnostics] == list(invalid_tables.values())


@shows("nexo-cli-06", "nexo-manifest-03")
def test_validate_reports_a_manifest_for_a_later_host(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "x" / "a", "a")
    later = 'min_agent_version = "999.0.0"\nversion ='
    rewrite(path, path.read_text().replace("version =", later, 1))
    config = str(write_yaml(tmp_path, search_paths=["x"]))
    for arguments in (("validate", "--config", config), ("validate", str(tmp_path / "x"))):
        report = run_json(*arguments, code=3)
        assert report["valid"] == []
        assert "999.0.0" in report["diagnostics"][0]["message"]


@shows("nexo-disc-09")
def test_an_allowlist_selects_extensions_and_reports_the_missing_names(tree: Path) -> None:
    report = run_list(tree_config(tree, allowlist=["zebra", "nobody", "off"]))
    assert [item["id"] for item in report["extensions"]] == ["zebra", "off"]
    absent = [item["extension"] for item in report["diagnostics"] if item["code"] == "X0206"]
    assert absent == ["nobody", "off"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_a_warning_and_the_others_are_found(tree: Path) -> None:
    closed = tree / "one" / "closed"
    closed.mkdir(mode=0)
    try:
        report = run_list(tree_config(tree))
    finally:
        closed.chmod(0o755)
    assert str(closed) in [item["path"] for item in report["diagnostics"]]
    assert [item["id"] for item in report["extensions"]] == ["ant", "gated", "zebra", "bee", "off"]


@shows("nexo-gate-01")
def test_an_extension_is_listed_with_all_requirements_that_are_missing(tree: Path) -> None:
    [gated] = [
        extension
        for extension in run_list(tree_config(tree))["extensions"]
        if extension["id"] == "gated"
    ]
    assert "no-such-program" in gated["reason"] and "NO_SUCH_VARIABLE" in gated["reason"]
    # The program sh exists, so it must not be named; the "sh" of "such" does not count.
    assert "sh" not in gated["reason"].replace("such", "")


@shows("nexo-env-04")
def test_a_request_for_a_secret_is_shown_unless_the_config_allows_the_extension(tree: Path) -> None:
    def requested_secrets(path: Path) -> dict[str, list[str]]:
        return {
            extension["id"]: extension["asks_for"] for extension in run_list(path)["extensions"]
        }

    assert requested_secrets(tree_config(tree))["bee"] == ["BEE_TOKEN"]
    assert requested_secrets(tree_config(tree, allowlist=["bee"]))["bee"] == []
    env = os.environ | {"BEE_TOKEN": "t"}
    result = run("list", "--config", str(tree_config(tree)), env=env)
    message = "bee: asks for a secret: BEE_TOKEN; it is given BEE_TOKEN"
    assert message in result.stdout + result.stderr
    [bee] = [
        extension
        for extension in run_list(tree_config(tree), BEE_TOKEN="t")["extensions"]
        if extension["id"] == "bee"
    ]
    assert bee["is_given"] == ["BEE_TOKEN"]


@shows("nexo-manifest-08")
def test_all_mistakes_of_a_manifest_are_reported_with_the_all_option(tree: Path) -> None:
    report = run_list(tree_config(tree), "--all")
    keys = [
        diagnostic["key"] for diagnostic in report["diagnostics"] if diagnostic["level"] == "error"
    ]
    assert keys == ["plugin.id", "plugin.version", "capabilities", "transport", "plugin.colour"]


def test_a_wrong_config_exits_with_3_and_names_the_line(tree: Path) -> None:
    path = tree / "extensions.yaml"
    path.write_text("extensions:\n  search_path: [one]\n")
    error = run_json("list", "--config", str(path), code=3)["error"]
    assert error["evidence"]["line"] == 2 and "search_paths" in error["message"]


# -- tools and calls -------------------------------------------------------------------------


@shows("nexo-call-04", "nexo-hand-05", "nexo-gate-02")
def test_tools_are_shown_by_their_registered_names_and_called(tree: Path) -> None:
    path = str(tree_config(tree))
    report = run_json("tools", "--config", path, BEE_TOKEN="t")
    assert [tool["name"] for tool in report["tools"]] == [
        "ext_ant_echo",
        "ext_zebra_echo",
        "ext_bee_echo",
    ]
    assert run_json("call", "ext_zebra_echo", "a=1", "--config", path) == {"a": 1}
    assert run_json("call", "gated", "echo", "--config", path, code=4)["error"]["code"] == "X0301"
    assert run_json("call", str(tree / "one" / "deep" / "er"), "echo", "a=1") == {"a": 1}


def test_the_python_example_can_be_called() -> None:
    path = str(EXAMPLES / "extensions.yaml")
    call = ("call", "--config", path)
    weather = run_json(*call, "ext_weather_get_weather", "city=Lima")
    assert weather == {"city": "Lima", "sky": "clear", "asked_by": None}
    assert run_json(*call, "get_weather", "town=Lima", code=2)["error"]["code"] == "X1301"


@pytest.mark.more
def test_the_node_example_can_be_called() -> None:
    if shutil.which("node") is None:
        pytest.skip("there is no Node: the Node example is not tested")
    call = ("call", "--config", str(EXAMPLES / "extensions.yaml"))
    assert run_json(*call, "ext_text_count", "text=a b c") == {"words": 3}


def test_the_dialect_of_a_command_is_detected() -> None:
    program = str(EXAMPLES / "extensions" / "weather" / "weather.py")
    result = run("inspect", "--json", "--", "python3", program)
    assert json.loads(result.stdout)["dialect"] == "nexo" and "detected" in result.stderr


@shows("nexo-env-05")
def test_inspect_shows_the_withheld_variables(tree: Path) -> None:
    report = run_json("inspect", "ant", "--config", str(tree_config(tree)), MY_TOKEN="t")
    assert "MY_TOKEN" in report["environment"]["held_back"]
    assert "AGENT_EXTENSION_ID" in report["environment"]["configured"]


# -- validate, info, doctor ------------------------------------------------------------------


@shows("nexo-cli-01")
def test_validate_reports_every_mistake_and_exits_with_3(tree: Path) -> None:
    broken = tree / "one" / "broken"
    for target in (broken, broken / "plugin.toml"):
        report = run_json("validate", str(target), "--all", code=3)
        assert not report["ok"] and len(report["diagnostics"]) == 5
        assert {item["path"] for item in report["diagnostics"]} == {str(broken / "plugin.toml")}
    first = run_json("validate", str(broken), code=3)["diagnostics"]
    assert [(item["key"], item["line"]) for item in first] == [("plugin.id", 2)]
    stderr = run("validate", str(broken), "--all").stderr
    assert f"{broken}/plugin.toml:4: plugin.colour" in stderr


@shows("nexo-cli-01")
def test_validate_accepts_a_correct_config(tree: Path) -> None:
    report = run_json("validate", str(tree / "two" / "zebra"))
    assert report["ok"] and [item["id"] for item in report["valid"]] == ["zebra"]
    assert run_json("validate", "--config", str(tree_config(tree)), code=3)["ok"] is False
    assert run_json("validate", str(tree / "no-such"), code=2)["error"]["kind"] == "NotFound"
    assert run_json("validate", str(tree / "one" / "loop"), code=2)["error"]["kind"] == "NotFound"


@shows("nexo-cli-02")
def test_info_shows_the_manifest_and_the_settings_of_an_extension(tree: Path) -> None:
    info = run_json("info", "bee", "--config", str(tree_config(tree)), BEE_TOKEN="t", OTHER_KEY="k")
    assert (info["id"], info["version"], info["state"]) == ("bee", "1.0.0", "admitted")
    assert info["tools"] == [{"name": "ext_bee_echo", "tool": "echo"}]
    assert info["secrets"] == ["BEE_TOKEN"] and info["requires"]["env"] == ["BEE_TOKEN"]
    assert "OTHER_KEY" in info["environment"]["held_back"]
    assert "BEE_TOKEN" in info["environment"]["passed"]
    assert info["limits"]["handshake"] == 10 and info["manifest"]["transport"] == "stdio"
    assert "ext_bee_echo" in run("info", "bee", "--config", str(tree_config(tree))).stdout


def test_info_leaves_out_empty_fields_and_shows_values_as_json(tree: Path) -> None:
    stdout = run("info", str(tree / "one" / "off")).stdout
    assert "\npriority" in stdout and "requires" not in stdout
    stdout = run("info", str(EXAMPLES.parent / "roder" / "python")).stdout
    assert '{"type": "event_sink", "id": "diary"}' in stdout and "{'" not in stdout


def test_the_error_for_a_config_instead_of_a_manifest_names_the_config_option(
    tmp_path: Path,
) -> None:
    path = tmp_path / "exthost.toml"
    path.write_text("")
    result = run("validate", str(path))
    assert result.returncode == 2 and f"of a config: --config {path}" in result.stderr


def test_info_never_shows_possible_secrets(tree: Path) -> None:
    server = '[mcp_servers.s]\ncommand = "x"\nenv = { A = "hush" }'
    write_plugin(tree / "secretive", "secretive", more=server)
    result = run("info", str(tree / "secretive"), "--json")
    assert "hush" not in result.stdout and json.loads(result.stdout)["manifest"]["mcp_servers"]


@shows("nexo-cli-03", "nexo-env-04", "nexo-env-05")
def test_doctor_reports_each_finding_with_its_fix(tree: Path) -> None:
    report = run_json(
        "doctor", "--config", str(tree_config(tree)), code=3, BEE_TOKEN="t", OTHER_KEY="k"
    )
    assert not report["ok"] and "runtime" not in report
    findings = {
        (finding["extension"], finding["level"]): finding
        for finding in report["findings"]
        if finding["extension"]
    }
    assert "no-such-program" in findings["gated", "error"]["message"]
    assert "asks for a secret: BEE_TOKEN" in findings["bee", "warning"]["message"]
    assert "2 variables held back" in findings["ant", "info"]["message"]
    assert "OTHER_KEY" in findings["ant", "info"]["details"]
    for finding in report["findings"]:
        assert finding["fix"] or finding["level"] == "warning", finding
    assert "fix:" in run("doctor", "--config", str(tree_config(tree))).stdout


def test_list_accepts_the_path_of_a_folder_or_a_manifest(tree: Path) -> None:
    folder = tree / "two"
    assert [item["id"] for item in run_json("list", str(folder))["extensions"]] == ["bee", "zebra"]
    manifest = str(folder / "zebra" / "plugin.toml")
    assert [item["id"] for item in run_json("list", manifest)["extensions"]] == ["zebra"]
    report = run_json("list", str(tree / "one" / "broken"))
    assert report["extensions"] == [] and report["diagnostics"][0]["key"] == "plugin.id"
    rows = run_json("list", "bee", "--config", str(tree_config(tree)), BEE_TOKEN="t")["extensions"]
    assert [item["id"] for item in rows] == ["bee"]
    assert run_json("list", "no-such", code=2)["error"]["kind"] == "NotFound"
    assert run_json("list", "beee", "--config", str(tree_config(tree)), code=2)["error"][
        "help"
    ] == ("did you mean 'bee'?")


def test_doctor_counts_its_findings(tree: Path) -> None:
    env = os.environ | {"BEE_TOKEN": "t", "OTHER_KEY": "k"}
    result = run("doctor", "bee", "--config", str(tree_config(tree)), env=env)
    assert "OTHER_KEY" not in result.stdout and "held back" in result.stdout
    assert "1 extension: 1 warning, 1 info; no problems" in result.stderr
    result = run("doctor", "bee", "--all", "--config", str(tree_config(tree)), env=env)
    assert "  OTHER_KEY\n" in result.stdout


@shows("nexo-context-05")
def test_a_tool_with_an_invalid_schema_is_reported_and_called(tmp_path: Path) -> None:
    tools = [{"name": "odd", "input_schema": {"type": "no such type"}}]
    write_plugin(tmp_path / "x", "x", behaviour={"offer": {"tools": tools}}, tools=("odd",))
    result = run("call", str(tmp_path / "x"), "odd", "a=1", "--json")
    assert json.loads(result.stdout) == {"a": 1}
    assert "warning: " in result.stderr and "odd" in result.stderr


@shows("nexo-gate-02")
def test_the_servers_of_a_refused_extension_are_refused(tmp_path: Path) -> None:
    server = '[mcp_servers.s]\ncommand = "sh"\n'
    requires = '[requires]\nbins = ["no-such-program"]\nenv = ["HOME", "A_TOKEN"]\n'
    write_plugin(tmp_path / "x" / "a", "a", more=server + requires)
    rows = run_list(write_yaml(tmp_path, search_paths=["x"]), A_TOKEN="t")["extensions"]
    assert {row["id"]: (row["state"], row["asks_for"]) for row in rows} == {
        "a": ("refused", ["A_TOKEN"]),
        "a.s": ("refused", []),  # the server does not get the secrets of its extension
    }


@shows("nexo-cli-03", "nexo-env-04")
def test_doctor_reports_a_missing_program_and_does_not_start_remote_extensions(
    tmp_path: Path,
) -> None:
    config = str(write_yaml(tmp_path, search_paths=["x"]))
    bee = write_plugin(tmp_path / "x" / "bee", "bee", more='[requires]\nenv = ["BEE_TOKEN"]')
    far = write_plugin(tmp_path / "x" / "far", "far")
    remote_transport = '[transport]\nkind = "nats"\nsubject_prefix = "far"\n'
    rewrite(far, far.read_text().partition("[transport]")[0] + remote_transport)
    report = run_json("doctor", "--config", config, BEE_TOKEN="t")
    assert report["ok"], "an extension on another machine is not a problem"
    report = run_json("doctor", "--runtime", "--config", config, BEE_TOKEN="t")
    assert report["ok"] and [row["id"] for row in report["runtime"]] == ["bee"]
    assert [
        finding["level"] for finding in report["findings"] if finding["extension"] == "far"
    ] == ["info"]
    report = run_json("doctor", "bee", "--config", config, BEE_TOKEN="t")
    assert "asks for a secret: BEE_TOKEN" in str(report["findings"])
    rewrite(bee, bee.read_text().replace("command = ", 'command = "./nowhere" # '))
    report = run_json("doctor", "--config", config, code=5, BEE_TOKEN="t")
    [error] = [finding for finding in report["findings"] if finding["level"] == "error"]
    assert (error["extension"], error["code"]) == ("bee", "X0401")


@shows("nexo-cli-03")
def test_doctor_with_runtime_reports_timings_and_differences_from_the_manifest(
    tmp_path: Path,
) -> None:
    offer = {"tools": ["echo", "extra"], "hooks": ["after_message"]}
    write_plugin(
        tmp_path / "x" / "differs", "differs", behaviour={"offer": offer}, tools=("echo", "gone")
    )
    as_declared = {"offer": {"tools": ["echo"]}, "listed": ["echo"]}
    write_plugin(tmp_path / "x" / "good", "good", behaviour=as_declared)
    config = str(write_yaml(tmp_path, search_paths=["x"]))
    report = run_json("doctor", "--runtime", "--config", config)
    assert report["ok"]
    assert [(item["id"], item["ready"]) for item in report["runtime"]] == [
        ("differs", True),
        ("good", True),
    ]
    assert all(item["timings_ms"]["handshake"] > 0 for item in report["runtime"])
    warnings = [item for item in report["findings"] if item["level"] == "warning"]
    assert {item["extension"] for item in warnings} == {"differs"}
    texts = " ".join(item["message"] for item in warnings)
    assert "gone" in texts and "extra" in texts and "after_message" in texts
    write_plugin(tmp_path / "x" / "bad", "bad", behaviour={"exit": 3})
    report = run_json("doctor", "--runtime", "--config", config, code=5)
    [error] = [item for item in report["findings"] if item["level"] == "error"]
    assert error["extension"] == "bad" and error["code"] == "X0501"
    assert run_json("doctor", "good", "--runtime", "--config", config)["ok"]


@pytest.mark.parametrize("verb", ["info", "validate", "doctor"])
def test_verbs_that_read_only_manifests_accept_no_command(verb: str) -> None:
    result = run(verb, "--", "python3", "x.py")
    assert result.returncode == 2 and "inspect" in result.stderr


# -- run -------------------------------------------------------------------------------------


@pytest.mark.more
@shows("nexo-watch-02", "nexo-watch-03")
def test_run_reports_changed_manifests_and_reloads_them(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "x" / "a", "a")
    watch = {"enabled": True, "debounce_ms": 50, "reload": True}
    config = write_yaml(tmp_path, search_paths=["x"], watch=watch)
    process = subprocess.Popen(
        [*EXTHOST, "run", "--json", "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        _wait_for_event(process.stdout, event="StateChanged", after="ready")
        rewrite(path, path.read_text() + "# changed\n")
        event = _wait_for_event(process.stdout, event="ManifestChanged")
        assert (event["change"], event["note"]) == ("changed", "reloaded")
        rewrite(path, "nonsense")
        assert _wait_for_event(process.stdout, event="ManifestChanged")["change"] == "invalid"
        process.send_signal(signal.SIGTERM)
        assert process.wait(RUN_SECONDS) == 0
    finally:
        process.kill()
        process.wait(RUN_SECONDS)
        process.stdout.close()


@shows("nexo-watch-05")
def test_run_reports_each_change_once(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "x" / "a", "a")
    config = write_yaml(tmp_path, search_paths=["x"], watch={"enabled": True, "debounce_ms": 50})
    process = subprocess.Popen(
        [*EXTHOST, "run", "--config", str(config)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=tmp_path,
        text=True,
    )
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, "")
        assert any("1 of 1 extensions ready" in line for line in lines)
        rewrite(path, "nonsense")
        assert any("manifest invalid" in line for line in lines)
        process.send_signal(signal.SIGTERM)
        assert not [line for line in lines if "manifest invalid" in line]
        assert process.wait(RUN_SECONDS) == 0
    finally:
        process.kill()
        process.wait(RUN_SECONDS)
        process.stderr.close()


def _wait_for_event(lines: Any, **expected: str) -> Any:
    """Return the first event with these members. The time limit of the test bounds the wait."""
    for line in lines:
        event = json.loads(line)
        if all(event.get(key) == value for key, value in expected.items()):
            return event
    raise AssertionError(f"the output ended without {expected}")


@shows("nexo-disc-13")
def test_a_config_that_finds_nothing_names_the_folder_that_was_searched(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "x").mkdir(parents=True)
    config = str(write_yaml(tmp_path, search_paths=["./x"]))
    write_plugin(tmp_path / "x" / "bee", "bee")
    message = f"none were found in {tmp_path}/elsewhere/x"
    for verb in ("list", "tools", "doctor"):
        result = run(verb, "--config", config, cwd=tmp_path / "elsewhere")
        assert result.returncode == 0 and message in result.stderr + result.stdout, verb
