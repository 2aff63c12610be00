"""The line with a mistake: the caret is under the key, and no value is shown."""

from pathlib import Path

import pytest

from exthost.errors import Evidence
from exthost.faces.cli.excerpt import find_excerpt


def pointed(line: str, key: str, message: str, folder: Path) -> tuple[str, str] | None:
    file = folder / "exthost.toml"
    file.write_text(f"# first\n{line}\n")
    shown = find_excerpt(Evidence(path=str(file), line=2, key=key), message)
    return None if shown is None else (shown.line, " " * shown.start + "^" * shown.width)


@pytest.mark.parametrize(
    ("line", "key", "message", "shown", "caret"),
    [
        ('comand = "s3cret"', "extensions[0].comand", "", 'comand = "······"', "^^^^^^"),
        (
            'env = { KEY = "abc", N = 12 }',
            "extensions[0].env.N",
            "",
            'env = { KEY = "···", N = ·· }',
            "                     ^",
        ),
        ("[defalts]", "defalts", "", "[defalts]", " ^^^^^^^"),
        ("  args = [1, 2", "", "(at line 2, column 15)", "  args = [·, ·", "              ^"),
        ('  "token",', "extensions[0].args[1]", "", '  "·····",', "  ^^^^^^^^"),
        ('"comand": "abc"', "mcpServers.time.comand", "", '"comand": "···"', " ^^^^^^"),
    ],
)
def test_the_caret_is_under_the_place_and_values_are_dots(
    line: str, key: str, message: str, shown: str, caret: str, tmp_path: Path
) -> None:
    assert pointed(line, key, message, tmp_path) == (shown, caret)


def test_control_characters_are_escaped_and_long_lines_cut(tmp_path: Path) -> None:
    shown = pointed("a = \x1b[31m" + "x" * 5000, "a", "", tmp_path)
    assert shown is not None and "\x1b" not in shown[0] and len(shown[0]) <= 160


@pytest.mark.parametrize("line", [0, 99])
def test_a_line_that_is_not_there_has_no_excerpt(line: int, tmp_path: Path) -> None:
    file = tmp_path / "exthost.toml"
    file.write_text("a = 1\n")
    assert find_excerpt(Evidence(path=str(file), line=line), "") is None
    assert find_excerpt(Evidence(path=str(tmp_path / "none"), line=1), "") is None
