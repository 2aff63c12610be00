"""The command of `exthost.connect(["python3", "weather.py"])`: the default id of the extension, and
invalid commands."""

from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import UsageError
from exthost.host.connection import command_id, connection_spec


@pytest.mark.parametrize(
    ("command", "id"),
    [
        ("python3 weather.py", "weather"),
        ("node --enable-source-maps server.mjs notes.db", "server"),
        ("python3 -u weather.py --settings settings.json", "weather"),
        ("mcp-server-sqlite --db-path notes.db", "mcp-server-sqlite"),
        ("mcp-server-git --repository .", "mcp-server-git"),
        ("python3 plain", "plain"),
        ("sh -c true", "sh"),
        ("./run.old", "run"),
        ("sh run.old", "run"),
    ],
)
def test_the_id_is_the_name_of_the_program_not_of_its_data(
    command: str, id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An argument can only be the program if there is such a file.
    for name in ("weather.py", "server.mjs", "notes.db", "settings.json", "plain", "run.old"):
        (tmp_path / name).touch()
    (tmp_path / "run.old").chmod(0o700)  # so that "./run.old" can be executed
    monkeypatch.chdir(tmp_path)
    assert command_id(command.split()) == id


@pytest.mark.parametrize("command", [[], (), [""], ["  ", "ext.py"]])
def test_an_empty_command_is_reported(command: list[str]) -> None:
    with pytest.raises(UsageError, match="the command is empty") as caught:
        connection_spec(command, "mcp", {})
    assert caught.value.code == "X1310"
    assert '["python3", "ext.py"]' in caught.value.help


@pytest.mark.parametrize("command", ["python3 ext.py", ""])
def test_a_string_instead_of_a_list_is_reported(command: Any) -> None:
    with pytest.raises(UsageError, match="not a string"):
        connection_spec(command, "mcp", {})


@pytest.mark.parametrize("command", [None, Path("ext.py"), b"python3 ext.py"])
def test_a_command_that_is_not_a_list_is_reported_by_its_type(command: Any) -> None:
    with pytest.raises(UsageError, match=f"not {type(command).__name__}"):
        connection_spec(command, "mcp", {})


@pytest.mark.parametrize("connect", [exthost.connect, exthost.sync_connect])
def test_connect_refuses_an_empty_command_at_once(connect: Any) -> None:
    with pytest.raises(UsageError, match="the command is empty"):
        connect([])
