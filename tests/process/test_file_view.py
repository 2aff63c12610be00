"""The view of a sandboxed program: the paths of the file system that it can see.

These are its own files, its runtime (interpreter, libraries, package manager), and what the
operator, the author of the config, grants or names. A package is an extension with a manifest of
its own, which is not trusted: it can add only runtimes and the folder of the package. Otherwise it
is refused, with the setting that would grant the path.
"""

import os
import subprocess
import sys
import tempfile
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
def base_folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def write_program(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def make_view(*argv: str, **request: Any) -> View:
    """Return the view of a command that the operator configured."""
    env = {"HOME": "/home/nobody", "PATH": "/usr/bin:/bin"}
    return compute_view(
        ViewRequest(extension="x", argv=argv, **{"cwd": "/", "env": env, **request})
    )


def extra_paths(view_of_program: View) -> set[str]:
    """Return the read-only paths of a view that not every program sees."""
    system = {path.path for path in system_view().visible_paths}
    return {path.path for path in view_of_program.visible_paths if path.access == "read"} - system


def sources(view_of_program: View) -> dict[str, str]:
    """Return why each path is visible, for example because it is an argument."""
    return {path.path: path.source for path in view_of_program.visible_paths}


def test_a_program_of_the_system_sees_only_the_system() -> None:
    assert extra_paths(make_view("/bin/sh", "-c", "true")) == set()


def test_the_settings_of_runtimes_belong_to_the_system_and_passwords_do_not(
    base_folder: Path,
) -> None:
    for name in ("java-17-openjdk", "java-21-openjdk", "perl", "other"):
        (base_folder / "etc" / name / "management").mkdir(parents=True)
        (base_folder / "etc" / name / "security").mkdir()
    (base_folder / "etc" / "java-21-openjdk" / "management" / "jmxremote.password").write_text(
        "secret"
    )
    program_view = {
        os.path.relpath(path, base_folder / "etc") for path in runtime_settings(str(base_folder))
    }
    assert program_view == {"java-17-openjdk", "java-21-openjdk/security", "perl"}


def test_of_a_named_file_only_the_file_is_shown(base_folder: Path) -> None:
    script = write_program(base_folder / "ext" / "run.sh")
    (base_folder / "ext" / "key").write_text("secret")
    assert extra_paths(make_view("/bin/sh", script)) == {script}
    assert extra_paths(make_view("/bin/sh", "run.sh", cwd=str(base_folder / "ext"))) == {script}
    assert extra_paths(make_view(script)) == {script}
    assert sources(make_view("/bin/sh", script))[script] == "argument"
    assert "/etc" not in sources(make_view("/bin/cat", "/etc/hostname"))


def test_a_configured_folder_is_shown(base_folder: Path) -> None:
    assert extra_paths(make_view("/bin/sh", folders=(str(base_folder),))) == {str(base_folder)}


def test_a_virtual_environment_is_shown_with_its_interpreter_and_its_targets(
    base_folder: Path,
) -> None:
    base = base_folder / "versions" / "3.99"
    real = write_program(base / "bin" / "python3.99", "\x7fELF\0")
    (base / "lib").mkdir()
    environment = base_folder / "project" / ".venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(real)
    (environment / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.99\n")
    packages = environment / "lib" / "python3.99" / "site-packages"
    packages.mkdir(parents=True)
    (base_folder / "sources").mkdir()
    (packages / "editable.pth").write_text(f"{base_folder}/sources\nimport os\n/\n")
    (environment / ".env").write_text("TOKEN=secret")
    program_view = make_view(str(environment / "bin" / "python"))
    assert extra_paths(program_view) == {
        *(f"{base}/{part}" for part in ("bin", "lib")),
        *(f"{environment}/{part}" for part in ("bin", "lib", "pyvenv.cfg")),
        str(base_folder / "sources"),
    }


def make_pyenv(root: Path, *versions: str) -> str:
    """Make the folders of pyenv with the first version selected, and return the path of a shim."""
    write_program(root / "libexec" / "pyenv")
    for version in versions:
        write_program(root / "versions" / version / "bin" / "python3", "\x7fELF\0")
        (root / "versions" / version / "lib").mkdir()
    (root / "version").write_text(f"{versions[0]}\n")
    (root / "sources").mkdir()
    return write_program(root / "shims" / "python3", "#!/usr/bin/env bash\n")


def test_a_shim_is_shown_with_the_version_that_is_selected(base_folder: Path) -> None:
    root = base_folder / ".pyenv"
    shim = make_pyenv(root, "3.98.1", "3.99.2", "3.99.10")

    def shown_paths(**request: Any) -> set[str]:
        return {os.path.relpath(path, root) for path in extra_paths(make_view(shim, **request))}

    always_shown = {"libexec", "shims", "version"}
    assert shown_paths() == always_shown | {"versions/3.98.1/bin", "versions/3.98.1/lib"}
    env_with_version = {"HOME": "/home/nobody", "PYENV_VERSION": "3.99"}
    newest = always_shown | {"versions/3.99.10/bin", "versions/3.99.10/lib"}
    assert shown_paths(env=env_with_version) == newest
    assert shown_paths(env={"PYENV_VERSION": "../../keys"}) == always_shown
    work = base_folder / "work"
    work.mkdir()
    (work / ".python-version").write_text("3.99.10\n")
    own_path = {os.path.relpath(work, root)}
    assert shown_paths(cwd=str(work), folders=(str(work),)) == newest | own_path
    assert "versions/3.98.1/bin" in shown_paths(cwd=str(work)), "the program cannot read the file"
    writable = {"granted": (f"{work}:rw",), "cwd": str(work)}
    assert "versions/3.98.1/bin" in shown_paths(**writable), "the program could change the file"


def test_a_package_does_not_select_a_version(package: Path, base_folder: Path) -> None:
    shim = make_pyenv(base_folder / ".pyenv", "3.98.1", "3.99.2")
    (package / ".python-version").write_text("3.99.2\n")
    env = {
        "HOME": "/home/nobody",
        "PATH": f"{base_folder}/.pyenv/shims:/bin",
        "PYENV_VERSION": "3.99.2",
    }
    package_spec = Package(root=str(package), argv=("python3",), cwd=str(package), env=env)
    host = {**env, "PYENV_VERSION": ""}
    request = {"command": "python3", "cwd": str(package), "env": env, "host": host}
    shown_paths = extra_paths(
        make_view(shim, package=replace(package_spec, env={"PYENV_VERSION": "3.99.2"}), **request)
    )
    assert f"{base_folder}/.pyenv/versions/3.98.1/bin" in shown_paths
    assert not any("3.99.2" in path for path in shown_paths)


def test_the_siblings_of_a_folder_named_shims_are_not_shown(base_folder: Path) -> None:
    shim = write_program(base_folder / "app" / "shims" / "tool", "#!/usr/bin/env bash\n")
    (base_folder / "app" / "secret").write_text("secret")
    assert extra_paths(make_view(shim)) == {shim}


def test_the_first_line_of_a_script_is_followed(base_folder: Path) -> None:
    interpreter = write_program(base_folder / "lang" / "bin" / "lang", "\x7fELF\0")
    (base_folder / "lang" / "lib").mkdir()
    for first_line in (f"#!{interpreter}\n", "#!/usr/bin/env -S lang --fast\n"):
        script = write_program(base_folder / "ext" / "run", first_line)
        env = {"HOME": "/home/nobody", "PATH": f"/usr/bin:{base_folder}/lang/bin"}
        lang = {str(base_folder / "lang" / "bin"), str(base_folder / "lang" / "lib")}
        assert extra_paths(make_view(script, env=env)) == {script, *lang}


def test_a_node_script_is_shown_with_the_packages_above_it(base_folder: Path) -> None:
    script = write_program(base_folder / "app" / "dist" / "main.mjs", "")
    (base_folder / "app" / "node_modules").mkdir()
    (base_folder / "app" / "package.json").write_text("{}")
    assert extra_paths(make_view("/bin/sh", script)) == {
        script,
        str(base_folder / "app" / "node_modules"),
        str(base_folder / "app" / "package.json"),
    }


@pytest.mark.parametrize(
    "first_line", ["#!/usr/bin/env node\n", "#!/usr/bin/env -S node --no-warnings\n"]
)
@pytest.mark.parametrize("suffix", [".js", ""])
def test_a_node_program_is_shown_with_the_packages_installed_with_it(
    base_folder: Path, first_line: str, suffix: str
) -> None:
    packages = base_folder / "app" / "node_modules"
    script = write_program(packages / "@scope" / "server" / "dist" / f"index{suffix}", first_line)
    (packages / "@scope" / "server" / "node_modules").mkdir()
    (packages / ".bin").mkdir()
    link = packages / ".bin" / "server"
    link.symlink_to(os.path.relpath(script, packages / ".bin"))
    (base_folder / "node_modules").mkdir()
    commands: list[tuple[str, ...]] = [(str(link),)]
    if suffix:  # without .js, only its first line shows that it is a program of node
        commands.append(("/bin/sh", script))
    for command in commands:
        shown_paths = extra_paths(make_view(*command))
        assert str(packages) in shown_paths  # this includes the packages in the program's folder
        for folder in (base_folder, base_folder / "app", base_folder / "node_modules"):
            assert str(folder) not in shown_paths


def test_a_package_does_not_see_the_node_packages_around_it(base_folder: Path) -> None:
    script = write_program(base_folder / "node_modules" / "ext" / "run.js", "#!/usr/bin/env node\n")
    root = str(base_folder / "node_modules" / "ext")
    package = Package(root=root, argv=(script,))
    assert str(base_folder / "node_modules") not in extra_paths(make_view(script, package=package))


def test_symbolic_links_of_a_path_are_kept(base_folder: Path) -> None:
    write_program(base_folder / "real" / "run.sh")
    (base_folder / "link").symlink_to("real")
    program_view = make_view("/bin/sh", str(base_folder / "link" / "run.sh"))
    assert (str(base_folder / "link"), "real") in program_view.links
    assert str(base_folder / "real" / "run.sh") in sources(program_view)


def test_links_in_a_circle_show_nothing(base_folder: Path) -> None:
    (base_folder / "a").symlink_to("b")
    (base_folder / "b").symlink_to("a")
    assert extra_paths(make_view(str(base_folder / "a"))) == set()


def test_grants_are_read_only_unless_marked_rw_and_may_be_nested(base_folder: Path) -> None:
    (base_folder / "data" / "out").mkdir(parents=True)
    program_view = make_view(
        "/bin/sh", granted=(str(base_folder / "data"), f"{base_folder}/data/out:rw")
    )
    assert extra_paths(program_view) == {str(base_folder / "data")}
    assert program_view.writable == (str(base_folder / "data" / "out"),)
    program_view = make_view("/bin/sh", granted=("data", "./data/out:rw"), cwd=str(base_folder))
    assert program_view.writable == (str(base_folder / "data" / "out"),)


@pytest.mark.parametrize(
    ("entry", "code"),
    [("/", "X0381"), ("/proc/1", "X0381"), ("/sys/../dev", "X0381"), ("/nowhere/at/all", "X0382")],
)
def test_a_grant_that_is_never_allowed_is_refused_by_name(entry: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        make_view("/bin/sh", granted=(entry,))
    assert caught.value.code == code and entry in caught.value.message


_RESOLVE = """
import os, sys
from exthost.errors import Refused
from exthost.launch.file_view import ViewRequest, resolve_grants
import exthost.process.spawn_errors
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    resolve_grants(ViewRequest(extension="x", argv=("/bin/sh",), cwd="/", granted=(sys.argv[1],)))
except Refused as error:
    print(error.code, error.message)
"""


def test_a_grant_below_a_folder_that_is_closed_to_the_host_names_that_folder() -> None:
    # The folder of a test belongs to root, and other users cannot enter it.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        closed = Path(name, "closed")
        (closed / "inner").mkdir(parents=True)
        closed.chmod(0)
        result = subprocess.run(
            [sys.executable, "-c", _RESOLVE, str(closed / "inner")],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        closed.chmod(0o700)
    assert result.stdout.startswith("X0382") and f"{closed} is closed" in result.stdout, result


def test_the_files_of_this_python_are_found() -> None:
    program_view = make_view(sys.executable, env=dict(os.environ))
    prefix = os.path.realpath(sys.base_prefix)
    paths = sources(program_view)
    assert f"{prefix}/lib" in paths or any(prefix.startswith(f"{path}/") for path in paths)


def test_neither_a_home_folder_nor_the_root_is_an_installation(base_folder: Path) -> None:
    for folder in ("bin", "lib", "tool/bin", "tool/lib"):
        (base_folder / folder).mkdir(parents=True)
    assert installation(f"{base_folder}/tool/bin/run", str(base_folder)) == f"{base_folder}/tool"
    assert installation(f"{base_folder}/bin/run", str(base_folder)) == ""
    assert installation("/bin/run", str(base_folder)) == ""
    assert installation(f"{base_folder}/tool/run", str(base_folder)) == ""


# -- views of packages --------------------------------------------------------------


HOST = {"HOME": "/home/nobody", "PATH": "/usr/bin:/bin"}


def view_of_package(
    root: Path,
    *argv: str,
    env: Mapping[str, str] = EMPTY_MAPPING,
    host: Mapping[str, str] = HOST,
    granted: tuple[str, ...] = (),
) -> View:
    """Return the view of an extension whose manifest is in `root` and has these settings."""
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


def refuse_package(root: Path, *argv: str, **request: Any) -> Refused:
    """Return the error for a package whose files are outside of its folder."""
    with pytest.raises(Refused) as caught:
        view_of_package(root, *argv, **request)
    assert caught.value.code == "X0390"
    return caught.value


@pytest.fixture
def package(base_folder: Path) -> Path:
    write_program(base_folder / "package" / "run.sh")
    return base_folder / "package"


@pytest.fixture
def secret(base_folder: Path) -> Path:
    (base_folder / "keys").mkdir(mode=0o700)
    (base_folder / "keys" / "id").write_text("secret")
    return base_folder / "keys" / "id"


def test_a_package_sees_its_folder_and_the_system(package: Path) -> None:
    for argv in (("sh", "run.sh"), ("./run.sh",), ("/bin/sh", str(package / "run.sh"))):
        program_view = view_of_package(package, *argv)
        assert extra_paths(program_view) == {str(package)}
        assert sources(program_view)[str(package)] == "package"


def test_an_argument_of_a_package_cannot_lead_outside(package: Path, secret: Path) -> None:
    (package / "readme").symlink_to(secret)
    for word in (str(secret), "../keys/id", "readme", "./../package/../keys/id"):
        error = refuse_package(package, "sh", "run.sh", word)
        assert error.evidence.path == str(secret)
        assert f'[overrides.toy.permissions] filesystem = ["{secret}"]' in error.help


def test_a_package_can_name_the_operators_grants(package: Path, secret: Path) -> None:
    program_view = view_of_package(package, "sh", "run.sh", str(secret), granted=(str(secret),))
    assert extra_paths(program_view) == {str(package), str(secret)}
    assert sources(program_view)[str(secret)] == "granted"


def test_the_advice_includes_the_earlier_grants(package: Path, secret: Path) -> None:
    (package.parent / "data").mkdir()
    granted = (f"{package.parent}/data:rw",)
    error = refuse_package(package, "sh", "run.sh", str(secret), granted=granted)
    assert f'filesystem = ["{granted[0]}", "{secret}"]' in error.help


def test_an_argument_that_the_operator_adds_is_shown(package: Path, secret: Path) -> None:
    package_spec = Package(root=str(package), argv=("sh", "run.sh"), cwd=str(package))
    argv = ("/bin/sh", "run.sh", str(secret))
    program_view = make_view(*argv, cwd=str(package), package=package_spec, command="sh")
    assert extra_paths(program_view) == {str(package), str(secret)}


def test_a_program_of_a_package_cannot_be_outside(package: Path, base_folder: Path) -> None:
    outside_program = write_program(base_folder / "else" / "bin" / "tool")
    (base_folder / "else" / "lib").mkdir()
    (package / "tool").symlink_to(outside_program)
    for command in (outside_program, "../else/bin/tool", "./tool"):
        assert f'["{base_folder}/else"]' in refuse_package(package, command).help


def test_a_program_on_the_operators_path_is_a_runtime(package: Path, base_folder: Path) -> None:
    tool = write_program(base_folder / "else" / "bin" / "tool")
    (base_folder / "else" / "lib").mkdir()
    (base_folder / "else" / "etc").mkdir()
    env = {"HOME": "/home/nobody", "PATH": f"{base_folder}/else/bin:/bin"}
    expected = {str(package), str(base_folder / "else" / "bin"), str(base_folder / "else" / "lib")}
    for command in ("tool", tool):
        package_spec = Package(root=str(package), argv=(command,), cwd=str(package))
        request = {"command": command, "cwd": str(package), "env": env, "package": package_spec}
        assert extra_paths(make_view(tool, **request)) == expected


def test_a_package_cannot_set_path(package: Path, base_folder: Path) -> None:
    tool = write_program(base_folder / "else" / "bin" / "tool")
    env = {"PATH": f"{base_folder}/else/bin"}
    package_spec = Package(root=str(package), argv=("tool",), env=env, cwd=str(package))
    with pytest.raises(Refused) as caught:
        make_view(
            tool,
            command="tool",
            cwd=str(package),
            env=env,
            package=package_spec,
            host={"PATH": "/bin"},
        )
    assert caught.value.code == "X0390"


def test_the_arguments_of_a_shebang_line_are_not_shown(package: Path, secret: Path) -> None:
    script = write_program(package / "run", f"#!/usr/bin/env -S sh {package}/run.sh {secret}\n")
    assert extra_paths(view_of_package(package, "./run")) == {str(package)}
    assert extra_paths(make_view(script)) == {script}, "also if the operator named the program"


def test_the_interpreter_of_a_package_cannot_be_outside(package: Path, base_folder: Path) -> None:
    interpreter = write_program(base_folder / "else" / "tool", "\x7fELF\0")
    write_program(package / "run", f"#!{interpreter}\n")
    assert interpreter in refuse_package(package, "./run").message


def test_a_document_is_not_an_interpreter(base_folder: Path, secret: Path) -> None:
    script = write_program(base_folder / "own" / "run", f"#!{secret}\n")
    assert extra_paths(make_view(script)) == {script}


def make_venv(folder: Path, home: str = "/usr/bin") -> Path:
    """Make a virtual environment, and return the folder of its packages."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to("/bin/sh")
    (folder / "pyvenv.cfg").write_text(f"home = {home}\n")
    packages = folder / "lib" / "python3.99" / "site-packages"
    packages.mkdir(parents=True)
    return packages


def test_the_pth_files_of_a_package_cannot_lead_outside(package: Path, secret: Path) -> None:
    packages = make_venv(package / "venv")
    (packages / "inside.pth").write_text(f"{package}\n../..\nimport os\n")
    assert extra_paths(view_of_package(package, "venv/bin/python")) == {str(package)}
    for line in (str(secret.parent), f"../../../../../{secret.parent.name}"):
        (packages / "a.pth").write_text(f"{line}\n")
        assert refuse_package(package, "venv/bin/python").evidence.path == str(secret.parent)


def test_the_home_of_a_packages_environment_cannot_be_outside(
    package: Path, base_folder: Path
) -> None:
    write_program(base_folder / "else" / "bin" / "python3")
    make_venv(package / "venv", str(base_folder / "else" / "bin"))
    assert (
        refuse_package(package, "venv/bin/python").evidence.path
        == f"{base_folder}/else/bin/python3"
    )


def test_a_package_cannot_use_an_environment_of_the_operator(
    package: Path, base_folder: Path
) -> None:
    make_venv(base_folder / "mine")
    assert extra_paths(view_of_package(package, f"{base_folder}/mine/bin/python")) == {str(package)}


@pytest.mark.parametrize("name", ["PYTHONPATH", "NODE_PATH", "UV_CACHE_DIR", "npm_config_cache"])
def test_a_variable_of_a_package_cannot_lead_outside(
    name: str, package: Path, secret: Path
) -> None:
    for value in (str(secret.parent), f"lib:{secret.parent}", "../keys"):
        error = refuse_package(package, "sh", "run.sh", env={name: value})
        assert error.evidence.path == str(secret.parent) and name in error.message
    assert extra_paths(view_of_package(package, "sh", "run.sh", env={name: str(package)})) == {
        str(package)
    }


def test_the_working_folder_of_a_package_cannot_be_outside(package: Path, secret: Path) -> None:
    cwd = str(secret.parent)
    package_spec = Package(root=str(package), argv=("sh", "id"), cwd=cwd)
    with pytest.raises(Refused) as caught:
        make_view("/bin/sh", "id", command="sh", cwd=cwd, package=package_spec)
    assert caught.value.code == "X0390"


def test_the_folder_around_a_package_is_not_its_installation(base_folder: Path) -> None:
    write_program(base_folder / "around" / "bin" / "run.sh")
    (base_folder / "around" / "lib").mkdir()
    (base_folder / "around" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    package = base_folder / "around" / "bin"
    assert extra_paths(view_of_package(package, "./run.sh")) == {str(package)}
    shims = base_folder / "manager" / "shims"
    write_program(shims / "run.sh")
    assert extra_paths(view_of_package(shims, "./run.sh")) == {str(shims)}


def test_a_package_in_a_home_folder_does_not_show_the_home(base_folder: Path) -> None:
    script = write_program(base_folder / "run.sh")
    host = {"HOME": str(base_folder), "PATH": "/bin"}
    error = refuse_package(base_folder, "sh", "run.sh", host=host)
    assert f'filesystem = ["{script}"]' in error.help


def test_a_program_that_is_its_own_package_is_shown_alone(base_folder: Path) -> None:
    tool = write_program(base_folder / "tools" / "tool")
    package_spec = Package(root=tool, argv=(tool,), cwd=str(base_folder / "tools"))
    program_view = make_view(
        tool, command=tool, cwd=str(base_folder / "tools"), package=package_spec
    )
    assert extra_paths(program_view) == {tool}


# -- package managers -----------------------------------------------------------------------


@pytest.fixture
def home(base_folder: Path) -> Path:
    """Return a home folder with the downloads and the secrets of package managers."""
    for path in (
        *(".local/share/uv/credentials/credentials.toml", ".local/share/uv/tools/other/pyvenv.cfg"),
        *(".cache/uv/archive-v0/other/x.py", ".npm/_logs/debug.log", ".npmrc"),
        *(".npm/_cacache/index-v5/x", ".npm/_npx/0123456789abcdef/package.json"),
    ):
        file = base_folder / "home" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret")
    return base_folder / "home"


def install_uv_tool(home: Path, name: str, receipt: str) -> Path:
    tool = home / ".local" / "share" / "uv" / "tools" / name
    make_venv(tool)
    (tool / "uv-receipt.toml").write_text(receipt)
    return tool


@pytest.fixture
def managers(base_folder: Path) -> str:
    """Return a folder for PATH with the programs of package managers."""
    for name in ("uv", "uvx", "npx", "npm", "pnpm"):
        write_program(base_folder / "programs" / name, "\x7fELF\0")
    return str(base_folder / "programs")


def test_uvx_sees_its_pythons_and_the_named_tool(home: Path, managers: str) -> None:
    data = home / ".local" / "share" / "uv"
    (data / "python" / "cpython-3.99").mkdir(parents=True)
    tool = install_uv_tool(home, "some-server", 'requirements = [{ name = "some-server" }]')
    env = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    programs = {f"{managers}/uv", f"{managers}/uvx"}
    pythons = {*programs, str(data / "python")}
    tool_parts = {f"{tool}/{part}" for part in ("bin", "lib", "pyvenv.cfg", "uv-receipt.toml")}
    for arguments in (
        ("some-server",),
        ("--offline", "--python", "3.12", "Some_Server@latest", "--option", "other"),
        ("--from", "some-server[cli]==1.0", "run-it"),
        ("--from=some.server", "run-it"),
    ):
        program_view = make_view(f"{managers}/uvx", *arguments, command="uvx", env=env)
        assert extra_paths(program_view) == pythons | tool_parts, arguments
        assert program_view.private_folders == (str(home / ".cache" / "uv"), str(data / "tools"))
    for other_arguments in (
        ("another",),
        ("../credentials",),
        ("--from", "git+https://x", "a"),
        (),
    ):
        assert (
            extra_paths(make_view(f"{managers}/uvx", *other_arguments, command="uvx", env=env))
            == pythons
        )
    (tool / "uv-receipt.toml").write_text('index = "https://me:token@example.org/simple"')
    shown_paths = extra_paths(make_view(f"{managers}/uvx", "some-server", command="uvx", env=env))
    assert f"{tool}/uv-receipt.toml" not in shown_paths and f"{tool}/lib" in shown_paths


def test_npx_sees_the_package_of_an_exact_version_but_no_log(home: Path, managers: str) -> None:
    folder = home / ".npm" / "_npx" / "c98ccc168155bafa"
    (folder / "node_modules").mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    env = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    exact = "@modelcontextprotocol/server-memory@2026.8.31"
    for arguments in (("-y", exact), ("--yes", "--package", exact, "run"), ("-y", "--", exact)):
        program_view = make_view(f"{managers}/npx", *arguments, command="npx", env=env)
        parts = {f"{folder}/node_modules", f"{folder}/package.json"}
        assert extra_paths(program_view) == parts | {f"{managers}/npx"}, arguments
        assert program_view.private_folders == (str(home / ".npm"),)
    for name in (exact.rpartition("@")[0], f"{exact}-other", "x", "../x@1.0.0"):
        program_view = make_view(f"{managers}/npx", "-y", name, command="npx", env=env)
        assert extra_paths(program_view) == {f"{managers}/npx"}, name


@pytest.mark.parametrize("name", ["uv", "uvx", "npx", "npm", "pnpm", "python3.99", "node", "pyenv"])
def test_a_package_program_named_like_a_runtime_shows_nothing(
    name: str, package: Path, home: Path, managers: str
) -> None:
    (home / ".local" / "lib" / "python3.99").mkdir(parents=True)
    host = {"HOME": str(home), "PATH": f"{managers}:/bin", "PYTHONPATH": str(home)}
    install_uv_tool(home, "some-server", "")
    for text in ("#!/bin/sh\n", "#!/usr/bin/env -S sh\n"):
        write_program(package / name, text)
        program_view = view_of_package(package, f"./{name}", "some-server", host=host)
        assert extra_paths(program_view) == {str(package)} and program_view.private_folders == ()
    # The operator names the same file by a relative path.
    package_spec = Package(root=str(package), argv=("./run.sh",), cwd=str(package))
    argv, command = (str(package / name), "some-server"), f"./{name}"
    program_view = make_view(
        *argv, command=command, cwd=str(package), package=package_spec, env=host
    )
    assert extra_paths(program_view) == {str(package)} and program_view.private_folders == ()


@pytest.mark.parametrize(
    "argv",
    [
        *(("uvx", "some-server"), ("uv", "tool", "run", "some-server"), ("./run",)),
        *(("env", "uvx", "some-server"), ("timeout", "5", "uvx", "some-server")),
    ],
)
def test_a_package_does_not_see_the_tool_in_its_command(
    argv: tuple[str, ...], package: Path, home: Path, managers: str
) -> None:
    install_uv_tool(home, "some-server", "")
    (home / ".local" / "share" / "uv" / "python").mkdir()
    write_program(package / "run", "#!/usr/bin/env -S uv run --script\n")
    host = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    package_spec = Package(root=str(package), argv=argv, cwd=str(package))
    folder = {"./": str(package)}.get(argv[0][:2], managers if "uv" in argv[0] else "/usr/bin")
    path = os.path.normpath(f"{folder}/{argv[0]}")
    program_view = make_view(
        path, *argv[1:], command=argv[0], cwd=str(package), package=package_spec, env=host
    )
    assert not any(path.startswith(str(home)) for path in extra_paths(program_view)), extra_paths(
        program_view
    )


def test_a_manifest_cannot_show_a_tool(home: Path, managers: str) -> None:
    install_uv_tool(home, "some-server", "")
    env = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    request = {"command": "uvx", "env": env, "is_operators": False}
    program_view = make_view(f"{managers}/uvx", "some-server", **request)
    assert not any(path.startswith(str(home)) for path in extra_paths(program_view)), extra_paths(
        program_view
    )


@pytest.mark.parametrize("name", ["HOME", "XDG_DATA_HOME", "UV_TOOL_DIR"])
def test_a_variable_of_a_package_does_not_change_the_folders_of_a_manager(
    name: str, package: Path, home: Path, managers: str
) -> None:
    install_uv_tool(home, "some-server", "")
    host = {"HOME": "/home/nobody", "PATH": f"{managers}:/bin"}
    package_spec = Package(root=str(package), argv=("x",), cwd=str(package), env={name: str(home)})
    request: dict[str, Any] = {
        "env": {**host, name: str(home)},
        "host": host,
        "package": package_spec,
    }
    try:
        program_view = make_view(f"{managers}/uvx", "some-server", command="uvx", **request)
    except Refused as error:
        assert error.code == "X0390" and name in error.message
    else:
        assert not any(path.startswith(str(home)) for path in extra_paths(program_view)), (
            extra_paths(program_view)
        )


def test_a_granted_cache_is_not_made_private(home: Path, managers: str) -> None:
    env = {"HOME": str(home), "PATH": f"{managers}:/bin"}
    for grant in (f"{home}/.npm:rw", f"{home}/.npm", str(home), f"{home}/.npm/_cacache"):
        program_view = make_view(f"{managers}/npx", "x", command="npx", env=env, granted=(grant,))
        assert program_view.private_folders == (), grant


@pytest.mark.parametrize("name", ["PYTHONPATH", "NODE_PATH"])
def test_folders_of_a_variable_are_shown_if_the_child_gets_the_variable(
    name: str, base_folder: Path
) -> None:
    (base_folder / "libraries").mkdir()
    runtime = write_program(
        base_folder / "bin" / ("python3" if name == "PYTHONPATH" else "node"), "\x7fELF\0"
    )
    value = {name: str(base_folder / "libraries")}
    assert extra_paths(make_view(runtime, host={**HOST, **value}, env=HOST)) == {runtime}
    view_with_variable = make_view(runtime, host={**HOST, **value}, env={**HOST, **value})
    assert extra_paths(view_with_variable) == {runtime, str(base_folder / "libraries")}


def test_python_sees_the_user_packages_of_its_version(base_folder: Path) -> None:
    for version in ("3.98", "3.99"):
        (base_folder / "home" / ".local" / "lib" / f"python{version}").mkdir(parents=True)
    real = write_program(base_folder / "bin" / "python3.99", "\x7fELF\0")
    (base_folder / "bin" / "python3").symlink_to("python3.99")
    env = {"HOME": str(base_folder / "home")}
    own_path = str(base_folder / "home" / ".local" / "lib" / "python3.99")
    assert extra_paths(make_view(str(base_folder / "bin" / "python3"), env=env)) == {real, own_path}
    assert extra_paths(make_view(str(base_folder / "bin" / "python3"), env={}, host=env)) == {real}
    package = Package(
        root=str(base_folder / "bin"), argv=("python3",), cwd=str(base_folder / "bin")
    )
    program_view = make_view(
        str(base_folder / "bin" / "python3"), command="python3", env=env, package=package
    )
    assert own_path not in extra_paths(program_view)


def test_a_link_in_a_writable_folder_shows_nothing_outside(base_folder: Path) -> None:
    granted, outside = base_folder / "granted", base_folder / "outside"
    granted.mkdir()
    outside.mkdir()
    (outside / "key").write_text("secret")
    (granted / "key").symlink_to(outside / "key")
    (granted / "folder").symlink_to(outside)
    rights = (f"{granted}:rw",)
    argv = ("/bin/cat", f"{granted}/key", f"{granted}/folder/key")
    assert extra_paths(make_view(*argv, granted=rights)) == set()
    assert extra_paths(make_view(*argv, granted=rights, folders=(f"{granted}/folder",))) == set()
    # A link in a folder that the program cannot write was made by the operator.
    assert extra_paths(make_view(*argv, granted=rights, protected=(str(granted),))) == {
        f"{outside}/key"
    }
    assert extra_paths(make_view(*argv, granted=(str(granted),))) == {
        str(granted),
        f"{outside}/key",
    }


def test_pyvenv_cfg_is_read_only_for_a_python_program(base_folder: Path) -> None:
    tool = write_program(base_folder / "app" / "bin" / "tool")
    packages = base_folder / "app" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (base_folder / "outside").mkdir()
    (packages / "x.pth").write_text(f"{base_folder}/outside\n")
    (base_folder / "app" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert f"{base_folder}/outside" not in extra_paths(make_view(tool))
    python = base_folder / "app" / "bin" / "python3"
    python.symlink_to("/usr/bin/python3")
    assert f"{base_folder}/outside" in extra_paths(make_view(str(python)))
