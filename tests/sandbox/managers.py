"""Trials of the sandbox: of the folders of version and package managers, a program sees only what
it needs to run. A package gets no access by the name of its program.

A trial is a test that runs as root and as an ordinary user. The programs are explorers:
`explore(extension, code, **facts)` runs code in a sandboxed extension, and returns its variable
`result`.

Real uv, npm and pyenv run if they are installed. For other managers, an entry of `LAYOUTS`
describes the folders that the manager makes, with scripts instead of its programs, and with private
files.
"""

import contextlib
import hashlib
import http.server
import io
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import exthost
from exthost.errors import ExthostError
from exthost.events import LogLine
from tests.extensions import nexo_tree
from tests.sandbox.confined import explore, folder, shared_folder, system_explorer
from tests.sandbox.packages import MCP_CHILD, READ_MARK, SECRET, Package
from tests.sandbox.programs import (
    EXAMPLES,
    check_runs_in_sandbox,
    needs,
    prebuilt,
    run_command,
    wheel,
)
from tests.sandbox.trials import trial

# Code that returns the needed files that cannot be read, and the hidden files that can be read.
LIST_ACCESS = """
    def is_readable(path):
        try:
            open(path).read()
        except OSError:
            return False
        return True
    result = {
        "missing": [path for path in facts["needed"] if not is_readable(path)],
        "exposed": [path for path in facts["hidden"] if is_readable(path)],
    }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The folders of a manager in a home folder; all paths are relative to that.

    program   the path that the operator names
    runs      the file that is executed in the end
    needed    files that the program must be able to read
    hidden    files that it must not see
    scripts   scripts of the manager that lead to the program; {home} is the home folder
    links     symlinks, with their targets
    args      the arguments of the program
    """

    program: str
    runs: str
    needed: tuple[str, ...]
    hidden: tuple[str, ...]
    scripts: Mapping[str, str]
    files: Mapping[str, str]
    links: Mapping[str, str]
    args: tuple[str, ...] = ()


def layout(
    program: str,
    *,
    runs: str = "",
    needed: tuple[str, ...] = (),
    hidden: tuple[str, ...],
    scripts: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
    args: tuple[str, ...] = (),
) -> Layout:
    """Return a Layout with defaults for what a manager does not have."""
    return Layout(
        program=program,
        runs=runs or program,
        needed=needed,
        hidden=hidden,
        scripts=scripts or {},
        files=files or {},
        links=links or {},
        args=args,
    )


def env_family(name: str, program: str) -> Layout:
    """The folders of pyenv, rbenv or nodenv: a shim calls the manager, and that reads `version`."""
    root = f".{name}"
    return layout(
        f"{root}/shims/{program}",
        runs=f"{root}/versions/1.2.3/bin/{program}",
        needed=(f"{root}/versions/1.2.3/lib/library",),
        hidden=(
            f"{root}/versions/4.5.6/lib/library",
            f"{root}/versions/1.2.3/etc/secret",
            f"{root}/cache/archive",
            f"{root}/.git/config",
        ),
        scripts={
            f"{root}/shims/{program}": f'exec "{{home}}/{root}/libexec/{name}" exec {program}',
            f"{root}/libexec/{name}": f'read -r version < "{{home}}/{root}/version"\n'
            f'exec "{{home}}/{root}/versions/$version/bin/$2"',
        },
        files={f"{root}/version": "1.2.3\n"},
    )


NPX_FOLDER = hashlib.sha512(b"server@1.2.3").hexdigest()[:16]
STORE = ".local/share/pnpm/store/v11/links"
MODULES = ".local/share/pnpm/global/v11/0/node_modules"

