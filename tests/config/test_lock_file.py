"""The format of `exthost.lock`, and the errors for a file that cannot be used.

The file records what each extension runs and offers, so that a later change is noticed:

    version = 1
    [extensions.weather]
    command = ["python3", "server.py"]
    [extensions.weather.tools.get_forecast]
    description = "Return the forecast."
    schema = "sha256:33…"

It is committed with the project, so the same records must give the same text. A user reviews it, so
characters that an editor does not show are written as escapes.
"""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from exthost.config.discovery.lock_reader import read_lock
from exthost.config.lock_file import LockProblem, format_lock, parse_lock
from exthost.model.lock_record import LockedTool, LockRecord

RECORD = LockRecord(
    dialect="mcp",
    command=("python3", "server.py"),
    package="sha256:00",
    compiled={"linux-x86_64": "sha256:11", "darwin-arm64": "sha256:22"},
    permissions=("filesystem ./data:rw", "network"),
    instructions='one\n"""two"""\\ \u202e\tthree\r\n',
    tools={
        "b.c": LockedTool("Hidden:\u200b\U000e0041", "sha256:33", '{"a": "é"}'),
        "a": LockedTool(),
    },
)


def test_a_lock_is_read_as_it_was_written() -> None:
    records = {"weather": RECORD, "a b": LockRecord(), '"]': LockRecord(dialect="nexo")}
    assert parse_lock(format_lock(records)) == records


def test_the_order_of_records_and_tools_does_not_matter() -> None:
    reversed_record = replace(
        RECORD,
        tools=dict(reversed(list(RECORD.tools.items()))),
        compiled=dict(reversed(list(RECORD.compiled.items()))),
    )
    records = {"b": RECORD, "a": LockRecord()}
    reversed_records = {"a": LockRecord(), "b": reversed_record}
    assert format_lock(records) == format_lock(reversed_records)


def test_characters_that_an_editor_does_not_show_are_written_as_escapes() -> None:
    text = format_lock({"weather": RECORD})
    assert "\\u202E" in text and "\\u200B" in text and "\\U000E0041" in text
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    "description",
    [
        "Title\n=======\nText",
        "<<<<<<< ours\n||||||| base\n======= \n>>>>>>> theirs",
        "Contents\n" + "." * 1000 + " 3",
        'Quotes\n"""\n' + "a.b." * 200 + "\n'\n\\",
    ],
)
def test_a_text_of_an_extension_does_not_make_a_lock_unusable(description: str) -> None:
    """Lines like the markers of a merge conflict, long lines, and quotation marks."""
    records = {"a": LockRecord(instructions=description, tools={"b": LockedTool(description)})}
    assert parse_lock(format_lock(records)) == records


def test_the_text_of_a_lock_does_not_depend_on_the_version_of_python() -> None:
    # Python 3.13 knows the first one, Python 3.14 the second, and no Python the third.
    tools = {"a": LockedTool("\U0002ebf0 \U0001fae9 \u0378 \u00e9 \U0001f600")}
    # If unknown characters were written as escapes, a newer Python would write another text.
    assert "\\" not in format_lock({"a": LockRecord(tools=tools)})


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("version = 1\n<<<<<<< ours\n", "merge conflict", 2),
        ("version = 1\n[extensions.a]\ndialect = 'x'\n=======\n", "merge conflict", 4),
        ("version = 2\n", "newer exthost", 0),
        ("version = true\n", "does not begin", 0),
        ("", "does not begin", 0),
        ("version = 1\n[extensions.a\n", "not valid TOML", 2),
        ("version = 1\nextra = 1\n", "unknown key: extra", 0),
        ("version = 1\n[extensions.a]\nevil = 1\n", "unknown key: extensions.a.evil", 0),
        ("version = 1\n[extensions.a]\ncommand = 'x'\n", "is not a list", 0),
        ("version = 1\n[extensions.a]\ncommand = [1]\n", "is not a list", 0),
        ("version = 1\n[extensions.a]\npackage = 1\n", "is not a text", 0),
        ("version = 1\n[extensions]\na = 1\n", "is not a table", 0),
        ("version = 1\nextensions = 1\n", "is not a table", 0),
        ("version = 1\n[extensions.a.tools]\nb = 1\n", "is not a table", 0),
        ("version = 1\n[extensions.a.tools.b]\nx = 'y'\n", "unknown key", 0),
        ("version = 1\n[extensions.a.tools.b]\nschema = 1\n", "is not a text", 0),
        ("version = 1\na = " + "[" * 5000, "nested too deep", 0),
    ],
)
def test_a_lock_that_is_not_valid_has_a_problem(text: str, message: str, line: int) -> None:
    """The line is 0 if the problem is not known to be on one line."""
    with pytest.raises(LockProblem, match=message) as caught:
        parse_lock(text)
    assert caught.value.line == line


