"""Package runners: options whose value is the next argument, and the packages of pnpm."""

from pathlib import Path

import pytest

from exthost.launch import managers


@pytest.mark.parametrize("options", [managers._UV_VALUES, managers._NPM_VALUES])
def test_every_name_of_an_option_begins_with_a_dash(options: frozenset[str]) -> None:
    assert all(option.startswith("-") and len(option) > 1 for option in options)


def test_the_value_of_an_option_is_not_the_package() -> None:
    arguments = ("--node-options", "quiet", "server")
    _, name = managers._split_options(arguments, managers._NPM_VALUES)
    assert name == "server"


def test_a_program_of_pnpm_needs_the_packages_that_its_links_lead_to(tmp_path: Path) -> None:
    store = tmp_path / "store"
    own = store / "tool@1" / "node_modules"
    other = store / "dependency@2" / "node_modules"
    for folder in (own / "tool", own / "bundled", other / "dependency"):
        folder.mkdir(parents=True)
    (own / "tool" / "cli.js").write_text("")
    (own / "dependency").symlink_to(other / "dependency")
    shim = tmp_path / "tool"
    shim.write_text(f"#!/bin/sh\n# cmd-shim-target={own}/tool/cli.js\n")
    target, *folders = managers.pnpm_packages(str(shim))
    assert target == f"{own}/tool/cli.js"
    assert folders == [str(own), str(other)]