LAYOUTS: Mapping[str, Layout] = {
    "pyenv": env_family("pyenv", "python3"),
    "rbenv": env_family("rbenv", "ruby"),
    "nodenv": env_family("nodenv", "node"),
    "asdf": layout(
        ".asdf/shims/tool",
        runs=".asdf/installs/lang/1.2.3/bin/tool",
        needed=(".asdf/installs/lang/1.2.3/lib/library",),
        hidden=(
            *(".asdf/installs/lang/4.5.6/lib/library", ".asdf/installs/other/1/lib/library"),
            *(".asdf/downloads/archive", ".asdfrc", ".asdf/plugins/other/bin/x"),
        ),
        scripts={
            ".asdf/shims/tool": 'exec "{home}/.asdf/bin/asdf" exec tool',
            ".asdf/bin/asdf": 'read -r tool version < "{home}/.tool-versions"\n'
            'exec "{home}/.asdf/installs/$tool/$version/bin/$2"',
        },
        files={".tool-versions": "lang 1.2.3\nother 2\n"},
    ),
    "mise": layout(
        ".local/share/mise/shims/tool",
        runs=".local/share/mise/installs/lang/1.2.3/bin/tool",
        needed=(".local/share/mise/installs/lang/1.2.3/lib/library",),
        hidden=(".config/mise/config.toml", ".local/share/mise/installs/other/1/lib/library"),
        scripts={
            ".local/bin/mise": 'read -r tool version < "{home}/.tool-versions"\n'
            'exec "{home}/.local/share/mise/installs/$tool/$version/bin/${{0##*/}}"',
        },
        files={".tool-versions": "lang 1.2.3\n"},
        links={".local/share/mise/shims/tool": "{home}/.local/bin/mise"},
    ),
    "volta": layout(
        ".volta/bin/node",
        runs=".volta/tools/image/node/20.1.0/bin/node",
        needed=(".volta/tools/image/node/20.1.0/lib/library",),
        hidden=(
            *(".volta/hooks.json", ".volta/log/log", ".volta/tools/image/node/18.0.0/lib/library"),
            ".volta/tools/image/node/20.1.0/etc/npmrc",
            ".volta/tools/image/packages/other/lib/library",
        ),
        scripts={
            ".volta/bin/volta-shim": 'cat "{home}/.volta/tools/user/platform.json" > /dev/null\n'
            'exec "{home}/.volta/tools/image/node/20.1.0/bin/node"',
        },
        files={".volta/tools/user/platform.json": '{"node": {"runtime": "20.1.0"}}'},
        links={".volta/bin/node": "volta-shim"},
    ),
    "conda": layout(
        "miniconda3/bin/tool",
        needed=("miniconda3/lib/library", "miniconda3/ssl/cacert.pem"),
        hidden=(
            *("miniconda3/.condarc", "miniconda3/envs/other/lib/library", "miniconda3/pkgs/x"),
            *("miniconda3/conda-meta/state", "miniconda3/etc/conda/activate.d/variables.sh"),
        ),
    ),
    "an environment of conda": layout(
        "miniconda3/envs/mine/bin/tool",
        needed=("miniconda3/envs/mine/lib/library",),
        hidden=(
            *("miniconda3/envs/mine/conda-meta/state", "miniconda3/envs/other/lib/library"),
            *("miniconda3/lib/library", "miniconda3/.condarc"),
        ),
    ),
    "nvm": layout(
        ".nvm/versions/node/v20.1.0/bin/node",
        needed=(".nvm/versions/node/v20.1.0/lib/node_modules/npm/package.json",),
        hidden=(
            *(".nvm/versions/node/v20.1.0/etc/npmrc", ".nvm/.cache/x", ".nvm/alias/default"),
            ".nvm/versions/node/v18.0.0/lib/library",
        ),
    ),
    "fnm": layout(
        ".local/state/fnm_multishells/1/bin/node",
        runs=".local/share/fnm/node-versions/v20.1.0/installation/bin/node",
        needed=(".local/share/fnm/node-versions/v20.1.0/installation/lib/library",),
        hidden=(
            ".local/share/fnm/node-versions/v18.0.0/installation/lib/library",
            ".local/share/fnm/node-versions/v20.1.0/installation/etc/npmrc",
        ),
        links={
            ".local/state/fnm_multishells/1": "{home}/.local/share/fnm/node-versions/v20.1.0"
            "/installation"
        },
    ),
    "sdkman": layout(
        ".sdkman/candidates/java/current/bin/java",
        runs=".sdkman/candidates/java/21/bin/java",
        needed=(
            ".sdkman/candidates/java/21/lib/modules",
            ".sdkman/candidates/java/21/conf/security/java.security",
        ),
        hidden=(
            *(".sdkman/etc/config", ".sdkman/var/x", ".sdkman/candidates/java/17/lib/modules"),
            ".sdkman/candidates/maven/3/conf/settings.xml",
        ),
        links={".sdkman/candidates/java/current": "21"},
    ),
    "pipx": layout(
        ".local/bin/tool",
        runs=".local/share/pipx/venvs/tool/bin/tool",
        needed=(".local/share/pipx/venvs/tool/lib/python3/site-packages/x.py",),
        hidden=(
            *(".local/share/pipx/venvs/tool/pipx_metadata.json", ".local/share/pipx/logs/x"),
            *(".local/share/pipx/venvs/other/lib/x.py", ".local/bin/other"),
        ),
        files={".local/share/pipx/venvs/tool/pyvenv.cfg": "home = /usr/bin\n"},
        links={".local/bin/tool": "../share/pipx/venvs/tool/bin/tool"},
    ),
    "pnpm": layout(
        ".local/share/pnpm/bin/server",
        runs=f"{STORE}/server/1/0/node_modules/server/cli.js",
        needed=(
            f"{STORE}/server/1/0/node_modules/library/index.js",
            f"{STORE}/library/2/0/node_modules/deeper/index.js",
        ),
        hidden=(
            f"{STORE}/other/1/0/node_modules/other/index.js",
            ".local/share/pnpm/store/v11/files/00/x",
            *(".config/pnpm/rc", ".npmrc", ".local/state/pnpm/x", ".local/share/pnpm/bin/other"),
        ),
        scripts={
            ".local/share/pnpm/bin/server": f'exec "{{home}}/{MODULES}/server/cli.js"\n'
            f"# cmd-shim-target={{home}}/{MODULES}/server/cli.js",
        },
        files={
            f"{STORE}/library/2/0/node_modules/library/index.js": "library",
            f"{STORE}/deeper/3/0/node_modules/deeper/index.js": "deeper",
        },
        links={
            f"{MODULES}/server": f"{{home}}/{STORE}/server/1/0/node_modules/server",
            f"{STORE}/server/1/0/node_modules/library": "../../../../library/2/0/node_modules"
            "/library",
            f"{STORE}/library/2/0/node_modules/deeper": "../../../../deeper/3/0/node_modules"
            "/deeper",
        },
    ),
    "uv": layout(
        "programs/uvx",
        args=("--offline", "server"),
        needed=(
            ".local/share/uv/tools/server/lib/python3/site-packages/x.py",
            ".local/share/uv/tools/server/uv-receipt.toml",
            ".local/share/uv/python/cpython-3.99/lib/library",
        ),
        hidden=(
            ".local/share/uv/credentials/credentials.toml",
            *(".local/share/uv/tools/other/lib/x.py", ".config/uv/uv.toml", ".netrc"),
            *(".cache/uv/archive-v0/other/x.py", ".cache/uv/simple-v1/x", ".cache/uv/.lock"),
        ),
        files={".local/share/uv/tools/server/pyvenv.cfg": "home = /usr/bin\n"},
    ),
    "npm": layout(
        "programs/npx",
        args=("-y", "server@1.2.3"),
        needed=(
            f".npm/_npx/{NPX_FOLDER}/node_modules/server/package.json",
            f".npm/_npx/{NPX_FOLDER}/package.json",
        ),
        hidden=(
            *(".npmrc", ".npm/_logs/debug.log", ".npm/_cacache/index-v5/x"),
            ".npm/_npx/0123456789abcdef/node_modules/other/package.json",
        ),
    ),
}


