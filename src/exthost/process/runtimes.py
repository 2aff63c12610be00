"""Finds the files that a program needs to run: its interpreter, its environment, its caches.

A command seldom names the file that is executed in the end: `python3` may be a symlink in a virtual
environment to an interpreter that a version manager keeps in a home folder. So `Runtimes.follow`
follows the symlinks and the first lines (`#!`) of a program. It makes what the program needs
visible in the sandbox, read-only: the virtual environment, the prefix of the interpreter, the root
of the version manager, the package cache, the packages of Node.

Each program on the way is trusted or not. It is trusted if the operator (whoever wrote the config)
named it, or if it was found on the operator's PATH. A file that a package contains is not trusted:
its symlinks, first lines and settings may lead to runtimes of the operator, and to paths that are
visible already. Any other path raises Refused.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from exthost.errors import Refused
from exthost.process.small_files import first_words, read_start
from exthost.process.visible_paths import PathCollection, is_too_wide

__all__ = ["Boundary", "Lookup", "Runtimes", "installation", "node_packages", "split_path_list"]

# The programs that run JavaScript with packages from node_modules.
_NODES = frozenset(("node", "nodejs", "bun", "tsx"))

# How many interpreters are followed, each the interpreter of the one before. The kernel follows
# fewer.
_MAX_INTERPRETERS = 5

# How much of a pyvenv.cfg or .pth file is read. Such files have a few lines.
_SETTINGS_BYTES = 64 * 1024

# Options of env(1) whose value is the next argument.
_ENV_OPTIONS = frozenset({"-u", "--unset", "-C", "--chdir"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Where the operator's programs and caches are: the home folder, and the environment variables
    that name other places, PATH among them."""

    home: str
    variables: Mapping[str, str]

    def find(self, name: str) -> str:
        """Return the path of the program of this name on PATH; "" if there is none. An absolute
        path is returned unchanged."""
        if name.startswith("/"):
            return name
        for folder in (self.variables.get("PATH") or os.defpath).split(os.pathsep):
            path = os.path.join(folder, name)  # noqa: PTH118
            if folder and "/" not in name and os.access(path, os.X_OK):
                return path
        return ""


class Boundary(Protocol):
    """Decides which paths a package may make visible; `file_view._Boundary` implements it.

    lookup           finds programs and caches of the operator
    has_package      whether the extension is a package, which is not trusted
    is_package_file  whether the package could have written the file at this path
    allows           whether a real path is visible already
    is_runtime       whether a program is a runtime of the system or the operator
    refused_error    returns the error for a path that the package may not make visible
    """

    @property
    def lookup(self) -> Lookup: ...
    @property
    def has_package(self) -> bool: ...
    def is_package_file(self, path: str) -> bool: ...
    def allows(self, real_path: str) -> bool: ...
    def is_runtime(self, names: list[str], real_path: str) -> bool: ...
    def refused_error(self, real_path: str, named_by: str, grant: str = "") -> Refused: ...


