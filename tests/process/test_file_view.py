"""What a program must be shown in order to run: it is followed, and nothing is widened in silence.
What a package says of itself leads to nothing but runtimes and its own folder."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import Refused
from exthost.process.file_view import ViewRequest, compute_view, system_view
from exthost.process.runtimes import installation
from exthost.sandbox.strict import View
from exthost.spec import Package


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def program(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def view(*argv: str, **request: Any) -> View:
    env = {"HOME": "/home/nobody", "PATH": "/usr/bin:/bin"}
    return compute_view(
        ViewRequest(extension="x", argv=argv, **{"cwd": "/", "env": env, **request})
    )


def more(found: View) -> set[str]:
    """What is shown read-only beyond what every program is shown."""
    system = {one.path for one in system_view().visible_paths}
    return {one.path for one in found.visible_paths if one.access == "read"} - system


def sources(found: View) -> dict[str, str]:
    return {one.path: one.source for one in found.visible_paths}


def test_a_program_of_the_system_needs_nothing_more() -> None:
    assert more(view("/bin/sh", "-c", "true")) == set()


def test_a_file_that_the_operator_names_is_shown_alone(place: Path) -> None:
    script = program(place / "ext" / "run.sh")
    (place / "ext" / "key").write_text("secret")
    assert more(view("/bin/sh", script)) == {script}
    assert more(view("/bin/sh", "run.sh", cwd=str(place / "ext"))) == {script}
    assert more(view(script)) == {script}
    assert sources(view("/bin/sh", script))[script] == "argument"
    assert "/etc" not in sources(view("/bin/cat", "/etc/hostname"))


def test_a_set_folder_and_a_manifests_are_its_own(place: Path) -> None:
    assert more(view("/bin/sh", folders=(str(place),))) == {str(place)}


def test_a_virtual_environment_is_shown_with_its_interpreter_and_what_it_points_to(
    place: Path,
) -> None:
    base = place / "versions" / "3.99"
    real = program(base / "bin" / "python3.99", "\x7fELF\0")
    (base / "lib").mkdir()
    environment = place / "project" / ".venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(real)
    (environment / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.99\n")
    packages = environment / "lib" / "python3.99" / "site-packages"
    packages.mkdir(parents=True)
    (place / "sources").mkdir()
    (packages / "editable.pth").write_text(f"{place}/sources\nimport os\n/\n")
    found = view(str(environment / "bin" / "python"))
    assert more(found) == {str(base), str(environment), str(place / "sources")}


def test_a_shim_is_shown_with_its_version_managers_root(place: Path) -> None:
    shim = program(place / ".pyenv" / "shims" / "python3", "#!/usr/bin/env bash\n")
    assert more(view(shim)) == {str(place / ".pyenv")}


def test_the_first_line_of_a_script_is_followed(place: Path) -> None:
    interpreter = program(place / "lang" / "bin" / "lang", "\x7fELF\0")
    (place / "lang" / "lib").mkdir()
    for first in (f"#!{interpreter}\n", "#!/usr/bin/env -S lang --fast\n"):
        script = program(place / "ext" / "run", first)
        env = {"HOME": "/home/nobody", "PATH": f"/usr/bin:{place}/lang/bin"}
        assert more(view(script, env=env)) == {script, str(place / "lang")}


def test_a_node_script_is_shown_with_the_packages_above_it(place: Path) -> None:
    script = program(place / "app" / "dist" / "main.mjs", "")
    (place / "app" / "node_modules").mkdir()
    (place / "app" / "package.json").write_text("{}")
    assert more(view("/bin/sh", script)) == {
        script,
        str(place / "app" / "node_modules"),
        str(place / "app" / "package.json"),
    }


@pytest.mark.parametrize(
    "first", ["#!/usr/bin/env node\n", "#!/usr/bin/env -S node --no-warnings\n"]
)
@pytest.mark.parametrize("suffix", [".js", ""])
def test_a_program_of_node_is_shown_with_the_packages_that_were_installed_beside_it(
    place: Path, first: str, suffix: str
) -> None:
    packages = place / "app" / "node_modules"
    script = program(packages / "@scope" / "server" / "dist" / f"index{suffix}", first)
    (packages / "@scope" / "server" / "node_modules").mkdir()
    (packages / ".bin").mkdir()
    link = packages / ".bin" / "server"
    link.symlink_to(os.path.relpath(script, packages / ".bin"))
    (place / "node_modules").mkdir()
    for command in ((str(link),), ("/bin/sh", script)) if suffix else ((str(link),),):
        shown = more(view(*command))
        assert str(packages) in shown  # and so the packages in its own folder
        assert not {str(place), str(place / "app"), str(place / "node_modules")} & shown


def test_a_package_does_not_show_itself_the_packages_of_node_outside(place: Path) -> None:
    script = program(place / "node_modules" / "ext" / "run.js", "#!/usr/bin/env node\n")
    root = str(place / "node_modules" / "ext")
    package = Package(root=root, argv=(script,))
    assert str(place / "node_modules") not in more(view(script, package=package))


def test_links_on_the_way_are_kept(place: Path) -> None:
    program(place / "real" / "run.sh")
    (place / "link").symlink_to("real")
    found = view("/bin/sh", str(place / "link" / "run.sh"))
    assert (str(place / "link"), "real") in found.links and str(
        place / "real" / "run.sh"
    ) in sources(found)


def test_links_in_a_circle_are_no_way(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    assert more(view(str(place / "a"))) == set()


def test_grants_are_read_only_unless_they_say_rw_and_may_lie_in_one_another(place: Path) -> None:
    (place / "data" / "out").mkdir(parents=True)
    found = view("/bin/sh", granted=(str(place / "data"), f"{place}/data/out:rw"))
    assert more(found) == {str(place / "data")} and found.writable == (str(place / "data" / "out"),)
    found = view("/bin/sh", granted=("data", "./data/out:rw"), cwd=str(place))
    assert found.writable == (str(place / "data" / "out"),)


@pytest.mark.parametrize(
    ("entry", "code"),
    [("/", "X0381"), ("/proc/1", "X0381"), ("/sys/../dev", "X0381"), ("/nowhere/at/all", "X0382")],
)
def test_what_is_never_granted_is_refused_by_name(entry: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        view("/bin/sh", granted=(entry,))
    assert caught.value.code == code and entry in caught.value.message


def test_our_own_interpreter_can_be_followed() -> None:
    found = view(sys.executable, env=dict(os.environ))
    prefix = os.path.realpath(sys.base_prefix)
    assert any(prefix == one or prefix.startswith(f"{one}/") for one in sources(found))


def test_a_home_is_no_installation_and_neither_is_the_root(place: Path) -> None:
    for folder in ("bin", "lib", "tool/bin", "tool/lib"):
        (place / folder).mkdir(parents=True)
    assert installation(f"{place}/tool/bin/run", str(place)) == f"{place}/tool"
    assert installation(f"{place}/bin/run", str(place)) == ""
    assert installation("/bin/run", str(place)) == ""
    assert installation(f"{place}/tool/run", str(place)) == ""


# -- what a package says of itself ---------------------------------------------------------------


HOST = {"HOME": "/home/nobody", "PATH": "/usr/bin:/bin"}


def packaged(
    root: Path,
    *argv: str,
    env: Mapping[str, str] = EMPTY_MAPPING,
    host: Mapping[str, str] = HOST,
    granted: tuple[str, ...] = (),
) -> View:
    """The view of an extension whose manifest lies in `root`, and says all of this."""
    command = argv[0]
    return compute_view(
        ViewRequest(
            extension="toy",
            argv=(str(root / command) if "/" in command else f"/bin/{command}", *argv[1:]),
            command=command,
            cwd=str(root),
            env={**host, **env},
            host=host,
            granted=granted,
            package=Package(root=str(root), argv=argv, env=env, cwd=str(root)),
        )
    )


def refused(root: Path, *argv: str, **request: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        packaged(root, *argv, **request)
    assert caught.value.code == "X0390"
    return caught.value


@pytest.fixture
def package(place: Path) -> Path:
    program(place / "package" / "run.sh")
    return place / "package"


@pytest.fixture
def secret(place: Path) -> Path:
    (place / "keys").mkdir(mode=0o700)
    (place / "keys" / "id").write_text("secret")
    return place / "keys" / "id"


def test_a_package_is_shown_its_own_folder_and_the_system(package: Path) -> None:
    for argv in (("sh", "run.sh"), ("./run.sh",), ("/bin/sh", str(package / "run.sh"))):
        found = packaged(package, *argv)
        assert more(found) == {str(package)} and sources(found)[str(package)] == "package"


def test_an_argument_of_a_package_cannot_lead_outside(package: Path, secret: Path) -> None:
    (package / "readme").symlink_to(secret)
    for word in (str(secret), "../keys/id", "readme", "./../package/../keys/id"):
        error = refused(package, "sh", "run.sh", word)
        assert error.evidence.path == str(secret)
        assert f'[overrides.toy.permissions] filesystem = ["{secret}"]' in error.help


def test_what_the_operator_grants_a_package_may_name(package: Path, secret: Path) -> None:
    found = packaged(package, "sh", "run.sh", str(secret), granted=(str(secret),))
    assert more(found) == {str(package), str(secret)}
    assert sources(found)[str(secret)] == "granted"


def test_the_line_to_write_keeps_what_was_granted_before(package: Path, secret: Path) -> None:
    (package.parent / "data").mkdir()
    granted = (f"{package.parent}/data:rw",)
    error = refused(package, "sh", "run.sh", str(secret), granted=granted)
    assert f'filesystem = ["{granted[0]}", "{secret}"]' in error.help


def test_an_argument_that_the_operator_wrote_for_a_package_is_shown_alone(
    package: Path, secret: Path
) -> None:
    said = Package(root=str(package), argv=("sh", "run.sh"), cwd=str(package))
    argv = ("/bin/sh", "run.sh", str(secret))
    found = view(*argv, cwd=str(package), package=said, command="sh")
    assert more(found) == {str(package), str(secret)}


def test_a_program_of_a_package_cannot_be_outside(package: Path, place: Path) -> None:
    elsewhere = program(place / "else" / "bin" / "tool")
    (place / "else" / "lib").mkdir()
    (package / "tool").symlink_to(elsewhere)
    for command in (elsewhere, "../else/bin/tool", "./tool"):
        assert f'["{place}/else"]' in refused(package, command).help


def test_a_program_on_the_operators_path_is_a_runtime(package: Path, place: Path) -> None:
    tool = program(place / "else" / "bin" / "tool")
    (place / "else" / "lib").mkdir()
    env = {"HOME": "/home/nobody", "PATH": f"{place}/else/bin:/bin"}
    said = Package(root=str(package), argv=("tool",), cwd=str(package))
    wanted = {str(package), str(place / "else")}
    assert more(view(tool, command="tool", cwd=str(package), env=env, package=said)) == wanted
    said = Package(root=str(package), argv=(tool,), cwd=str(package))
    assert more(view(tool, command=tool, cwd=str(package), env=env, package=said)) == wanted


def test_a_package_cannot_bring_its_own_path(package: Path, place: Path) -> None:
    tool = program(place / "else" / "bin" / "tool")
    env = {"PATH": f"{place}/else/bin"}
    said = Package(root=str(package), argv=("tool",), env=env, cwd=str(package))
    with pytest.raises(Refused) as caught:
        view(tool, command="tool", cwd=str(package), env=env, package=said, host={"PATH": "/bin"})
    assert caught.value.code == "X0390"


def test_the_arguments_of_a_first_line_show_nothing(package: Path, secret: Path) -> None:
    script = program(package / "run", f"#!/usr/bin/env -S sh {package}/run.sh {secret}\n")
    assert more(packaged(package, "./run")) == {str(package)}
    assert more(view(script)) == {script}, "of no program, whoever named it"


def test_the_interpreter_of_a_package_cannot_be_outside(package: Path, place: Path) -> None:
    interpreter = program(place / "else" / "tool", "\x7fELF\0")
    program(package / "run", f"#!{interpreter}\n")
    assert interpreter in refused(package, "./run").message


def test_a_document_is_no_interpreter(place: Path, secret: Path) -> None:
    script = program(place / "own" / "run", f"#!{secret}\n")
    assert more(view(script)) == {script}


def venv(folder: Path, home: str = "/usr/bin") -> Path:
    """A virtual environment as it lies on disk; returns its packages."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to("/bin/sh")
    (folder / "pyvenv.cfg").write_text(f"home = {home}\n")
    packages = folder / "lib" / "python3.99" / "site-packages"
    packages.mkdir(parents=True)
    return packages