def build(home: Path, manager_layout: Layout) -> None:
    """Create the folders of a manager. Every user can read all files, so that only the sandbox
    hides something."""

    def write(path: str, text: str, mode: int = 0o644) -> None:
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    system_explorer(home / manager_layout.runs)
    for path, target in manager_layout.links.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).symlink_to(target.format(home=home))
    for path, text in manager_layout.files.items():
        write(path, text)
    for path, text in manager_layout.scripts.items():
        write(path, "#!/bin/sh\n" + text.format(home=home), 0o755)
    for path in (*manager_layout.needed, *manager_layout.hidden):
        if not (home / path).exists():
            write(path, SECRET if path in manager_layout.hidden else "needed")


def make_layout_trial(manager_layout: Layout) -> Callable[[], Any]:
    """Return the trial of one manager: its program reads what it needs, and no hidden file."""

    async def work() -> None:
        with shared_folder() as place:
            home = place / "home"
            build(home, manager_layout)
            path = f"{home / manager_layout.program}"
            env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
            argv = [path, *manager_layout.args]
            async with exthost.connect(argv, dialect="morphir", permissions={}, env=env) as ext:
                facts = {
                    "needed": [str(home / path) for path in manager_layout.needed],
                    "hidden": [str(home / path) for path in manager_layout.hidden],
                }
                assert await explore(ext, LIST_ACCESS, **facts) == {"missing": [], "exposed": []}

    return work


