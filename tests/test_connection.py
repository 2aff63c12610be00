"""The id of an extension that is given only by its command line."""

from pathlib import Path

import pytest

from exthost.connection import command_id


@pytest.mark.parametrize(
    ("words", "id"),
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
def test_a_program_gives_the_name_and_its_data_do_not(
    words: str, id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("weather.py", "server.mjs", "notes.db", "settings.json", "plain", "run.old"):
        (tmp_path / name).touch()
    (tmp_path / "run.old").chmod(0o700)
    monkeypatch.chdir(tmp_path)
    assert command_id(words.split()) == id