def test_the_pth_files_of_a_package_cannot_lead_outside(package: Path, secret: Path) -> None:
    packages = venv(package / "venv")
    (packages / "inside.pth").write_text(f"{package}\n../..\nimport os\n")
    assert more(packaged(package, "venv/bin/python")) == {str(package)}
    for line in (str(secret.parent), f"../../../../../{secret.parent.name}"):
        (packages / "a.pth").write_text(f"{line}\n")
        assert refused(package, "venv/bin/python").evidence.path == str(secret.parent)


def test_the_home_of_a_packages_environment_cannot_be_outside(package: Path, place: Path) -> None:
    program(place / "else" / "bin" / "python3")
    venv(package / "venv", str(place / "else" / "bin"))
    assert refused(package, "venv/bin/python").evidence.path == f"{place}/else/bin/python3"


def test_a_package_cannot_use_an_environment_of_the_operator(package: Path, place: Path) -> None:
    venv(place / "mine")
    assert more(packaged(package, f"{place}/mine/bin/python")) == {str(package)}


@pytest.mark.parametrize("name", ["PYTHONPATH", "NODE_PATH", "UV_CACHE_DIR", "npm_config_cache"])
def test_a_variable_of_a_package_cannot_lead_outside(
    name: str, package: Path, secret: Path
) -> None:
    for value in (str(secret.parent), f"lib:{secret.parent}", "../keys"):
        error = refused(package, "sh", "run.sh", env={name: value})
        assert error.evidence.path == str(secret.parent) and name in error.message
    assert more(packaged(package, "sh", "run.sh", env={name: str(package)})) == {str(package)}


