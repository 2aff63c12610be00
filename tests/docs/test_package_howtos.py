"""Tests of two how-tos (`docs/howto/`): the commands of the page about packages print the output
that it shows, and its config and that of the page about remote servers are valid."""

import os
import shlex
import tomllib
from pathlib import Path

from exthost.config.discovery.configfile import read_config
from tests.docs.test_docs import read_blocks, write_files
from tests.faces.cli.cli_process import run_inside


def test_the_commands_of_the_page_about_packages_print_the_shown_output(tmp_path: Path) -> None:
    blocks = read_blocks("docs/howto/packages.md")
    write_files(blocks, tmp_path)
    [console] = [block.text for block in blocks if block.language == "console"]
    lines = console.splitlines()
    environ = {**os.environ, "EXTHOST_HOME": str(tmp_path / "state")}
    for command, output in zip(lines[::2], lines[1::2], strict=True):
        arguments = shlex.split(command.removeprefix("$ exthost "))
        result = run_inside(*arguments, cwd=tmp_path, env=environ)
        assert (result.returncode, result.stdout.strip()) == (0, output), result.stderr
    [entry] = [block.text for block in blocks if block.language == "toml"]
    written = tomllib.loads((tmp_path / "exthost.toml").read_text())["extensions"]
    assert tomllib.loads(entry)["extensions"] == written[:1]
    assert [extension["name"] for extension in written] == ["weather", "tide"]


def test_the_config_of_the_page_about_remote_servers_is_valid(tmp_path: Path) -> None:
    write_files(read_blocks("docs/howto/remote-servers.md"), tmp_path)
    docs, search = read_config(tmp_path / "exthost.toml").specs
    assert docs.source == search.source == "http" and not search.enabled
    assert docs.argv[0] == "https://docs.example.org/mcp" and not docs.unrunnable
    assert search.argv[0] == "--url-from" and search.argv[-2:] == ("--transport", "sse")
