"""MCP servers in `[mcp_servers.NAME]`, in JSON files of other programs, and in manifests.

Editors and agents list their MCP servers in a JSON file, such as `claude_desktop_config.json`:

    {"mcpServers": {"git": {"command": "mcp-server-git", "args": ["--repository", "."]}}}

exthost reads these files, each in its own form. A server with a `url` instead of a command is a
remote one. A key that means nothing to exthost is reported as a note, not as an error.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from exthost.config import config_from_json, config_from_toml
from exthost.config.discovery.configfile import find_extensions, read_config
from exthost.errors import ConfigError
from exthost.model.spec import HostEnvRef, Limits
from tests.dialects.requirements import shows
from tests.extensions.nexo_tree import config as tree_config
from tests.extensions.nexo_tree import write_plugin


def read_json_config(document: Any, folder: str = "/f") -> Any:
    """Return the config of a JSON file of another program."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return config_from_json(data, "/f/mcp.json", folder)  # the file need not exist


@shows("mcp-config-01")
def test_a_server_in_exthost_toml_can_have_the_shared_keys() -> None:
    config = config_from_toml(
        """
        [defaults.limits]
        call = "9s"
        [mcp_servers.git]
        command = "mcp-server-git"
        args = ["--repository", "."]
        env = { A = "1" }
        cwd = "sub"
        log_level = "debug"
        limits = { handshake = "5s" }
        start = "lazy"
        [mcp_servers.far]
        url = "https://h/mcp"
        headers = { Authorization = "hush" }
        [mcp_servers.off]
        command = "x"
        enabled = false
        [overrides.git.env]
        B = "2"
        """,
        "/f/exthost.toml",
        "/f",
    )
    git, far, off = config.specs
    assert (git.id, git.dialect, git.argv) == (
        "git",
        "mcp",
        ("mcp-server-git", "--repository", "."),
    )
    assert (dict(git.env), git.cwd, git.start) == ({"A": "1", "B": "2"}, "/f/sub", "lazy")
    assert git.limits == Limits(handshake=5, call=9) and git.options == {"log_level": "debug"}
    assert (far.source, far.unrunnable) == ("http", "") and "hush" not in repr(far)
    assert (off.enabled, off.cwd, git.enabled) == (False, "/f", True)


@shows("mcp-config-02")
def test_a_json_file_of_another_program_is_read() -> None:
    config = read_json_config(
        {
            "theme": "dark",
            "mcpServers": {
                "one": {
                    "command": "npx",
                    "args": ["-y", "pkg", 8080],
                    "env": {"PORT": 1, "T": True},
                },
                "two": {"command": "x", "disabled": True, "alwaysAllow": [], "limits": "strange"},
                "three": {"type": "sse", "url": "https://h"},
            },
        }
    )
    one, two, three = config.specs
    assert one.argv == ("npx", "-y", "pkg", "8080") and one.env == {"PORT": "1", "T": "true"}
    assert (one.dialect, one.cwd, one.origin) == ("mcp", "/f", "/f/mcp.json")
    assert not two.enabled and three.argv == ("https://h", "--transport", "sse")
    keys_with_notes = [note.split(":")[0] for note in config.notes]
    assert keys_with_notes == ["theme", "two.alwaysAllow", "two.limits"]


@shows("mcp-config-02")
def test_json_with_comments_and_nulls_of_other_programs_is_read() -> None:
    config = read_json_config(
        b"""// mine
        {"mcpServers": { /* two
          of them */
          "one": {"command": "x", "args": null, "cwd": null, "disabled": null,
                  "env": {"URL": "http://h//p", "GONE": null},},
          "two": {"serverUrl": "https://h"},
          "three": {"httpUrl": "https://h", "command": null},
        }}"""
    )
    one, two, three = config.specs
    assert (one.argv, one.cwd, one.enabled) == (("x",), "/f", True)
    assert one.env == {"URL": "http://h//p"} and config.notes == ()
    assert two.argv == three.argv == ("https://h",) and two.source == three.source == "http"


