"""Which files of a version or package manager (pyenv, volta, uv, npm) a sandboxed program sees.

A manager keeps programs beside credentials, caches and other packages. `managers` therefore lists
the files that one program needs, and the sandbox shows no others. Three kinds of commands:

    a shim      `~/.pyenv/shims/python` is a script of the manager that starts the selected version
    a runner    `uvx tool` or `npx tool@1.2.3` starts a package from the manager's cache
    an installed program, such as a script of pnpm, which starts a file in a store of packages
"""

import json
from pathlib import Path
from typing import Any

import pytest

from exthost.launch import managers
from exthost.launch.managers import Selection


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


def write(path: Path, text: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def find_shim_files(manager_name: str, root: Path, program: str, **selection: Any) -> list[str]:
    """Return the paths that the shim of a program needs of a manager with this root folder.

    The keywords are what selects a version: `variables`, the working `folder`, and `home`.
    """
    (manager,) = (row for row in managers.SHIM_MANAGERS if row.name == manager_name)
    all_of_selection = {"variables": {}, "folder": "", "home": "", **selection}
    return list(manager.find(root, program, Selection(**all_of_selection)))


@pytest.mark.parametrize(
    ("shim", "files", "name"),
    [
        ("shims/python", ["libexec/pyenv"], "pyenv"),
        ("shims/ruby", ["libexec/rbenv"], "rbenv"),
        ("shims/node", ["installs/a"], "asdf, mise"),
        ("bin/node", ["tools/image/a", "tools/user/a"], "volta"),
        ("bin/node", ["tools/image/a"], None),
        ("bin/python", ["libexec/pyenv"], None),
    ],
)
def test_a_shim_manager_is_recognised_by_the_files_beside_its_shims(
    shim: str, files: list[str], name: str | None, tmp_path: Path
) -> None:
    for file in files:
        write(tmp_path / file)
    manager = managers.find_shim_manager(tmp_path / shim)
    assert (manager and manager.name) == name


def test_pyenv_selects_by_its_variable_then_the_folder_then_its_own_file(tmp_path: Path) -> None:
    root, folder = tmp_path / "pyenv", tmp_path / "project"
    for version in ("3.12.4", "3.12.11", "3.11.1", "3.10"):
        (root / "versions" / version).mkdir(parents=True)
    write(root / "versions" / "3.12.99")  # it is not a folder
    write(root / "version", "3.11.1 ../secret\n")

    def selected_versions(**selection: Any) -> list[str]:
        paths = find_shim_files("pyenv", root, "python", **selection)
        return [Path(path).relative_to(root / "versions").parts[0] for path in paths]

    assert find_shim_files("pyenv", root, "python") == [f"{root}/versions/3.11.1/bin/python"]
    assert selected_versions(folder=str(folder)) == ["3.11.1"]
    write(folder / ".python-version", "3.12")  # a prefix selects the newest version with it
    assert selected_versions(folder=str(folder)) == ["3.12.11"]
    assert selected_versions() == ["3.11.1"]
    variables = {"PYENV_VERSION": "3.10:3.12.4:9"}  # 9 is not installed
    assert selected_versions(folder=str(folder), variables=variables) == ["3.10", "3.12.4"]


def test_asdf_selects_by_the_first_file_whose_version_is_installed(tmp_path: Path) -> None:
    root, folder, home = (tmp_path / name for name in ("asdf", "project", "home"))
    node18, node20 = (
        write(root / f"installs/nodejs/{version}/bin/node") for version in ("18", "20")
    )
    plugin = str(root / "plugins" / "nodejs")

    def find_node(**selection: str) -> list[str]:
        return find_shim_files("asdf, mise", root, "node", **selection)

    # The shim reads the files with the selection, too, so they are among the paths it needs.
    home_file = write(home / ".tool-versions", "nodejs 18 20\n")
    places = {"folder": str(folder), "home": str(home)}
    assert find_node(**places) == [home_file, plugin, node18]
    project_file = write(folder / ".tool-versions", "# nodejs 18\nruby 3\nnodejs 20\n")
    assert find_node(**places) == [project_file, plugin, node20]
    assert find_node(home=str(home)) == [home_file, plugin, node18]
    write(folder / ".tool-versions", "nodejs 7\n")  # it is not installed
    assert find_node(**places) == [project_file, home_file, plugin, node18]


@pytest.mark.parametrize(
    ("platform", "version"),
    [
        ({"node": {"runtime": "20.1.0"}}, "20.1.0"),
        ({"node": "18.2.0"}, "18.2.0"),
        ({"node": {"runtime": "../secret"}}, ""),
        ({"node": 20}, ""),
        ({}, ""),
        (["node"], ""),
    ],
)
def test_volta_names_the_version_of_node(platform: Any, version: str, tmp_path: Path) -> None:
    user = tmp_path / "tools" / "user"
    node = [f"{tmp_path}/tools/image/node/{version}/bin/node"] if version else []
    platform_file = write(user / "platform.json", json.dumps(platform))
    assert find_shim_files("volta", tmp_path, "node") == [platform_file, *node]
    tool_file = write(user / "bins" / "tool.json", json.dumps({"platform": platform}))
    assert find_shim_files("volta", tmp_path, "tool") == [tool_file, *node]


def test_volta_names_the_package_of_a_shim(tmp_path: Path) -> None:
    user = tmp_path / "tools" / "user"
    tool_file = write(user / "bins" / "tool.json", json.dumps({"package": "@scope/tool"}))
    assert find_shim_files("volta", tmp_path, "tool") == [
        tool_file,
        f"{user}/packages/@scope/tool.json",
        f"{tmp_path}/tools/image/packages/@scope/tool",
    ]
    write(user / "bins" / "tool.json", json.dumps({"package": "../../secret"}))
    assert find_shim_files("volta", tmp_path, "tool") == [tool_file]


@pytest.mark.parametrize(
    ("receipt", "is_shown"),
    [
        ("", False),
        ('index = "https://example.org/simple"', True),
        ('index = "https://user:password@example.org/simple"', False),
    ],
)
def test_a_receipt_of_uv_is_shown_unless_it_may_have_a_password(
    receipt: str, is_shown: bool, tmp_path: Path
) -> None:
    receipt_file = write(tmp_path / "my-tool" / "uv-receipt.toml", receipt)
    cache_and_tools = ("/cache", str(tmp_path))
    arguments = ["tool", "run", "--from", "My_Tool==1", "run"]
    paths = list(managers._find_for_uv(cache_and_tools, arguments))
    assert paths == [f"{tmp_path}/my-tool", *([receipt_file] if is_shown else [])]


@pytest.mark.parametrize("arguments", [[], ["git+https://example.org/tool"], ["./tool"]])
def test_uv_without_the_name_of_a_package_is_shown_nothing(arguments: list[str]) -> None:
    assert list(managers._find_for_uv(("/cache", "/tools"), arguments)) == []
    assert managers._install_with_uv(arguments) == "", "no command can be suggested either"


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["tool@1.2.3"], 2),
        (["exec", "-p", "a@1.2.3", "--package=@b/c@1.0.0-rc.1", "run"], 2),
        (["-p", "a@1.2.3", "-p", "b@latest", "run"], 0),
        (["tool"], 0),
        (["tool@^1.2.3"], 0),
        ([], 0),
    ],
)
def test_only_packages_of_an_exact_version_are_shown_to_npm(
    arguments: list[str], count: int
) -> None:
    # For another version, npm would ask the registry and could run other files of its cache.
    assert len(list(managers._find_for_npm(("/cache",), arguments))) == count