for _name, _layout in LAYOUTS.items():
    _trial = make_layout_trial(_layout)
    _trial.__name__ = f"of_{_name.replace(' ', '_')}_a_program_sees_what_it_needs_to_run"
    trial(_trial)


# -- names ---------------------------------------------------------------------------------------

# Names of programs of managers, which a package can use for its own program.
NAMES = (
    *("uv", "uvx", "npx", "npm", "pnpm", "pnpx", "node", "python3", "python3.11", "pyenv", "rbenv"),
    *("conda", "volta", "npx-cli.js", "mise", "asdf"),
)


def fill_home(home: Path) -> list[str]:
    """Create the folders of every manager, and return the paths with secrets."""
    for manager_layout in LAYOUTS.values():
        build(home, manager_layout)
    library = home / ".local" / "lib" / "python3.11" / "site-packages" / "private.py"
    library.parent.mkdir(parents=True)
    library.write_text(SECRET)
    hidden = [
        str(home / path) for manager_layout in LAYOUTS.values() for path in manager_layout.hidden
    ]
    needed = [home / path for manager_layout in LAYOUTS.values() for path in manager_layout.needed]
    for path in needed:
        if path.read_text() == "needed":
            path.write_text(SECRET)
    return [*hidden, *map(str, needed), str(library)]


class StartReport(NamedTuple):
    """Whether an extension started, and what it wrote to stderr."""

    starts: bool
    text: str


async def start_and_read(
    config: dict[str, Any], environ: dict[str, str], id: str = "toy"
) -> StartReport:
    """Start an extension, and return whether it started and what it wrote to stderr."""
    lines, starts = list[str](), False
    host = exthost.Host.from_config(config, environ=environ)
    host.events.subscribe(LogLine, lambda line: lines.append(line.text))
    async with host:
        with contextlib.suppress(ExthostError):
            await host[id].start()
            starts = True
    return StartReport(starts, "\n".join(lines))


async def read_secrets(package: Package, home: Path) -> str:
    """Start a package with this home folder of the operator, and return the secrets that it
    read."""
    path = f"{home}/programs:/usr/bin:/bin"
    environ = {"HOME": str(home), "PATH": path, "PYTHONPATH": str(home)}
    report = await start_and_read(package.config(), environ)
    assert report.starts, report
    return "\n".join(line for line in report.text.splitlines() if SECRET in line)


def write_reader(
    package: Package, name: str, secrets: list[str], first_line: str = "#!/usr/bin/python3 -SE"
) -> None:
    """Write a program of a package that reads all it can, and then serves as an extension."""
    program = package.root / name
    program.write_text(f"{first_line}\n{reader_source(package, secrets)}")
    program.chmod(0o755)