@shows("mcp-config-02")
def test_references_to_variables_are_read_and_other_placeholders_are_noted() -> None:
    env = {"KEY": "${KEY}", "B": "${env:OTHER}", "C": "x${KEY}", "D": "$Key", "E": "${A:-b}"}
    server = {"command": "${HOME}/x", "args": ["a", "${workspaceFolder}"], "env": env}
    far = {"url": "https://h/${ID}", "headers": {"A": "${T}", "B": "${A} b"}}
    config = read_json_config({"mcpServers": {"s": server, "far": far}})
    server_env = config.specs[0].env
    assert dict(server_env) == {**env, "KEY": "KEY", "B": "OTHER", "E": "b"}
    # A HostEnvRef is the name of a variable of the host, whose value is looked up at each start.
    references = [name for name, value in server_env.items() if isinstance(value, HostEnvRef)]
    assert references == ["KEY", "B"]
    assert [note.split(": ") for note in config.notes] == [
        ["s.command", "${HOME} is not filled in here"],
        ["s.env.C", "${KEY} is not filled in here"],
        ["far.url", "${ID} is not filled in here"],
        ["far.headers.B", "${A} is not filled in here"],
    ]
    headers = config.specs[1].env.values()
    assert [isinstance(value, HostEnvRef) for value in headers] == [False, True]


def test_a_server_without_command_and_url_is_left_out_with_a_note() -> None:
    servers = {"own": {"source": "extension", "settings": {}}, "a": {"command": "x"}}
    config = read_json_config({"context_servers": servers})
    assert [spec.id for spec in config.specs] == ["a"]
    assert "own: has neither command nor url, and is ignored" in config.notes


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(60, 60.0), (30_000, 30.0), (3600, 3600.0), (1_800_000, 1800.0)]
)
def test_a_timeout_in_seconds_or_milliseconds_is_the_limit_of_a_call(
    timeout: int, seconds: float
) -> None:
    """Some programs count in seconds and others in milliseconds: a large number is the latter."""
    (spec,) = read_json_config({"mcpServers": {"a": {"command": "x", "timeout": timeout}}}).specs
    assert spec.limits.call == seconds


def test_a_timeout_of_400_digits_is_a_problem_of_the_config() -> None:
    with pytest.raises(ConfigError, match="call"):
        read_json_config({"mcpServers": {"a": {"command": "x", "timeout": 10**399}}})


@shows("mcp-config-02")
def test_a_note_is_reported_as_a_diagnostic(tmp_path: Path) -> None:
    path = tmp_path / "claude_desktop_config.json"
    byte_order_mark = "\ufeff"  # some editors write it; it must not matter
    path.write_text(byte_order_mark + '{"mcpServers": {"a": {"command": "x", "icon": "i"}}}')
    configured = find_extensions(read_config(path))
    (diagnostic,) = configured.diagnostics
    assert (diagnostic.level, diagnostic.code) == ("warning", "X0161")
    assert "a.icon" in diagnostic.message
    assert configured.specs[0].cwd == str(tmp_path)


