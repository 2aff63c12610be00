"""The how-tos about packages and remote servers: their commands are run, their configs read."""

import os
import shlex
import tomllib
from pathlib import Path

from exthost.config.discovery.configfile import read_config
from tests.docs.test_docs import blocks, unpack
from tests.faces.cli.cli_process import run_inside


def test_the_commands_about_packages_do_what_the_page_shows(tmp_path: Path) -> None:
    shown = blocks("docs/howto/packages.md")
    unpack(shown, tmp_path)
    [console] = [block.text for block in shown if block.language == "console"]
    lines = console.splitlines()
    environ = {**os.environ, "EXTHOST_HOME": str(tmp_path / "state")}
    for command, output in zip(lines[::2], lines[1::2], strict=True):
        words = shlex.split(command.removeprefix("$ exthost "))
        done = run_inside(*words, cwd=tmp_path, env=environ)
        assert (done.returncode, done.stdout.strip()) == (0, output), done.stderr
    [entry] = [block.text for block in shown if block.language == "toml"]
    written = tomllib.loads((tmp_path / "exthost.toml").read_text())["extensions"]
    assert tomllib.loads(entry)["extensions"] == written[:1]
    assert [extension["name"] for extension in written] == ["weather", "tide"]


def test_the_config_of_remote_servers_is_one(tmp_path: Path) -> None:
    unpack(blocks("docs/howto/remote-servers.md"), tmp_path)
    docs, search = read_config(tmp_path / "exthost.toml").specs
    assert docs.source == search.source == "http" and not search.enabled
    assert docs.argv[0] == "https://docs.example.org/mcp" and not docs.unrunnable
    assert search.argv[0] == "--url-from" and search.argv[-2:] == ("--transport", "sse")