def reader_source(package: Package, secrets: list[str]) -> str:
    source = (package.root / "ext.py").read_text()
    assert "*sys.argv[1:]" in source
    return source.replace("*sys.argv[1:]", f"*{secrets!r}")


@trial
async def the_name_of_a_packages_program_shows_nothing() -> None:
    with folder() as place:
        package, home = Package(place), place / "home"
        secrets = fill_home(home)
        for name in NAMES:
            write_reader(package, name, secrets)
            package.write("server", command=f"./{name}")
            assert not (secrets_read := await read_secrets(package, home)), (name, secrets_read)


@trial
async def a_relative_path_of_the_operator_into_a_package_shows_nothing() -> None:
    with folder() as place:
        package, home = Package(place), place / "home"
        secrets = fill_home(home)
        library = secrets[-1]
        environ = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        for name in ("uvx", "npx", "python3.11"):
            write_reader(package, name, secrets)
            source = {"command": f"./{name}", "args": ["server"]}
            entry = {"name": "toy", "source": source, "dialect": "nexo", "cwd": str(package.root)}
            config = {"extensions": [entry], "defaults": {"permissions": {}}}
            report = await start_and_read(config, environ)
            # The system's Python in the shebang line sees the user packages of the operator.
            text = report.text.replace(f"{READ_MARK} {library} {SECRET}", "")
            assert report.starts and SECRET not in text, (name, report)


@trial
async def a_link_or_first_line_of_a_package_that_leads_to_a_manager_shows_nothing() -> None:
    with folder() as place:
        package, home = Package(place), place / "home"
        secrets = fill_home(home)
        # The uv and npx of the operator: here they read all secrets.
        for name in ("uv", "uvx", "npx"):
            text = "#!/usr/bin/python3 -SE\n" + reader_source(package, secrets)
            (home / "programs" / name).write_text(text)
            (home / "programs" / name).chmod(0o755)
        for name, first_line in (
            ("run-1", "#!/usr/bin/env -S uv run --script"),
            ("run-2", "#!/usr/bin/env uvx"),
            ("run-3", "#!/usr/bin/env -S npx -y server@1.2.3"),
        ):
            write_reader(package, name, secrets, first_line)
            package.write(command=f"./{name}")
            assert not (secrets_read := await read_secrets(package, home)), (
                first_line,
                secrets_read,
            )
        for name in ("uvx", "npx"):
            (package.root / name).symlink_to(home / "programs" / name)
            package.write("server", command=f"./{name}")
            assert not (secrets_read := await read_secrets(package, home)), (name, secrets_read)
        for command in (
            ("uvx", "server"),
            ("uv", "tool", "run", "server"),
            ("npx", "-y", "server@1.2.3"),
        ):
            package.write(*command[1:], command=command[0])
            assert not (secrets_read := await read_secrets(package, home)), (command, secrets_read)
        # The program that such a command runs is not shown, so it does not start.
        environ = {"HOME": str(home), "PATH": f"{home}/programs:/usr/bin:/bin"}
        for wrapper in (("env",), ("timeout", "50"), ("nice",)):
            package.write(*wrapper[1:], "uvx", "server", command=wrapper[0])
            attempt = await start_and_read(package.config(), environ)
            assert not attempt.starts and SECRET not in attempt.text, (wrapper, attempt)


CHILD, MCP = nexo_tree.CHILD.read_text(), MCP_CHILD.read_text()

# A package that sets one of these to a path outside is refused. The others have no effect.
REFUSED_VARIABLES = {
    *("XDG_DATA_HOME", "XDG_CACHE_HOME", "UV_CACHE_DIR", "UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR"),
    *("npm_config_cache", "NPM_CONFIG_CACHE", "PNPM_HOME"),
}


