"""What a program must be shown in order to run: it is followed, and nothing is widened in silence.
What a package says of itself leads to nothing but runtimes and its own folder."""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import Refused
from exthost.launch.file_view import ViewRequest, compute_view, runtime_settings, system_view
from exthost.launch.runtimes import installation
from exthost.launch.sandbox.strict import View
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.spec import Package


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
    system = {path.path for path in system_view().visible_paths}
    return {path.path for path in found.visible_paths if path.access == "read"} - system


def sources(found: View) -> dict[str, str]:
    return {path.path: path.source for path in found.visible_paths}


def test_a_program_of_the_system_needs_nothing_more() -> None:
    assert more(view("/bin/sh", "-c", "true")) == set()


def test_the_settings_of_runtimes_belong_to_the_system_and_passwords_do_not(place: Path) -> None:
    for name in ("java-17-openjdk", "java-21-openjdk", "perl", "other"):
        (place / "etc" / name / "management").mkdir(parents=True)
        (place / "etc" / name / "security").mkdir()
    (place / "etc" / "java-21-openjdk" / "management" / "jmxremote.password").write_text("secret")
    found = {os.path.relpath(path, place / "etc") for path in runtime_settings(str(place))}
    assert found == {"java-17-openjdk", "java-21-openjdk/security", "perl"}


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