def test_the_working_folder_of_a_package_cannot_be_outside(package: Path, secret: Path) -> None:
    cwd = str(secret.parent)
    said = Package(root=str(package), argv=("sh", "id"), cwd=cwd)
    with pytest.raises(Refused) as caught:
        view("/bin/sh", "id", command="sh", cwd=cwd, package=said)
    assert caught.value.code == "X0390"


def test_the_folder_around_a_package_is_not_taken_for_its_installation(place: Path) -> None:
    program(place / "around" / "bin" / "run.sh")
    (place / "around" / "lib").mkdir()
    (place / "around" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    package = place / "around" / "bin"
    assert more(packaged(package, "./run.sh")) == {str(package)}
    shims = place / "manager" / "shims"
    program(shims / "run.sh")
    assert more(packaged(shims, "./run.sh")) == {str(shims)}


def test_a_package_in_a_home_folder_does_not_show_the_home(place: Path) -> None:
    script = program(place / "run.sh")
    host = {"HOME": str(place), "PATH": "/bin"}
    error = refused(place, "sh", "run.sh", host=host)
    assert f'filesystem = ["{script}"]' in error.help


def test_a_program_that_is_its_own_package_is_shown_alone(place: Path) -> None:
    tool = program(place / "tools" / "tool")
    said = Package(root=tool, argv=(tool,), cwd=str(place / "tools"))
    found = view(tool, command=tool, cwd=str(place / "tools"), package=said)
    assert more(found) == {tool}


def test_a_link_in_a_folder_that_it_may_write_shows_nothing_outside(place: Path) -> None:
    granted, outside = place / "granted", place / "outside"
    granted.mkdir()
    outside.mkdir()
    (outside / "key").write_text("secret")
    (granted / "key").symlink_to(outside / "key")
    (granted / "folder").symlink_to(outside)
    rights = (f"{granted}:rw",)
    words = ("/bin/cat", f"{granted}/key", f"{granted}/folder/key")
    assert more(view(*words, granted=rights)) == set()
    assert more(view(*words, granted=rights, folders=(f"{granted}/folder",))) == set()
    # What it cannot write, the operator has put there.
    assert more(view(*words, granted=rights, closed=(str(granted),))) == {f"{outside}/key"}
    assert more(view(*words, granted=(str(granted),))) == {str(granted), f"{outside}/key"}


def test_settings_beside_another_program_make_no_environment(place: Path) -> None:
    tool = program(place / "app" / "bin" / "tool")
    packages = place / "app" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (place / "outside").mkdir()
    (packages / "x.pth").write_text(f"{place}/outside\n")
    (place / "app" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert f"{place}/outside" not in more(view(tool))
    python = place / "app" / "bin" / "python3"
    python.symlink_to("/usr/bin/python3")
    assert f"{place}/outside" in more(view(str(python)))