class Runtimes:
    """Follows programs to their interpreters, and adds the files that they need to a collection of
    visible paths."""

    def __init__(self, visible: PathCollection, boundary: Boundary) -> None:
        self._visible = visible
        self._boundary = boundary
        self._lookup = boundary.lookup
        self._visited: set[str] = set()

    def follow(self, program: str, named_by: str, *, is_trusted: bool, depth: int = 0) -> None:
        """Make a program visible, and what it needs to run. Raises Refused if a file of a package
        leads to a path that the package may not make visible.

        program     the path of the program
        named_by    what names the program, for an error
        is_trusted  whether the operator named it, or it was found on the operator's PATH
        depth       how many scripts have led to this interpreter; 0 for the program itself"""
        if program in self._visited or depth > _MAX_INTERPRETERS:
            return
        self._visited.add(program)
        real_path, links = self._visible.walk(program)
        if not real_path or not _is_executable(real_path):
            return  # the start fails later, with the error of the system
        content_is_trusted = self._check_trust(program, links, real_path, named_by, is_trusted)
        self._visible.add(real_path, "interpreter" if depth else "program")
        for path in dict.fromkeys((program, *links)):
            may_trust = is_trusted and not self._boundary.is_package_file(path)
            self._show_environment(path, may_trust, depth)
        self._show_environment(real_path, content_is_trusted, depth)
        prefix = installation(real_path, self._lookup.home)
        if prefix and self._may_show(prefix, content_is_trusted):
            self._visible.show(prefix, "runtime")
        if Path(real_path).name == "uvx" and content_is_trusted:
            # uvx executes the program uv in its own folder.
            uv = str(Path(real_path).with_name("uv"))
            self.follow(uv, real_path, is_trusted=True, depth=depth + 1)
        for path, source in self._find_caches({Path(real_path).name, Path(program).name}):
            if os.path.exists(path):  # noqa: PTH110
                self._visible.show(path, source)
        interpreters = _programs_of_first_line(real_path)
        if content_is_trusted and any(Path(name).name in _NODES for name in interpreters):
            for path in node_packages(real_path, self._lookup.home):
                self._visible.show(path, "node packages")
        for name in interpreters:
            if interpreter := self._lookup.find(name):
                is_found_on_path = not name.startswith("/")
                self.follow(
                    interpreter,
                    f"the first line of {real_path}",
                    is_trusted=content_is_trusted or is_found_on_path,
                    depth=depth + 1,
                )

    def _check_trust(
        self, program: str, links: list[str], real_path: str, named_by: str, is_trusted: bool
    ) -> bool:
        """Return whether the content of a program (its first line, its environment) is trusted.
        Raises Refused if the program itself may not be visible."""
        if is_trusted:
            return not self._boundary.is_package_file(real_path)
        names = [Path(path).name for path in (program, *links, real_path)]
        if self._boundary.is_runtime(names, real_path):
            return True
        if not self._boundary.allows(real_path):
            suggested_grant = installation(real_path, self._lookup.home)
            raise self._boundary.refused_error(real_path, named_by, suggested_grant)
        return False

    def _may_show(self, folder: str, is_trusted: bool) -> bool:
        """Return whether a folder may become visible because a program is in it."""
        return is_trusted or self._boundary.allows(os.path.realpath(folder))

    def _show_environment(self, program: str, is_trusted: bool, depth: int) -> None:
        """Make the virtual environment, or the root of the version manager, visible that contains a
        program."""
        folder = Path(program).parent
        if str(folder) in self._visited:
            return
        outer = folder.parent
        if not self._may_show(str(outer), is_trusted):
            return
        self._visited.add(str(folder))
        # A version manager (pyenv, asdf) has its programs as scripts in the folder "shims".
        if folder.name == "shims" and not is_too_wide(str(outer), self._lookup.home):
            self._visible.show(str(outer), "runtime")
        settings = outer / "pyvenv.cfg"
        # Only a Python reads these settings. Beside any other program, an extension that may write
        # there could have put them.
        if not Path(program).name.startswith(("python", "pypy")):
            return
        if not settings.is_file() or is_too_wide(str(outer), self._lookup.home):
            return
        self._visible.show(str(outer), "virtual environment")
        self._show_pth_paths(outer, is_trusted)
        for line in _read_lines(settings):
            key, _, value = line.partition("=")
            if key.strip() == "home":
                for name in (Path(program).name, "python3"):
                    home = f"{value.strip()}/{name}"
                    self.follow(home, str(settings), is_trusted=is_trusted, depth=depth + 1)

    def _show_pth_paths(self, environment: Path, is_trusted: bool) -> None:
        """Make the folders visible that the .pth files of a virtual environment name, unless the
        extension is a package: a package may not see the operator's sources. Raises Refused if a
        .pth file that is not trusted names a folder that is not visible."""
        for pth_file in sorted(environment.glob("lib/python3*/site-packages/*.pth")):
            for line in _read_lines(pth_file):
                path = os.path.join(pth_file.parent, line.strip())  # noqa: PTH118
                if not line.strip() or not Path(path).is_dir():
                    continue
                if not is_trusted and not self._boundary.allows(os.path.realpath(path)):
                    raise self._boundary.refused_error(os.path.realpath(path), str(pth_file))
                if not self._boundary.has_package and not is_too_wide(path, self._lookup.home):
                    self._visible.show(path, "pth file")

    def _find_caches(self, names: set[str]) -> Iterator[tuple[str, str]]:
        """Yield the folders in which npx and uvx keep what they run, and in which Python and Node
        look for packages of the user, each with its source (why it is visible). `names` are the
        file names of the program."""
        home, variables = self._lookup.home, self._lookup.variables
        if names & {"npx", "npm", "npx-cli.js", "npm-cli.js"}:
            yield variables.get("npm_config_cache") or f"{home}/.npm", "cache"
        if names & {"uv", "uvx"}:
            yield variables.get("UV_CACHE_DIR") or f"{home}/.cache/uv", "cache"
            yield variables.get("UV_PYTHON_INSTALL_DIR") or f"{home}/.local/share/uv", "cache"
        if any(name.startswith("python") for name in names):
            for folder in Path(home, ".local", "lib").glob("python3*"):
                yield str(folder), "user packages"
            yield from self._paths_of_variable("PYTHONPATH")
        if any(name.startswith("node") for name in names):
            yield from self._paths_of_variable("NODE_PATH")

    def _paths_of_variable(self, name: str) -> Iterator[tuple[str, str]]:
        for path in split_path_list(self._lookup.variables.get(name, "")):
            if not is_too_wide(path, self._lookup.home):
                yield path, f"variable {name}"