@shows("mcp-config-02")
@pytest.mark.parametrize(
    ("document", "code", "message"),
    [
        (b"{", "X0101", "not valid JSON"),
        (b"\xff", "X0101", "not valid JSON"),
        ('{"mcpServers": {}}'.encode("utf-16"), "X0101", "it is UTF-16 text"),
        (b'"' + b'\\"' * 100_000, "X0101", "not valid JSON"),
        (b"[" * 100_000, "X0101", "nested too deep"),
        ([], "X0160", "has no `mcpServers`"),
        ({"server": {}}, "X0160", "has no `mcpServers`"),
        ({"mcpServers": []}, "X0103", "must be a table by name"),
        ({"mcpServers": {"a": 1}}, "X0103", "must be a table"),
        ({"mcpServers": {"a": {"comand": "x"}}}, "X0102", "comand"),
        ({"mcpServers": {"a": {"command": []}}}, "X0103", "must be text"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "X0103", "must be a list"),
    ],
)
def test_an_unusable_file_is_reported_with_its_reason(
    document: Any, code: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_json_config(document)
    assert caught.value.code == code and message in caught.value.message
    assert "/f/mcp.json" in caught.value.message


@shows("mcp-config-03")
def test_the_servers_of_a_manifest_are_found_with_it(tmp_path: Path) -> None:
    servers = """
[mcp_servers.files]
command = "${EXTENSION_ROOT}/files"
args = ["${EXTENSION_ID}"]
cwd = "data"
log_level = "info"
context_passthrough = true
[mcp_servers.far]
url = "https://h"
"""
    write_plugin(tmp_path / "a", "a", more=servers)
    json_servers = {"s": {"command": "x"}, "off": {"command": "y", "disabled": True}}
    write_plugin(tmp_path / "b", "b")
    (tmp_path / "b" / ".mcp.json").write_text(json.dumps({"mcpServers": json_servers}))
    configured = find_extensions(tree_config(tmp_path))
    assert [spec.id for spec in configured.specs] == ["a", "a.files", "a.far", "b", "b.s"]
    _, files, far, _, server_of_b = configured.specs
    assert files.argv == (f"{tmp_path}/a/files", "a") and files.cwd == f"{tmp_path}/a/data"
    assert files.options == {"log_level": "info", "context_passthrough": True}
    assert (far.source, far.argv) == ("http", ("https://h",))
    assert (server_of_b.dialect, server_of_b.cwd) == ("mcp", f"{tmp_path}/b")
    configured = find_extensions(tree_config(tmp_path, disabled=["a"]))
    assert [spec.id for spec in configured.specs] == ["b", "b.s"]


# The same server in the form of each program.
FORMS = {
    "VS Code": {"servers": {"s": {"type": "stdio", "command": "npx", "args": ["-y", "pkg"]}}},
    "VS Code's settings": {"mcp": {"servers": {"s": {"command": "npx", "args": ["-y", "pkg"]}}}},
    "Zed": {
        "context_servers": {"s": {"source": "custom", "command": "npx", "args": ["-y", "pkg"]}}
    },
    "Zed, older": {"context_servers": {"s": {"command": {"path": "npx", "args": ["-y", "pkg"]}}}},
    "opencode": {"mcp": {"s": {"type": "local", "command": ["npx", "-y", "pkg"]}}},
}


@shows("mcp-config-02")
@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_each_program_is_read(form: str) -> None:
    (spec,) = read_json_config(FORMS[form]).specs
    assert (spec.id, spec.dialect, spec.argv) == ("s", "mcp", ("npx", "-y", "pkg"))
    assert not read_json_config(FORMS[form]).notes


@shows("mcp-config-02")
def test_a_variable_of_gemini_cli_without_braces_is_a_reference() -> None:
    env = {"A": "$MY_KEY", "B": "$ecret", "C": "$A-$B", "D": "$"}
    headers = {"Authorization": "Bearer $MY_TOKEN", "X-Key": "$KEY_2"}
    servers = {"a": {"command": "x", "env": env}, "b": {"httpUrl": "https://h", "headers": headers}}
    local, remote = read_json_config({"mcpServers": servers}).specs
    assert dict(local.env) == {**env, "A": HostEnvRef("MY_KEY")}
    assert isinstance(local.env["A"], HostEnvRef) and not isinstance(local.env["B"], HostEnvRef)
    assert set(remote.env.values()) == {HostEnvRef("MY_TOKEN"), HostEnvRef("KEY_2")}
    assert "EXTHOST_BRIDGE_TOKEN" in remote.env


@shows("mcp-config-02")
def test_the_placeholders_of_opencode_need_no_dollar() -> None:
    local = {
        "type": "local",
        "command": ["x", "{env:LEVEL}", "{env:UNSET}", "{}"],
        "environment": {"KEY": "{env:MY_KEY}", "FILE": "{file:~/key}"},
    }
    headers = {"Authorization": "Bearer {env:TOKEN}"}
    remote = {"type": "remote", "url": "https://h", "headers": headers}
    document = json.dumps({"mcp": {"a": local, "b": remote}}).encode()
    config = config_from_json(document, "/f/opencode.json", "/f", {"LEVEL": "debug"})
    first, second = config.specs
    assert first.argv == ("x", "debug", "${env:UNSET}", "{}")
    assert first.env["KEY"] == HostEnvRef("MY_KEY")
    assert second.env["EXTHOST_BRIDGE_TOKEN"] == HostEnvRef("TOKEN")
    keys_with_notes = [note.split(":")[0] for note in config.notes]
    assert keys_with_notes == ["a.args.1", "a.env.FILE"]


@shows("mcp-config-02")
def test_placeholders_with_known_values_are_replaced() -> None:
    document = {
        "mcpServers": {
            "s": {
                "command": "${userHome}/bin/${NAME:-server}",
                "args": ["--root=${workspaceFolder}", "${env:LEVEL:-info}", "${input:key}"],
                "env": {"TOKEN": "${TOKEN}", "URL": "http://${HOST}:${PORT:-80}${/}x"},
            }
        }
    }
    environ = {"HOME": "/home/me", "LEVEL": "debug", "HOST": "h", "TOKEN": "hush"}
    config = config_from_json(json.dumps(document).encode(), "/f/mcp.json", "/f", environ)
    (spec,) = config.specs
    assert spec.argv == ("/home/me/bin/server", "--root=/f", "debug", "${input:key}")
    assert isinstance(spec.env["TOKEN"], HostEnvRef) and spec.env["TOKEN"] == "TOKEN"
    assert spec.env["URL"] == "http://h:80/x" and "hush" not in repr(config)
    (note,) = config.notes
    assert "${input:key} is not filled in here" in note