@pytest.mark.parametrize(
    ("program", "arguments", "command"),
    [
        ("uvx", ["Some_Tool[extra]>=1"], "uv tool install some-tool"),
        ("npx", ["--yes", "tool@1"], "npm install -g tool@1, and name its program as the command"),
        ("npx", ["--yes"], ""),
        ("npm", ["x", "--", "tool"], "npm install -g tool, and name its program as the command"),
        ("pnpm", ["dlx", "tool"], "pnpm add -g tool, and name its program as the command"),
        ("pnpx", ["tool"], "pnpm add -g tool, and name its program as the command"),
        ("pnpx", [], ""),
    ],
)
def test_the_command_that_installs_a_package_names_it(
    program: str, arguments: list[str], command: str
) -> None:
    runner = managers.find_runner(f"/usr/bin/{program}")
    assert runner is not None and runner.install(arguments) == command
    assert managers.find_runner("/usr/bin/other") is None


def test_a_place_is_the_first_one_whose_variable_is_an_absolute_path() -> None:
    place = ("$UV_CACHE_DIR", "$XDG_CACHE_HOME/uv", "~/.cache/uv")
    variables = {"UV_CACHE_DIR": "relative", "XDG_CACHE_HOME": "/caches"}
    assert managers.find_place(place, variables, "/home/a") == "/caches/uv"
    assert managers.find_place(place, {}, "/home/a") == "/home/a/.cache/uv"
    assert managers.find_place(place, {}, "") == ""


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 10_000])
def test_a_file_that_is_not_a_json_object_is_read_as_an_empty_one(
    text: str, tmp_path: Path
) -> None:
    assert managers._read_json(Path(write(tmp_path / "file.json", text))) == {}


def test_the_parts_of_an_installation_are_the_listed_folders_that_exist(tmp_path: Path) -> None:
    for name in ("bin", "erts-2", "erts-1", "layout.v4", "etc"):
        (tmp_path / name).mkdir()
    parts = managers.installation_parts(tmp_path, ("bin", "lib", "erts-*", "layout.v[0-9]"))
    assert [Path(part).name for part in parts] == ["bin", "erts-1", "erts-2", "layout.v4"]


@pytest.mark.parametrize("target", ["/missing/node_modules/tool/cli.js", "{folder}/cli.js"])
def test_a_script_outside_every_package_of_pnpm_needs_nothing(target: str, tmp_path: Path) -> None:
    write(tmp_path / "cli.js")
    target = target.format(folder=tmp_path)
    shim = write(tmp_path / "tool", f"#!/bin/sh\n# cmd-shim-target={target}\n")
    assert list(managers.pnpm_packages(shim)) == []


def test_the_variables_of_places_have_no_dollar_and_no_path() -> None:
    assert {"UV_CACHE_DIR", "XDG_DATA_HOME", "PNPM_HOME"} < set(managers.PLACE_VARIABLES)
    assert all(name.isidentifier() for name in managers.PLACE_VARIABLES)