@trial
async def a_variable_of_a_package_leads_to_no_managers_folder() -> None:
    names = {
        "HOME": "",
        "XDG_DATA_HOME": ".local/share",
        "XDG_CACHE_HOME": ".cache",
        "UV_CACHE_DIR": ".cache/uv",
        "UV_TOOL_DIR": ".local/share/uv/tools",
        "UV_PYTHON_INSTALL_DIR": ".local/share/uv/python",
        "npm_config_cache": ".npm",
        "NPM_CONFIG_CACHE": ".npm",
        "PNPM_HOME": ".local/share/pnpm",
        "PYENV_ROOT": ".pyenv",
        "PYENV_VERSION": "4.5.6",
        "RBENV_ROOT": ".rbenv",
        "CONDA_PREFIX": "miniconda3",
        "VOLTA_HOME": ".volta",
        "PATH": "programs",
    }
    with folder() as place:
        package, home = Package(place), place / "home"
        secrets = fill_home(home)
        text = "#!/usr/bin/python3 -SE\n" + reader_source(package, secrets)
        (home / "programs" / "uvx").write_text(text.replace(CHILD, MCP))
        for name, path in names.items():
            value = path if name == "PYENV_VERSION" else str(home / path)
            variable = f'env = {{{name} = "{value}"}}'
            package.write("ext.py", more=f"[mcp_servers.s]\ncommand = 'uvx'\n{variable}")
            # The operator is another user, with another home folder.
            environ = {"HOME": str(place / "operator"), "PATH": f"{home}/programs:/usr/bin:/bin"}
            report = await start_and_read(package.config(), environ, "toy.s")
            assert SECRET not in report.text, (name, report)
            # The package is refused, or it starts and sees no secret.
            assert report.starts == (name not in REFUSED_VARIABLES), (name, report)


@trial
async def folders_of_the_hosts_variables_are_shown_only_with_the_variable() -> None:
    with folder() as place:
        package = Package(place)
        environ = {**os.environ, "PYTHONPATH": str(package.keys), "NODE_PATH": str(package.keys)}
        (package.root / "ext.py").write_text(reader_source(package, [str(package.keys)]))
        package.write("ext.py")
        with_variable = {"env": {"PYTHONPATH": {"from": "PYTHONPATH"}}}
        for override, is_shown in (({}, False), (with_variable, True)):
            report = await start_and_read(package.config(**override), environ)
            assert report.starts and (SECRET in report.text) == is_shown, report


# -- real managers -------------------------------------------------------------------------------


@trial
async def a_tool_that_uv_installed_runs_through_uvx_and_by_itself() -> None:
    uv, uvx = prebuilt("uv")[0], prebuilt("uvx")[0]
    with shared_folder() as place:
        home = place / "home"
        env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "UV_PYTHON": "/usr/bin/python3"}
        variables = ("env", *(f"{name}={value}" for name, value in env.items()))
        await run_command(*variables, uv, "tool", "install", "--offline", str(wheel(place)))
        credentials = home / ".local" / "share" / "uv" / "credentials" / "credentials.toml"
        credentials.parent.mkdir()
        credentials.write_text(SECRET)
        argv = [uvx, "--from", str(place / "texts-1.0-py3-none-any.whl"), "texts"]
        for command in ([str(home / ".local" / "bin" / "texts")], [uvx, "texts"], argv):
            await check_runs_in_sandbox([command[0], *command[1:]], env=env)
        assert not (home / ".cache" / "uv" / "environments-v2").exists(), "the cache is private"