def installation(program: str, home: str) -> str:
    """Return the prefix that a program was installed in, with its libraries: the folder above
    `bin`. Return "" if there are no libraries, or if that folder contains files of others."""
    prefix = Path(program).parent.parent
    has_libraries = any((prefix / name).is_dir() for name in ("lib", "libexec", "share"))
    if Path(program).parent.name != "bin" or not has_libraries or is_too_wide(str(prefix), home):
        return ""
    return str(prefix)


def node_packages(script: str, home: str) -> Iterator[str]:
    """Yield the node_modules folder from which a script of the operator gets its packages, and the
    package.json beside it. For a script that is itself in such a folder, also yield the outer one:
    npm installs the packages that several others need there."""
    for above in Path(script).parents:
        if is_too_wide(str(above), home):
            return
        if (above / "node_modules").is_dir():
            yield str(above / "node_modules")
            if (above / "package.json").is_file():
                yield str(above / "package.json")
            if "node_modules" not in above.parts:
                return


def split_path_list(value: str, cwd: str = "") -> list[str]:
    """Return the paths in the value of a variable such as PYTHONPATH. Relative paths are joined to
    `cwd`; without one, they are left out."""
    paths = [path for path in value.split(os.pathsep) if path]
    if cwd:
        return [os.path.join(cwd, path) for path in paths]  # noqa: PTH118
    return [path for path in paths if path.startswith("/")]


def _read_lines(path: Path) -> list[str]:
    """Return the lines of a small file; an empty list if it cannot be read."""
    try:
        return read_start(str(path), _SETTINGS_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _is_executable(path: str) -> bool:
    """Return whether a path is a regular file with an execute bit. Private keys and documents have
    none, so they never become visible as programs."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _programs_of_first_line(program: str) -> list[str]:
    """Return the programs that the first line (`#!`) of a script names: the interpreter, and if
    that is env, the program that env looks up. Empty if the file is not a script."""
    command = first_words(program)
    if not command or Path(command[0]).name != "env":
        return command[:1]
    arguments = iter(command[1:])
    for argument in arguments:
        if argument in _ENV_OPTIONS:
            next(arguments, "")  # skip its value
        elif not argument.startswith("-") and "=" not in argument:
            return [command[0], argument]
    return command[:1]
