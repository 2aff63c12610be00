"""Tests of `find_excerpt`, which shows the line of a config that has a mistake:

    comand = "······"
    ^^^^^^

The carets are under the mistake. Values are replaced by dots, because they may be secrets, unless
the key is known to have no secret.
"""

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from exthost.errors import ConfigError, Evidence
from exthost.faces.cli.common import print_error
from exthost.faces.cli.excerpt import find_excerpt

MAX_COLUMNS = 160  # longer lines are cut


def excerpt_lines(line: str, key: str, message: str, folder: Path) -> tuple[str, str] | None:
    """Return the line of the excerpt and the line with the caret below it."""
    file = folder / "exthost.toml"
    file.write_text(f"# first\n{line}\n")
    excerpt = find_excerpt(Evidence(path=str(file), line=2, key=key), message)
    if excerpt is None:
        return None
    return excerpt.line, " " * excerpt.start + "^" * excerpt.width


@pytest.mark.parametrize(
    ("line", "key", "message", "excerpt", "caret"),
    [
        ('comand = "s3cret"', "extensions[0].comand", "", 'comand = "······"', "^^^^^^"),
        (
            'env = { KEY = "abc", N = 12 }',
            "extensions[0].env.N",
            "",
            'env = { KEY = "···", N = ·· }',
            "                     ^",
        ),
        ("limits = { call = 10x }", "", "column 21", "limits = { call = 10x }", " " * 20 + "^"),
        ('restart = "always"', "extensions[0].restart", "", 'restart = "always"', "^^^^^^^"),
        ('call = "s3cret"', "extensions[0].env.call", "", 'call = "······"', "^^^^"),
        (
            'env = { call = "s3cret" }, call = 5',
            "",
            "column 1",
            'env = { call = "······" }, call = ·',
            "^",
        ),
        (f'start = "{"x" * 17}"', "start", "", f'start = "{"·" * 17}"', "^^^^^"),
        ("[defalts]", "defalts", "", "[defalts]", " ^^^^^^^"),
        ("  args = [1, 2", "", "(at line 2, column 15)", "  args = [·, ·", "              ^"),
        ("a = 1", "", "(at line 2, column 0)", "a = ·", "^"),
        ('  "token",', "extensions[0].args[1]", "", '  "·····",', "  ^^^^^^^^"),
        ('"comand": "abc"', "mcpServers.time.comand", "", '"comand": "···"', " ^^^^^^"),
    ],
)
def test_the_caret_is_under_the_mistake_and_values_are_dots(
    line: str, key: str, message: str, excerpt: str, caret: str, tmp_path: Path
) -> None:
    assert excerpt_lines(line, key, message, tmp_path) == (excerpt, caret)


def test_control_characters_are_escaped_and_long_lines_cut(tmp_path: Path) -> None:
    excerpt = excerpt_lines("a = \x1b[31m" + "x" * 5000, "a", "", tmp_path)
    assert excerpt is not None
    assert "\x1b" not in excerpt[0] and len(excerpt[0]) <= MAX_COLUMNS


@pytest.mark.parametrize("line", [0, 99])
def test_a_missing_line_or_file_has_no_excerpt(line: int, tmp_path: Path) -> None:
    file = tmp_path / "exthost.toml"
    file.write_text("a = 1\n")
    assert find_excerpt(Evidence(path=str(file), line=line), "") is None
    assert find_excerpt(Evidence(path=str(tmp_path / "none"), line=1), "") is None


def test_values_below_the_header_of_a_private_table_are_hidden(tmp_path: Path) -> None:
    file = tmp_path / "exthost.toml"
    file.write_text('[overrides.x.env]\n# comment\nstart = "s3cret"\n')
    excerpt = find_excerpt(Evidence(path=str(file), line=3, key="start"), "")
    assert excerpt is not None and "s3cret" not in excerpt.line


def test_the_line_of_a_lock_is_shown_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "exthost.lock"
    file.write_text('[extensions.x]\npackage = "sha256:0123abcd"\n')
    excerpt = find_excerpt(Evidence(path=str(file), line=2, key="package"), "")
    assert excerpt is not None and excerpt.line == 'package = "sha256:0123abcd"'


def test_the_caret_is_in_the_column_of_the_mistake(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text("\ufeff設定 = { naem = 1 }\n", "utf-8")
    error = ConfigError(
        "X0101",
        "unknown key",
        evidence=Evidence(path=str(tmp_path / "exthost.toml"), line=1, key="naem"),
    )
    stderr = io.StringIO()
    with redirect_stderr(stderr):
        print_error(error, wants_json=False)
    line, caret = stderr.getvalue().splitlines()[2:4]
    assert line == "    1 | 設定 = { naem = · }"
    assert caret == "      |          ^^^^"