def test_a_virtual_environment_is_shown_with_its_interpreter_and_its_targets(
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
    (environment / ".env").write_text("TOKEN=secret")
    found = view(str(environment / "bin" / "python"))
    assert more(found) == {
        *(f"{base}/{part}" for part in ("bin", "lib")),
        *(f"{environment}/{part}" for part in ("bin", "lib", "pyvenv.cfg")),
        str(place / "sources"),
    }


def pyenv(root: Path, *versions: str) -> str:
    """The folders of pyenv, with the first version selected; returns the path of a shim."""
    program(root / "libexec" / "pyenv")
    for version in versions:
        program(root / "versions" / version / "bin" / "python3", "\x7fELF\0")
        (root / "versions" / version / "lib").mkdir()
    (root / "version").write_text(f"{versions[0]}\n")
    (root / "sources").mkdir()
    return program(root / "shims" / "python3", "#!/usr/bin/env bash\n")


def test_a_shim_is_shown_with_the_version_that_is_selected(place: Path) -> None:
    root = place / ".pyenv"
    shim = pyenv(root, "3.98.1", "3.99.2", "3.99.10")

    def shown(**request: Any) -> set[str]:
        return {os.path.relpath(path, root) for path in more(view(shim, **request))}

    always = {"libexec", "shims", "version"}
    assert shown() == always | {"versions/3.98.1/bin", "versions/3.98.1/lib"}
    given = {"HOME": "/home/nobody", "PYENV_VERSION": "3.99"}
    newest = always | {"versions/3.99.10/bin", "versions/3.99.10/lib"}
    assert shown(env=given) == newest
    assert shown(env={"PYENV_VERSION": "../../keys"}) == always
    work = place / "work"
    work.mkdir()
    (work / ".python-version").write_text("3.99.10\n")
    own = {os.path.relpath(work, root)}
    assert shown(cwd=str(work), folders=(str(work),)) == newest | own
    assert "versions/3.98.1/bin" in shown(cwd=str(work)), "it cannot read the file there"
    writable = {"granted": (f"{work}:rw",), "cwd": str(work)}
    assert "versions/3.98.1/bin" in shown(**writable), "it could change the file there"


def test_a_package_does_not_select_a_version(package: Path, place: Path) -> None:
    shim = pyenv(place / ".pyenv", "3.98.1", "3.99.2")
    (package / ".python-version").write_text("3.99.2\n")
    env = {"HOME": "/home/nobody", "PATH": f"{place}/.pyenv/shims:/bin", "PYENV_VERSION": "3.99.2"}
    output = Package(root=str(package), argv=("python3",), cwd=str(package), env=env)
    host = {**env, "PYENV_VERSION": ""}
    request = {"command": "python3", "cwd": str(package), "env": env, "host": host}
    shown = more(view(shim, package=replace(output, env={"PYENV_VERSION": "3.99.2"}), **request))
    assert f"{place}/.pyenv/versions/3.98.1/bin" in shown
    assert not any("3.99.2" in path for path in shown)


def test_a_folder_that_is_named_shims_shows_nothing_beside_it(place: Path) -> None:
    shim = program(place / "app" / "shims" / "tool", "#!/usr/bin/env bash\n")
    (place / "app" / "secret").write_text("secret")
    assert more(view(shim)) == {shim}


def test_the_first_line_of_a_script_is_followed(place: Path) -> None:
    interpreter = program(place / "lang" / "bin" / "lang", "\x7fELF\0")
    (place / "lang" / "lib").mkdir()
    for first in (f"#!{interpreter}\n", "#!/usr/bin/env -S lang --fast\n"):
        script = program(place / "ext" / "run", first)
        env = {"HOME": "/home/nobody", "PATH": f"/usr/bin:{place}/lang/bin"}
        lang = {str(place / "lang" / "bin"), str(place / "lang" / "lib")}
        assert more(view(script, env=env)) == {script, *lang}


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


def test_links_in_a_circle_lead_nowhere(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    assert more(view(str(place / "a"))) == set()


def test_grants_are_read_only_unless_marked_rw_and_may_be_nested(place: Path) -> None:
    (place / "data" / "out").mkdir(parents=True)
    found = view("/bin/sh", granted=(str(place / "data"), f"{place}/data/out:rw"))
    assert more(found) == {str(place / "data")} and found.writable == (str(place / "data" / "out"),)
    found = view("/bin/sh", granted=("data", "./data/out:rw"), cwd=str(place))
    assert found.writable == (str(place / "data" / "out"),)


@pytest.mark.parametrize(
    ("entry", "code"),
    [("/", "X0381"), ("/proc/1", "X0381"), ("/sys/../dev", "X0381"), ("/nowhere/at/all", "X0382")],
)
def test_a_grant_that_is_never_allowed_is_refused_by_name(entry: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        view("/bin/sh", granted=(entry,))
    assert caught.value.code == code and entry in caught.value.message


def test_our_own_interpreter_can_be_followed() -> None:
    found = view(sys.executable, env=dict(os.environ))
    prefix = os.path.realpath(sys.base_prefix)
    paths = sources(found)
    assert f"{prefix}/lib" in paths or any(prefix.startswith(f"{path}/") for path in paths)


def test_a_home_is_not_an_installation_and_neither_is_the_root(place: Path) -> None:
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


def test_a_package_can_name_the_operators_grants(package: Path, secret: Path) -> None:
    found = packaged(package, "sh", "run.sh", str(secret), granted=(str(secret),))
    assert more(found) == {str(package), str(secret)}
    assert sources(found)[str(secret)] == "granted"


def test_the_line_to_write_keeps_the_earlier_grants(package: Path, secret: Path) -> None:
    (package.parent / "data").mkdir()
    granted = (f"{package.parent}/data:rw",)
    error = refused(package, "sh", "run.sh", str(secret), granted=granted)
    assert f'filesystem = ["{granted[0]}", "{secret}"]' in error.help


def test_an_argument_that_the_operator_wrote_for_a_package_is_shown_alone(
    package: Path, secret: Path
) -> None:
    output = Package(root=str(package), argv=("sh", "run.sh"), cwd=str(package))
    argv = ("/bin/sh", "run.sh", str(secret))
    found = view(*argv, cwd=str(package), package=output, command="sh")
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
    output = Package(root=str(package), argv=("tool",), cwd=str(package))
    (place / "else" / "etc").mkdir()
    wanted = {str(package), str(place / "else" / "bin"), str(place / "else" / "lib")}
    assert more(view(tool, command="tool", cwd=str(package), env=env, package=output)) == wanted
    output = Package(root=str(package), argv=(tool,), cwd=str(package))
    assert more(view(tool, command=tool, cwd=str(package), env=env, package=output)) == wanted


def test_a_package_cannot_bring_its_own_path(package: Path, place: Path) -> None:
    tool = program(place / "else" / "bin" / "tool")
    env = {"PATH": f"{place}/else/bin"}
    output = Package(root=str(package), argv=("tool",), env=env, cwd=str(package))
    with pytest.raises(Refused) as caught:
        view(tool, command="tool", cwd=str(package), env=env, package=output, host={"PATH": "/bin"})
    assert caught.value.code == "X0390"


def test_the_arguments_of_a_first_line_show_nothing(package: Path, secret: Path) -> None:
    script = program(package / "run", f"#!/usr/bin/env -S sh {package}/run.sh {secret}\n")
    assert more(packaged(package, "./run")) == {str(package)}
    assert more(view(script)) == {script}, "of no program, whoever named it"


def test_the_interpreter_of_a_package_cannot_be_outside(package: Path, place: Path) -> None:
    interpreter = program(place / "else" / "tool", "\x7fELF\0")
    program(package / "run", f"#!{interpreter}\n")
    assert interpreter in refused(package, "./run").message


def test_a_document_is_not_an_interpreter(place: Path, secret: Path) -> None:
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
    output = Package(root=str(package), argv=("sh", "id"), cwd=cwd)
    with pytest.raises(Refused) as caught:
        view("/bin/sh", "id", command="sh", cwd=cwd, package=output)
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
    output = Package(root=tool, argv=(tool,), cwd=str(place / "tools"))
    found = view(tool, command=tool, cwd=str(place / "tools"), package=output)
    assert more(found) == {tool}


# -- managers of packages ------------------------------------------------------------------------


@pytest.fixture
def home(place: Path) -> Path:
    """A home folder in which managers keep what they download, and their secrets."""
    for path in (
        *(".local/share/uv/credentials/credentials.toml", ".local/share/uv/tools/other/pyvenv.cfg"),
        *(".cache/uv/archive-v0/other/x.py", ".npm/_logs/debug.log", ".npmrc"),
        *(".npm/_cacache/index-v5/x", ".npm/_npx/0123456789abcdef/package.json"),
    ):
        file = place / "home" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret")
    return place / "home"


def installed_tool(home: Path, name: str, receipt: str) -> Path:
    tool = home / ".local" / "share" / "uv" / "tools" / name
    venv(tool)
    (tool / "uv-receipt.toml").write_text(receipt)
    return tool


@pytest.fixture
def managers(place: Path) -> str:
    """A folder of the operator's PATH with the programs of managers."""
    for name in ("uv", "uvx", "npx", "npm", "pnpm"):
        program(place / "programs" / name, "\x7fELF\0")
    return str(place / "programs")


def test_uvx_sees_its_pythons_and_the_tool_that_is_named(home: Path, managers: str) -> None:
    data = home / ".local" / "share" / "uv"
    (data / "python" / "cpython-3.99").mkdir(parents=True)
    tool = installed_tool(home, "some-server", 'requirements = [{ name = "some-server" }]')
    env = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    programs = {f"{managers}/uv", f"{managers}/uvx"}
    pythons = {*programs, str(data / "python")}
    whole = {f"{tool}/{part}" for part in ("bin", "lib", "pyvenv.cfg", "uv-receipt.toml")}
    for arguments in (
        ("some-server",),
        ("--offline", "--python", "3.12", "Some_Server@latest", "--option", "other"),
        ("--from", "some-server[cli]==1.0", "run-it"),
        ("--from=some.server", "run-it"),
    ):
        found = view(f"{managers}/uvx", *arguments, command="uvx", env=env)
        assert more(found) == pythons | whole, arguments
        assert found.private_folders == (str(home / ".cache" / "uv"), str(data / "tools"))
    for others in (("another",), ("../credentials",), ("--from", "git+https://x", "a"), ()):
        assert more(view(f"{managers}/uvx", *others, command="uvx", env=env)) == pythons
    (tool / "uv-receipt.toml").write_text('index = "https://me:token@example.org/simple"')
    shown = more(view(f"{managers}/uvx", "some-server", command="uvx", env=env))
    assert f"{tool}/uv-receipt.toml" not in shown and f"{tool}/lib" in shown


def test_npx_sees_the_package_of_an_exact_version_and_no_log(home: Path, managers: str) -> None:
    folder = home / ".npm" / "_npx" / "c98ccc168155bafa"
    (folder / "node_modules").mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    env = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    exact = "@modelcontextprotocol/server-memory@2026.8.31"
    for arguments in (("-y", exact), ("--yes", "--package", exact, "run"), ("-y", "--", exact)):
        found = view(f"{managers}/npx", *arguments, command="npx", env=env)
        parts = {f"{folder}/node_modules", f"{folder}/package.json"}
        assert more(found) == parts | {f"{managers}/npx"}, arguments
        assert found.private_folders == (str(home / ".npm"),)
    for name in (exact.rpartition("@")[0], f"{exact}-other", "x", "../x@1.0.0"):
        found = view(f"{managers}/npx", "-y", name, command="npx", env=env)
        assert more(found) == {f"{managers}/npx"}, name


@pytest.mark.parametrize("name", ["uv", "uvx", "npx", "npm", "pnpm", "python3.99", "node", "pyenv"])
def test_the_file_name_of_a_packages_program_shows_nothing(
    name: str, package: Path, home: Path, managers: str
) -> None:
    (home / ".local" / "lib" / "python3.99").mkdir(parents=True)
    host = {"HOME": str(home), "PATH": f"{managers}:/bin", "PYTHONPATH": str(home)}
    installed_tool(home, "some-server", "")
    for text in ("#!/bin/sh\n", "#!/usr/bin/env -S sh\n"):
        program(package / name, text)
        found = packaged(package, f"./{name}", "some-server", host=host)
        assert more(found) == {str(package)} and found.private_folders == ()
    # The same file, named by the operator by a relative path.
    output = Package(root=str(package), argv=("./run.sh",), cwd=str(package))
    argv, command = (str(package / name), "some-server"), f"./{name}"
    found = view(*argv, command=command, cwd=str(package), package=output, env=host)
    assert more(found) == {str(package)} and found.private_folders == ()


@pytest.mark.parametrize(
    "argv",
    [
        *(("uvx", "some-server"), ("uv", "tool", "run", "some-server"), ("./run",)),
        *(("env", "uvx", "some-server"), ("timeout", "5", "uvx", "some-server")),
    ],
)
def test_a_package_is_shown_no_tool_that_its_command_names(
    argv: tuple[str, ...], package: Path, home: Path, managers: str
) -> None:
    installed_tool(home, "some-server", "")
    (home / ".local" / "share" / "uv" / "python").mkdir()
    program(package / "run", "#!/usr/bin/env -S uv run --script\n")
    host = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    output = Package(root=str(package), argv=argv, cwd=str(package))
    folder = {"./": str(package)}.get(argv[0][:2], managers if "uv" in argv[0] else "/usr/bin")
    path = os.path.normpath(f"{folder}/{argv[0]}")
    found = view(path, *argv[1:], command=argv[0], cwd=str(package), package=output, env=host)
    assert not any(path.startswith(str(home)) for path in more(found)), more(found)


def test_a_manifest_that_the_operator_names_shows_no_tool(home: Path, managers: str) -> None:
    installed_tool(home, "some-server", "")
    env = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    request = {"command": "uvx", "env": env, "is_operators": False}
    found = view(f"{managers}/uvx", "some-server", **request)
    assert not any(path.startswith(str(home)) for path in more(found)), more(found)


@pytest.mark.parametrize("name", ["HOME", "XDG_DATA_HOME", "UV_TOOL_DIR"])
def test_a_variable_of_a_package_does_not_move_a_manager(
    name: str, package: Path, home: Path, managers: str
) -> None:
    installed_tool(home, "some-server", "")
    host = {"HOME": "/home/nobody", "PATH": f"{managers}:/bin"}
    output = Package(root=str(package), argv=("x",), cwd=str(package), env={name: str(home)})
    request: dict[str, Any] = {"env": {**host, name: str(home)}, "host": host, "package": output}
    try:
        found = view(f"{managers}/uvx", "some-server", command="uvx", **request)
    except Refused as error:
        assert error.code == "X0390" and name in error.message
    else:
        assert not any(path.startswith(str(home)) for path in more(found)), more(found)


def test_a_granted_cache_stays_as_it_is(home: Path, managers: str) -> None:
    env = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    for grant in (f"{home}/.npm:rw", f"{home}/.npm", str(home), f"{home}/.npm/_cacache"):
        found = view(f"{managers}/npx", "x", command="npx", env=env, granted=(grant,))
        assert found.private_folders == (), grant


@pytest.mark.parametrize("name", ["PYTHONPATH", "NODE_PATH"])
def test_folders_of_a_variable_are_shown_if_the_variable_is_given(name: str, place: Path) -> None:
    (place / "libraries").mkdir()
    runtime = program(place / "bin" / ("python3" if name == "PYTHONPATH" else "node"), "\x7fELF\0")
    value = {name: str(place / "libraries")}
    assert more(view(runtime, host={**HOST, **value}, env=HOST)) == {runtime}
    given = view(runtime, host={**HOST, **value}, env={**HOST, **value})
    assert more(given) == {runtime, str(place / "libraries")}


def test_python_is_shown_the_users_packages_of_its_own_version(place: Path) -> None:
    for version in ("3.98", "3.99"):
        (place / "home" / ".local" / "lib" / f"python{version}").mkdir(parents=True)
    real = program(place / "bin" / "python3.99", "\x7fELF\0")
    (place / "bin" / "python3").symlink_to("python3.99")
    env = {"HOME": str(place / "home")}
    own = str(place / "home" / ".local" / "lib" / "python3.99")
    assert more(view(str(place / "bin" / "python3"), env=env)) == {real, own}
    assert more(view(str(place / "bin" / "python3"), env={}, host=env)) == {real}
    package = Package(root=str(place / "bin"), argv=("python3",), cwd=str(place / "bin"))
    found = view(str(place / "bin" / "python3"), command="python3", env=env, package=package)
    assert own not in more(found)


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
