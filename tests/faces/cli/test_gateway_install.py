"""Tests of `exthost gateway install`, which adds the gateway to the config of an MCP client.

The gateway is the MCP server through which a client, such as an editor, uses all extensions of a
config. The file belongs to another program: comments and other entries in it are kept.
"""

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from exthost.faces.cli.client_configs import ClientConfig
from exthost.faces.cli.gateway import CLIENT_NAMES
from exthost.model.documents import jsonc
from tests.faces.cli.cli_process import run_inside

# The config file of each client in the home folder, and the key of its servers.
FILES = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "claude-code": (".claude.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder, which is also the folder of the config."""
    (tmp_path / "exthost.toml").write_text("")
    return tmp_path


def install(home: Path, *arguments: str) -> Any:
    """Run `exthost gateway install --json`; return its report with the exit code."""
    other_variables = {
        key: value
        for key, value in os.environ.items()
        if key not in ("XDG_CONFIG_HOME", "CODEX_HOME")
    }
    environ = {**other_variables, "HOME": str(home)}
    result = run_inside("gateway", "install", *arguments, "--json", cwd=home, env=environ)
    return json.loads(result.stdout) | {"exit": result.returncode}


def read_config_file(path: Path) -> dict[str, Any]:
    """Return the document in a TOML or JSON file."""
    text = path.read_text()
    document: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else jsonc.loads(text)
    return document


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="the folders of Linux")
@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_the_gateway_is_installed_and_removed(home: Path, client: str) -> None:
    file, section = home / FILES[client][0], FILES[client][1]
    printed = install(home, client, "--print")
    assert printed["exit"] == 0 and not printed["changed"] and not file.exists()
    first = install(home, client)
    assert first["changed"] and first["path"] == str(file)
    entry = read_config_file(file)[section]["exthost"]
    assert entry == first["entry"] == printed["entry"]
    assert entry["args"][-3:] == ["gateway", "--config", str(home / "exthost.toml")]
    assert Path(entry["command"]).is_absolute() and Path(entry["command"]).exists()
    assert not install(home, client)["changed"]
    assert install(home, client, "--remove")["changed"]
    assert "exthost" not in read_config_file(file).get(section, {})
    assert not install(home, client, "--remove")["changed"]


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="the folders of Linux")
def test_comments_stay_and_a_copy_is_kept(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    text = '{\n  // mine\n  "mcpServers": {\n    "a": {"command": "x"}, // one\n  },\n}\n'
    file.write_text(text)
    file.chmod(0o600)
    assert install(home, "cursor")["changed"]
    assert "// mine" in file.read_text() and "// one" in file.read_text()
    copy = file.with_name("mcp.json.before-exthost")
    assert copy.read_text() == text
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(copy.stat().st_mode) == 0o600
    codex = home / ".codex/config.toml"
    codex.parent.mkdir()
    codex.write_text('# mine\nmodel = "m"\n\n[mcp_servers.a] # one\ncommand = "x"\n')
    assert install(home, "codex")["changed"]
    assert codex.read_text().startswith('# mine\nmodel = "m"\n\n[mcp_servers.a] # one\n')


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="the folders of Linux")
def test_another_server_or_an_unreadable_file_stays_as_it_is(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    for text, code in (
        ('{"mcpServers": {"exthost": {"command": "y"}}}', "X1816"),
        ('{"mcpServers": []}', "X1817"),
        ("{broken", "X1817"),
        ("[1]", "X1817"),
    ):
        file.write_text(text)
        assert install(home, "cursor")["error"]["code"] == code
        assert file.read_text() == text
    file.write_text('{"mcpServers": {"exthost": {"command": "y"}}}')
    assert install(home, "cursor", "--name", "tools")["changed"]
    assert set(read_config_file(file)["mcpServers"]) == {"exthost", "tools"}
    assert not install(home, "cursor", "--remove")["changed"]


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="the folders of Linux")
def test_print_says_what_would_happen(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"exthost": {"command": "y"}}}')
    assert install(home, "cursor", "--print")["error"]["code"] == "X1816"
    environ = {**os.environ, "HOME": str(home)}

    def run(*arguments: str) -> str:
        command = ("gateway", "install", "cursor", "--print", *arguments)
        return run_inside(*command, cwd=home, env=environ).stdout.splitlines()[0]

    assert run("--remove") == f"exthost: not there in {file}"
    file.write_text("{}")
    assert run() == f"exthost: would be installed in {file}"
    install(home, "cursor")
    assert run() == f"exthost: there already in {file}"
    assert run("--remove") == f"exthost: would be removed in {file}"


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="the folders of Linux")
def test_line_endings_stay(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_bytes(b'{\r\n  // mine\r\n  "mcpServers": {}\r\n}\r\n')
    assert install(home, "cursor")["changed"]
    assert file.read_bytes().startswith(b"{\r\n  // mine\r\n  ")
    assert file.read_bytes().endswith(b"\r\n}\r\n")
    assert install(home, "cursor", "--remove")["changed"]


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="the folders of Linux")
def test_servers_in_an_inline_table_of_toml_are_edited(home: Path) -> None:
    codex = home / ".codex/config.toml"
    codex.parent.mkdir()
    codex.write_text("mcp_servers = { a = { command = 'x' } } # mine\n")
    report = install(home, "codex")
    assert tomllib.loads(codex.read_text())["mcp_servers"]["exthost"] == report["entry"]
    assert install(home, "codex", "--remove")["changed"]
    assert tomllib.loads(codex.read_text()) == {"mcp_servers": {"a": {"command": "x"}}}


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="the folders of Linux")
def test_the_advice_for_a_file_that_cannot_be_edited_fits_the_file_and_the_edit(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"codex": tomllib.loads, "cursor": json.loads}
    for client, loads in entries.items():
        with monkeypatch.context() as patch:
            patch.setattr(ClientConfig, "_edit", lambda *_: None)
            advice = install(home, client)["error"]["help"].partition("by hand: ")[2]
            assert '"exthost"' in advice and loads(advice)
        assert install(home, client)["changed"]
        with monkeypatch.context() as patch:
            patch.setattr(ClientConfig, "_edit", lambda *_: None)
            removal = install(home, client, "--remove")["error"]["help"]
        assert removal == f"take exthost out of {FILES[client][1]} by hand"
