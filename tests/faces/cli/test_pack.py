"""Tests of the errors of `exthost pack`, which writes the bundle of an MCP server."""

from pathlib import Path

from tests.faces.cli.cli_process import run_inside

ENTRY = (
    '[[extensions]]\nname = "{}"\ndialect = "mcp"\nsource = {{ type = "process", command = "x" }}\n'
)


def test_the_advice_for_a_folder_with_several_servers_can_be_followed(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text(ENTRY.format("a") + ENTRY.format("b"))
    result = run_inside("pack", ".", cwd=tmp_path)
    assert result.returncode == 2 and "has several extensions: a, b" in result.stderr
    assert "give it a folder of its own" in result.stderr and "--config" not in result.stderr