def tarball(name: str, source: str) -> bytes:
    """Return the archive of an npm package with one program."""
    manifest = {"name": name, "version": "1.2.3", "bin": {name: "run.mjs"}}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in (("package.json", json.dumps(manifest)), ("run.mjs", source)):
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@contextlib.contextmanager
def registry(wheel_path: Path | None = None) -> Iterator[str]:
    """Serve a registry of npm and an index of Python packages with one package each, on the
    loopback interface; yield its URL."""
    source = (EXAMPLES / "text.mjs").read_text()
    first = "" if source.startswith("#!") else "#!/usr/bin/env node\n"
    archive = tarball("server", first + source)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url, kind = f"http://{self.headers['Host']}", "application/json"
            if self.path == "/server":
                dist = {
                    "tarball": f"{url}/server.tgz",
                    "shasum": hashlib.sha1(archive, usedforsecurity=False).hexdigest(),
                }
                version = {"name": "server", "version": "1.2.3", "bin": {"server": "run.mjs"}}
                body = json.dumps(
                    {
                        "name": "server",
                        "dist-tags": {"latest": "1.2.3"},
                        "versions": {"1.2.3": {**version, "dist": dist}},
                    }
                ).encode()
            elif self.path == "/server.tgz":
                body = archive
            elif wheel_path is not None and self.path == "/simple/texts/":
                body, kind = f'<a href="/{wheel_path.name}">x</a>'.encode(), "text/html"
            elif wheel_path is not None and self.path == f"/{wheel_path.name}":
                body, kind = wheel_path.read_bytes(), "application/octet-stream"
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def check_starts_with_network(argv: list[str], env: dict[str, str]) -> None:
    """Check that a command, which downloads its program, starts in a sandbox with network."""
    settings: dict[str, Any] = {
        "limits": {"handshake": 50.0, "start": 55.0},
        "permissions": {"network": True},
        "env": env,
    }
    async with exthost.connect(argv, dialect="morphir", **settings) as ext:
        assert ext.state == "ready"


@trial
async def npx_fetches_a_package_into_a_private_cache() -> None:
    npx = needs("npx")
    with shared_folder() as place, registry() as url:
        home = place / "home"
        (home / ".npm" / "_logs").mkdir(parents=True)
        (home / ".npm" / "_logs" / "debug.log").write_text(SECRET)
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "npm_config_registry": url}
        for name in ("server", "server@1.2.3"):
            await check_starts_with_network([npx, "-y", name], env)
        assert [path.name for path in (home / ".npm").iterdir()] == ["_logs"]
        # A package of an exact version that is there already is not fetched again.
        variables = (f"{name}={value}" for name, value in env.items())
        await run_command("env", *variables, npx, "-y", "server@1.2.3")
        assert list((home / ".npm" / "_npx").iterdir())
        await check_starts_with_network([npx, "-y", "server@1.2.3"], env)


@trial
async def uvx_fetches_a_package_into_a_private_cache() -> None:
    (uvx,) = prebuilt("uvx")
    prebuilt("uv")
    with shared_folder() as place, registry(wheel(place)) as url:
        home = place / "home"
        home.mkdir()
        env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "UV_PYTHON": "/usr/bin/python3"}
        await check_starts_with_network([uvx, "--default-index", f"{url}/simple", "texts"], env)
        assert list(home.iterdir()) == []


# The text of a shim of pyenv.
SHIM = """#!/usr/bin/env bash
set -e
program="${{0##*/}}"
export PYENV_ROOT="{root}"
exec "{root}/libexec/pyenv" exec "$program" "$@"
"""


@trial
async def a_shim_of_a_real_pyenv_runs() -> None:
    (programs,) = prebuilt("pyenv")
    with shared_folder() as place:
        root = place / "home" / ".pyenv"
        shutil.copytree(programs, root, symlinks=True)
        for version in ("1.2.3", "4.5.6"):
            (root / "versions" / version / "bin").mkdir(parents=True)
            (root / "versions" / version / "bin" / "python3").symlink_to("/usr/bin/python3")
        (root / "version").write_text("1.2.3\n")
        (root / "shims").mkdir()
        (root / "shims" / "python3").write_text(SHIM.format(root=root))
        (root / "shims" / "python3").chmod(0o755)
        script = system_explorer(place / "run" / "explorer.py")
        argv = [str(root / "shims" / "python3"), "-S", "-E", str(script)]
        env = {"HOME": str(place / "home"), "PATH": "/usr/bin:/bin"}
        async with exthost.connect(argv, dialect="morphir", permissions={}, env=env) as ext:
            code = "import os; result = os.listdir(facts['versions'])"
            versions = await explore(ext, code, versions=str(root / "versions"))
            assert versions == ["1.2.3"], versions
