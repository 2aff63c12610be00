"""Tests of `exthost mcp import`, which adds MCP servers from configs of other programs.

Editors and agents have their own config files with MCP servers (`~/.cursor/mcp.json`). The verb
shows the servers that it finds there; with `--write` it adds them to exthost.toml. A secret in such
a file is replaced by a reference to an environment variable (`{ from = "TOKEN" }`), and is never
printed. The secrets in these tests contain the word "hush".
"""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.config.discovery.configfile import find_extensions, read_config
from exthost.dialects.mcp.config_files import CONFIG_FILES
from exthost.faces.cli.server_files import find_servers
from exthost.faces.cli.server_import import ImportDecision, Verdict, plan_import
from exthost.model.spec import HostEnvRef
from tests.faces.cli.cli_process import run_inside

# A server as the config of another program describes it.
SERVER = {"command": "npx", "args": ["-y", "pkg"]}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with an empty home folder and an empty project folder."""
    for folder in ("home", "project"):
        (tmp_path / folder).mkdir()
    return tmp_path


def write(path: Path, document: Any) -> Path:
    """Write a text, or a document as JSON; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def environ(machine: Path, **more: str) -> dict[str, str]:
    """Return an environment in which `home` is the home folder."""
    return {"HOME": str(machine / "home"), "PATH": os.environ["PATH"], **more}


def run(machine: Path, *arguments: str, code: int = 0, **more: str) -> Any:
    """Run `exthost mcp import --json` in the project; return its report."""
    project = machine / "project"
    result = run_inside(
        "mcp", "import", *arguments, "--json", cwd=project, env=environ(machine, **more)
    )
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)


