"""Files of variables (`.env`), and placeholders such as `${input:api-key}`.

The JSON files of editors have both, and exthost fills them in when it reads such a file. In
exthost.toml a placeholder is a mistake: there a variable of the host is `{ from = "TOKEN" }`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config.discovery.configfile import read_config
from exthost.config.env_file import parse_env_file
from exthost.model.spec import HostEnvRef
from tests.faces.cli.cli_process import run_inside


def test_the_lines_of_a_file_of_variables_are_read() -> None:
    text = "# c\nA=1\nexport B = two words # note\nC='x # y'\nD=\"q\" # note\nE=\nno line\n9=x\n"
    assert parse_env_file(text) == {"A": "1", "B": "two words", "C": "x # y", "D": "q", "E": ""}


def test_an_env_file_and_inputs_are_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_PLACE", "/srv")  # the value of `${input:the-place}`
    (tmp_path / "my.env").write_text("A=file\nB=file\n")
    env = {"A": "own", "KEY": "${input:api-key}"}
    args = ["${input:the-place}", "${input:unknown}"]
    server = {"command": "x", "args": args, "env": env, "envFile": "${workspaceFolder}/my.env"}
    missing = {"command": "x", "envFile": "none.env"}
    path = tmp_path / "mcp.json"
    inputs = [{"id": "api-key", "type": "promptString", "password": True}]
    path.write_text(json.dumps({"inputs": inputs, "servers": {"a": server, "missing": missing}}))
    config = read_config(path)
    spec = config.specs[0]
    assert dict(spec.env) == {"A": "own", "B": "file", "KEY": "KEY"}
    assert isinstance(spec.env["KEY"], HostEnvRef)
    assert spec.argv == ("x", "/srv", "${input:unknown}")
    notes = sorted(note.partition(":")[0] for note in config.notes)
    assert notes == ["a.args.1", "inputs", "missing.envFile"]
    assert "missing.envFile: its file cannot be read, and ignored" in config.notes


PROGRAM = 'type = "process", command = "x"'
SOURCE = f"source = {{ {PROGRAM} }}"
ENV = 'env = { KEY = "a ${env:TOKEN}" }'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f'[[extensions]]\nname = "a"\n{SOURCE}\nenv = {{ KEY = "${{TOKEN}}" }}', "env"),
        (f'[[extensions]]\nname = "a"\nsource = {{ {PROGRAM}, {ENV} }}', "env"),
        ('[mcp_servers.a]\ncommand = "x"\nenv = { KEY = "${TOKEN}" }', "env"),
        ('[mcp_servers.a]\nurl = "https://${TOKEN}/mcp"', "url"),
        ('[mcp_servers.a]\nurl = "https://h"\nheaders = { A = "Bearer ${TOKEN}" }', "headers"),
        ('[defaults.env]\nKEY = "${TOKEN}"', "env"),
        ('[overrides.a.env]\nKEY = "${TOKEN}"', "env"),
    ],
)
def test_a_placeholder_in_exthost_toml_is_an_error_that_shows_the_form(
    tmp_path: Path, text: str, key: str
) -> None:
    path = tmp_path / "exthost.toml"
    path.write_text(text)
    with pytest.raises(exthost.errors.ConfigError) as caught:
        read_config(path)
    assert "${TOKEN} is not replaced" in caught.value.message
    assert '{ from = "TOKEN" }' in caught.value.help and key in caught.value.evidence.key


def test_other_texts_with_braces_are_not_placeholders(tmp_path: Path) -> None:
    path = tmp_path / "exthost.toml"
    env: dict[str, Any] = {"A": "$HOME", "B": "{x}", "C": "${}", "D": "${EXTENSION_ROOT}/x"}
    values = ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items())
    path.write_text(f'[[extensions]]\nname = "a"\n{SOURCE}\nenv = {{ {values} }}\n')
    assert dict(read_config(path).specs[0].env) == env


@pytest.mark.parametrize("verb", ["validate", "doctor"])
def test_a_placeholder_in_a_command_is_a_warning(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "exthost.toml"
    source = 'source = { type = "process", command = "python3", args = ["${TOKEN}"] }'
    path.write_text(f'[[extensions]]\nname = "a"\n{source}\n')
    result = run_inside(verb, "--config", str(path), "--json", cwd=tmp_path)
    assert "${TOKEN} in its command" in result.stdout and "X1818" in result.stdout
    if verb == "validate":  # doctor may find other problems of this machine
        assert result.returncode == 0