def test_no_error_advises_to_overwrite_the_lock_of_a_newer_exthost() -> None:
    with pytest.raises(LockProblem) as caught:
        parse_lock("version = 2\n")
    assert "install the exthost" in caught.value.help and "exthost lock" not in caught.value.help


def test_reading_the_lock_of_a_folder_without_one_returns_none(tmp_path: Path) -> None:
    assert read_lock(str(tmp_path)) is None


def test_a_lock_whose_folder_cannot_be_searched_is_not_missing(tmp_path: Path) -> None:
    # For root no folder is closed. A name that is too long is another error of the file system.
    with pytest.raises(LockProblem, match="cannot be read: File name too long"):
        read_lock(str(tmp_path / ("x" * 300)))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text(format_lock({}))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "exthost.lock").symlink_to(tmp_path / "outside")
    with pytest.raises(LockProblem, match="leads out of its folder"):
        read_lock(str(folder))


def test_a_link_that_leads_nowhere_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "exthost.lock").symlink_to("nowhere")
    with pytest.raises(LockProblem, match="cannot be read"):
        read_lock(str(tmp_path))


def test_a_lock_must_be_a_regular_file_of_a_sensible_size(tmp_path: Path) -> None:
    path = tmp_path / "exthost.lock"
    os.mkfifo(path)
    with pytest.raises(LockProblem, match="not a regular file"):
        read_lock(str(tmp_path))
    path.unlink()
    path.mkdir()
    with pytest.raises(LockProblem, match="not a regular file"):
        read_lock(str(tmp_path))
    path.rmdir()
    with path.open("wb") as file:
        file.truncate(50_000_000)  # the limit is 16 MiB
    with pytest.raises(LockProblem, match="larger than"):
        read_lock(str(tmp_path))


def test_a_lock_that_is_not_utf_8_has_a_problem_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "exthost.lock").write_bytes(b"version = 1\n# \xff\n")
    with pytest.raises(LockProblem, match="UTF-8") as caught:
        read_lock(str(tmp_path))
    assert caught.value.line == 2


def test_the_error_for_a_lock_without_read_permission_suggests_chmod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exthost.lock").write_text(format_lock({}))

    def refuse_to_open(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    # The tests may run as root, who can read every file.
    monkeypatch.setattr(os, "open", refuse_to_open)
    with pytest.raises(LockProblem, match="cannot be read: Permission denied") as caught:
        read_lock(str(tmp_path))
    assert f"chmod u+r {tmp_path}/exthost.lock" in caught.value.help


def test_a_lock_that_changes_during_each_attempt_to_read_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "exthost.lock"
    path.write_text(format_lock({}))
    real_fstat = os.fstat

    def add_line_before_fstat(fd: int) -> os.stat_result:
        with path.open("a") as file:
            file.write("# one more line\n")
        return real_fstat(fd)

    # The reader calls fstat before and after it reads, to notice a change.
    monkeypatch.setattr(os, "fstat", add_line_before_fstat)
    with pytest.raises(LockProblem, match="changes while it is read"):
        read_lock(str(tmp_path))


@pytest.mark.more
def test_a_lock_of_ten_thousand_tools_is_read() -> None:
    tools = {f"tool_{n}": LockedTool("Does a thing.", f"sha256:{n:064x}") for n in range(10_000)}
    text = format_lock({"many": LockRecord(tools=tools)})
    assert parse_lock(text)["many"].tools == tools