def states(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the state of each server by its name."""
    return {server["name"]: server["state"] for server in report["servers"]}


def test_the_config_file_of_each_program_is_found_and_read(machine: Path) -> None:
    home, project = machine / "home", machine / "project"
    settings = home / "settings"
    toml = '[mcp_servers.s]\ncommand = "npx"\nargs = ["-y", "pkg"]\n'
    for config_file in CONFIG_FILES:
        places = {"home": str(home), "settings": str(settings), "project": str(project)}
        path = Path(config_file.path.format_map(places))
        # The settings of VS Code have one table more: {"mcp": {"servers": {…}}}.
        is_nested = path.parts[-3:] == ("Code", "User", "settings.json")
        servers: Any = {"servers": {"s": SERVER}} if is_nested else {"s": SERVER}
        write(path, toml if path.suffix == ".toml" else {"else": 1, config_file.section: servers})
        search = find_servers(environ(machine, XDG_CONFIG_HOME=str(settings)), project)
        (server,) = search.servers
        assert (server.program, server.file) == (config_file.program, path) and not search.problems
        (verdict,) = plan_import(search.servers, (), project)
        assert verdict.state is ImportDecision.NEW and verdict.table["command"] == "npx"
        path.unlink()


def test_servers_are_shown_and_with_the_write_option_added(machine: Path) -> None:
    write(machine / "home/.cursor/mcp.json", {"mcpServers": {"git": SERVER}})
    write(machine / "project/.mcp.json", {"mcpServers": {"here": {"command": "./x"}}})
    config = write(machine / "project/exthost.toml", "# mine\n[defaults.limits]\ncall = '9s'")
    assert states(run(machine)) == {"here": "new", "git": "new"}
    assert config.read_text().startswith("# mine") and "git" not in config.read_text()
    assert states(run(machine, "git", "--write")) == {"git": "added"}
    assert states(run(machine, "--write")) == {"here": "added", "git": "present"}
    text = config.read_text()
    assert text.startswith("# mine\n[defaults.limits]\ncall = '9s'\n")
    specs = {spec.id: spec for spec in find_extensions(read_config(config)).specs}
    assert specs["git"].argv == ("npx", "-y", "pkg") and specs["git"].limits.call == 9
    assert set(states(run(machine, "--write")).values()) == {"present"}
    assert config.read_text() == text


def test_relative_paths_of_a_server_stay_valid_in_a_config_of_another_folder(
    machine: Path,
) -> None:
    server = {"command": "./x", "cwd": "sub"}
    write(machine / "project/.mcp.json", {"mcpServers": {"a": {"command": "./x"}, "b": server}})
    other = machine / "other.toml"
    run(machine, "--write", "--config", str(other))
    first, second = read_config(other).specs
    assert first.cwd == str(machine / "project") and second.cwd == f"{machine}/project/sub"


def test_an_entry_that_is_not_added_is_reported_with_its_reason(machine: Path) -> None:
    servers = {
        "off": {"command": "x", "disabled": True},
        "out": {"command": "x", "enabled": False},
        "far": {"url": "https://user:hush@h.example/mcp?key=hush", "headers": {"A": "hush"}},
        "me": {"command": "/usr/bin/exthost", "args": ["gateway"]},
        "bad": {"command": "x", "args": "hush"},
        "unset": {"command": "${NOT_SET}/x"},
        "number": 7,
    }
    write(machine / "home/.cursor/mcp.json", {"mcpServers": servers})
    write(machine / "home/.gemini/settings.json", "{hush")
    report = run(machine, "--write")
    assert states(report) == {
        "off": "disabled",
        "out": "disabled",
        "far": "added",
        "me": "itself",
        "bad": "unusable",
        "unset": "unusable",
        "number": "unusable",
    }
    details = {server["name"]: server["detail"] for server in report["servers"]}
    assert "https://h.example" in details["far"] and "${NOT_SET}" in details["unset"]
    written = tomllib.loads((machine / "project/exthost.toml").read_text())["mcp_servers"]
    assert written == {"far": {"url": {"from": "FAR_URL"}, "headers": {"A": {"from": "FAR_A"}}}}
    result = run_inside("mcp", "import", cwd=machine / "project", env=environ(machine))
    assert "settings.json: cannot be read" in result.stderr and "nothing to add" in result.stderr
    assert "hush" not in json.dumps(report) + result.stdout + result.stderr


def test_the_second_server_of_the_same_name_gets_the_name_of_its_program(machine: Path) -> None:
    write(machine / "home/.cursor/mcp.json", {"mcpServers": {"git": SERVER}})
    write(machine / "home/.gemini/settings.json", {"mcpServers": {"git": {"command": "other"}}})
    write(machine / "home/.kiro/settings/mcp.json", {"mcpServers": {"again": SERVER}})
    one, two = ({**SERVER, "env": {"SITE": site}} for site in ("a", "b"))
    write(machine / "home/.lmstudio/mcp.json", {"mcpServers": {"one": one, "two": two}})
    assert states(run(machine)) == {
        "git": "new",
        "git-gemini-cli": "new",
        "again": "duplicate",
        "one": "new",  # the same program for another site
        "two": "new",
    }


def test_servers_with_different_keys_in_their_urls_are_different(machine: Path) -> None:
    def remote(host: str, key: str) -> dict[str, str]:
        return {"url": f"https://{host}.example/s/{key * 20}/mcp"}

    servers = {"one": remote("a", "x"), "two": remote("b", "y"), "again": remote("a", "x")}
    write(
        machine / "home/.cursor/mcp.json", {"mcpServers": {**servers, "bad": {"url": "http://["}}}
    )
    write(machine / "home/.gemini/settings.json", {"mcpServers": {"one": remote("a", "z")}})
    report = run(machine, "--write")
    assert states(report) == {
        "one": "added",
        "two": "added",
        "again": "duplicate",
        "one-gemini-cli": "added",
        "bad": "unusable",
    }
    written = tomllib.loads((machine / "project/exthost.toml").read_text())["mcp_servers"]
    assert written == {
        "one": {"url": {"from": "ONE_URL"}},
        "two": {"url": {"from": "TWO_URL"}},
        "one-gemini-cli": {"url": {"from": "ONE_GEMINI_CLI_URL"}},
    }


def test_claude_code_has_servers_for_each_project_in_one_file(machine: Path) -> None:
    here = {str(machine / "project"): {"mcpServers": {"mine": SERVER}}}
    there = {"/elsewhere": {"mcpServers": {"theirs": SERVER}}}
    document = {"mcpServers": {"all": {"command": "x"}}, "projects": here | there}
    write(machine / "home/.claude.json", document)
    assert states(run(machine)) == {"mine": "new", "all": "new"}


SECRETS = {
    "env": {"GITHUB_TOKEN": "hush-1", "DSN": "postgres://me:hush-2@h/db", "K": "sk-hush34567890"},
    "args": ["--mode", "fast"],
}


def test_secrets_become_references_and_are_copied_only_on_request(machine: Path) -> None:
    with_input = {"command": "x", "env": {"API_KEY": "${input:key}", "A": "${A}", "M": "${M:-m}"}}
    write(machine / "home/.cursor/mcp.json", {"mcpServers": {"s": {"command": "x", **SECRETS}}})
    write(machine / "project/.vscode/mcp.json", {"servers": {"with_input": with_input}})
    report = run(machine, "--write")
    variables = {server["name"]: server["variables"] for server in report["servers"]}
    assert variables == {"with_input": ["API_KEY", "A"], "s": ["GITHUB_TOKEN", "DSN", "K"]}
    config = machine / "project/exthost.toml"
    assert "hush" not in config.read_text() + json.dumps(report)
    spec_with_input, spec = read_config(config).specs
    assert all(isinstance(value, HostEnvRef) for value in spec.env.values())
    assert spec_with_input.env["M"] == "m"
    config.unlink()
    report = run(machine, "--write", "--with-secrets")
    assert "hush" not in json.dumps(report) and "hush-1" in config.read_text()
    assert config.stat().st_mode & 0o077 == 0


# Arguments of servers that have a secret, in every known form.
SECRET_ARGUMENTS = [
    ["--api-key", "hush"],
    ["--token=hush"],
    ["-e", "GITHUB_TOKEN=hush"],
    ["--header", "Authorization: Bearer hush"],
    ["--header=Authorization: Basic hush"],
    ["--header", "X-API-Key: hush"],
    ["postgres://me:hush@host/db"],
    ["https://host/mcp?api_key=hush&mode=x"],
    ["-c", "export API_KEY='hush hush'; run"],
    ["ghp_hush56789012345"],
    ["--key-file=${SOME_SECRET}/hush"],
]


def test_a_server_with_a_secret_among_its_arguments_is_left_to_the_user(machine: Path) -> None:
    for args in SECRET_ARGUMENTS:
        (verdict,) = verdicts(machine, {"command": "x", "args": args}, SOME_SECRET="hush")
        assert verdict.state in (ImportDecision.SECRET, ImportDecision.UNUSABLE)
        assert "hush" not in repr(verdict)


def verdicts(machine: Path, server: Any, **more: str) -> list[Verdict]:
    """Return the decisions about a server in a config of another program."""
    write(machine / "home/.cursor/mcp.json", {"mcpServers": {"s": server}})
    project = machine / "project"
    search = find_servers(environ(machine, **more), project)
    return plan_import(search.servers, (), project)


def test_ordinary_arguments_are_not_secrets(machine: Path) -> None:
    args = ["-y", "@scope/pkg@1.2", "--port=80", "https://host/path?mode=x", "KEY", "--keyboard=us"]
    (verdict,) = verdicts(machine, {"command": "x", "args": args})
    assert (verdict.state, verdict.detail) == (ImportDecision.NEW, " ".join(["x", *args]))


def test_a_file_can_be_named_and_an_unknown_name_is_an_error(machine: Path) -> None:
    file = write(machine / "any.json", {"mcpServers": {"git": SERVER}})
    assert states(run(machine, "--from", str(file), "--write")) == {"git": "added"}
    (spec,) = read_config(machine / "project/exthost.toml").specs
    assert spec.cwd == str(machine)
    report = run(machine, "gti", "--from", str(file), code=2)
    assert report["error"]["code"] == "X1490" and "'git'" in report["error"]["help"]
    result = run_inside("mcp", "import", "--from", "no.json", cwd=machine / "project")
    assert "no.json: there is no such file" in result.stderr


def test_a_config_that_is_not_toml_is_left_alone(machine: Path) -> None:
    write(machine / "home/.cursor/mcp.json", {"mcpServers": {"git": SERVER}})
    config = write(machine / "project/mcp.json", {"mcpServers": {}})
    report = run(machine, "--write", "--config", "mcp.json", code=2)
    assert report["error"]["code"] == "X1327" and json.loads(config.read_text()) == {
        "mcpServers": {}
    }


def test_the_config_of_codex_is_read(machine: Path) -> None:
    text = """
model = "m"
[mcp_servers.a]
command = "npx"
env = { MODE = "x" }
env_vars = ["TOKEN"]
startup_timeout_sec = 20
tool_timeout_sec = 30.5
enabled_tools = ["x"]
[mcp_servers.far]
url = "https://h"
bearer_token_env_var = "T"
[mcp_servers.off]
command = "x"
enabled = false
"""
    path = write(machine / "home/.codex/config.toml", text)
    config = read_config(path)
    first, far, off = config.specs
    assert (first.limits.handshake, first.limits.call) == (20, 30.5)
    assert dict(first.env) == {"MODE": "x", "TOKEN": "TOKEN"}
    assert isinstance(first.env["TOKEN"], HostEnvRef)
    assert far.source == "http" and not off.enabled
    assert dict(far.env) == {"EXTHOST_BRIDGE_TOKEN": HostEnvRef("T")}
    # Each key that is not imported is reported in a note, which begins with the key.
    assert [note.partition(":")[0] for note in config.notes] == ["model"]
    assert first.tools.allow == ("x",)


def test_settings_that_are_not_imported_are_reported(machine: Path) -> None:
    entry = {**SERVER, "envFile": "no.env", "trust": True}
    write(machine / "project" / ".mcp.json", {"mcpServers": {"a": entry}})
    (server,) = run(machine)["servers"]
    assert server["state"] == "new"
    assert [note.partition(":")[0] for note in server["notes"]] == ["a.envFile", "a.trust"]
    result = run_inside("mcp", "import", cwd=machine / "project", env=environ(machine))
    assert "a.trust: unknown to exthost" in result.stderr


def test_secrets_of_a_remote_server_become_references(machine: Path) -> None:
    headers = {"Authorization": "Bearer ghp_0123456789", "X-Key": "${env:TEAM_KEY}", "Accept": "a"}
    server = {"type": "http", "url": "https://h.example/mcp", "headers": headers}
    token = {"url": "https://t.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    path = machine / "project" / ".mcp.json"
    write(path, {"mcpServers": {"far-off": server, "token": token}})
    run(machine, "--write")
    text = (machine / "project/exthost.toml").read_text()
    assert "ghp_" not in text
    written = tomllib.loads(text)["mcp_servers"]
    assert written["far-off"] == {
        "url": "https://h.example/mcp",
        "type": "http",
        "token": {"from": "FAR_OFF_AUTHORIZATION"},
        "headers": {"X-Key": {"from": "TEAM_KEY"}, "Accept": "a"},
    }
    assert written["token"]["token"] == {"from": "TOKEN"}


@pytest.mark.parametrize(
    "url",
    [
        "https://Example.com/mcp",
        "http://[::1]:8080/mcp",
        "http://example.com:080/mcp",
        "http://example.com:/mcp",
    ],
)
def test_a_url_in_an_unusual_form_has_no_secret(machine: Path, url: str) -> None:
    (verdict,) = verdicts(machine, {"url": url})
    assert (verdict.state, verdict.detail) == (ImportDecision.NEW, url)
    assert (verdict.table["url"], verdict.variables) == (url, ())


def test_a_url_is_shown_without_possible_keys(machine: Path) -> None:
    url = "https://u:p@example.org:8443/mcp/0123456789abcdef0123?key=1#f"
    write(machine / "project" / ".mcp.json", {"mcpServers": {"a": {"url": url}}})
    (server,) = run(machine)["servers"]
    assert server["detail"] == "https://example.org:8443/mcp/***"


@pytest.mark.parametrize(
    ("filters", "tools"),
    [
        ({"includeTools": ["read(path)", "list"]}, {"allow": ["read", "list"]}),
        ({"excludeTools": ["drop"]}, {"deny": ["drop"]}),
        ({"enabled_tools": ["a"], "disabled_tools": ["b"]}, {"allow": ["a"], "deny": ["b"]}),
        ({"disabledTools": ["b"]}, {"deny": ["b"]}),
        ({"available_tools": ["a"]}, {"allow": ["a"]}),
        ({"tools": ["*"]}, None),
        ({"tools": {"a": False, "b": True}}, {"deny": ["a"]}),
        ({"includeTools": "all"}, None),
    ],
)
def test_tool_filters_of_other_programs_become_the_setting_tools(
    machine: Path, filters: dict[str, Any], tools: Any
) -> None:
    write(machine / "home" / ".gemini" / "settings.json", {"mcpServers": {"s": SERVER | filters}})
    run(machine, "--write")
    [spec] = read_config(machine / "project" / "exthost.toml").specs
    entry = {"name": "s", "source": {"type": "process", "command": "x"}, "tools": tools or {}}
    assert spec.tools == spec_from_mapping(entry).tools


@pytest.mark.parametrize(
    "settings",
    [
        {"mcp": {"excluded": ["s"]}},
        {"mcp": {"allowed": ["other"]}},
        {"disabledMcpServers": ["s"]},
        {"disabledMcpjsonServers": ["s"]},
        {"excludeMCPServers": ["s"]},
        {"allowMCPServers": ["other"]},
    ],
)
def test_a_server_that_another_setting_of_the_file_switches_off_is_not_imported(
    machine: Path, settings: dict[str, Any]
) -> None:
    document = {"mcpServers": {"s": SERVER}, **settings}
    write(machine / "home" / ".gemini" / "settings.json", document)
    assert states(run(machine)) == {"s": "disabled"}


@pytest.mark.parametrize("place", [".claude/settings.local.json", "../home/.claude.json"])
def test_a_server_of_the_project_that_claude_code_has_switched_off_is_not_imported(
    machine: Path, place: str
) -> None:
    project = machine / "project"
    write(project / ".mcp.json", {"mcpServers": {"s": SERVER, "t": {"command": "t"}}})
    settings: Any = {"disabledMcpjsonServers": ["s"]}
    if "home" in place:
        settings = {"projects": {str(project): settings}}
    write(project / place, settings)
    assert states(run(machine)) == {"s": "disabled", "t": "new"}
