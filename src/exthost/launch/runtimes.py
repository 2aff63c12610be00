"""Finds the files that a program needs to run: its interpreter, its environment, its caches.

A command seldom names the file that is executed in the end: `python3` may be a symlink in a virtual
environment to an interpreter that a version manager keeps in a home folder. So `Runtimes.follow`
follows the symlinks and the first lines (`#!`) of a program. It makes what the program needs
visible in the sandbox, read-only: the virtual environment, the installation of the interpreter, the
selected version of a version manager, the packages of Node. `managers` lists which parts of these
folders are shown. `file_view` uses this module when it decides which paths an extension sees.

Each program on the way is trusted or not. It is trusted if the operator (the author of the config)
named it, or if it was found on the operator's PATH. A file is not trusted if it belongs to a
package (a manifest that the host found in a folder, and the files beside it): its symlinks, first
lines and settings may lead to runtimes of the operator, and to paths that are visible already. Any
other path raises Refused. The file name of a program that is not trusted has no effect.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from exthost.errors import Refused
from exthost.launch import managers
from exthost.launch.visible_paths import PathCollection, is_too_wide
from exthost.process.small_files import first_words, read_start

# The programs that run JavaScript with packages from folders named node_modules.
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
    """Where the operator's programs and folders are.

    home        the operator's home folder
    own_home    the home folder of the extension, if that is the operator's; otherwise ""
    variables   PATH, and the variables with further paths that the extension is given; without
                those that only its package sets
    selections  the working folder in which a file may select a version; "" for none
    """

    home: str
    variables: Mapping[str, str]
    own_home: str = ""
    selections: str = ""

    def find(self, name: str) -> str:
        """Return the path of the program of this name on PATH; "" if there is none. An absolute
        path is returned unchanged."""
        return name if name.startswith("/") else next(self.find_all(name), "")

    def find_all(self, name: str) -> Iterator[str]:
        """Yield the paths of all programs of this name on PATH."""
        for folder in (self.variables.get("PATH") or os.defpath).split(os.pathsep):
            path = os.path.join(folder, name)  # noqa: PTH118
            if folder and "/" not in name and os.access(path, os.X_OK):
                yield path


class Boundary(Protocol):
    """Decides which paths a package may make visible; `file_view._Boundary` implements it.

    lookup           finds programs and caches of the operator
    has_package      whether the extension is a package, which is not trusted
    is_package_file  whether the package could have written the file at this path
    allows           whether a real path is visible already
    is_runtime       whether a program is a runtime of the system or the operator
    refused_error    returns the error for a path that the package cannot make visible
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
        # Each path is handled once: programs that were followed and folders of virtual
        # environments, and programs whose environment was shown.
        self._visited: set[str] = set()
        self._visited_files: set[str] = set()

    def follow(
        self,
        program: str,
        named_by: str,
        *,
        is_trusted: bool,
        operator_arguments: Sequence[str] | None = None,
        depth: int = 0,
    ) -> None:
        """Make a program visible, and what it needs to run. Raises Refused if a file of a package
        leads to a path that the package cannot make visible.

        program             the path of the program
        named_by            what names the program, for an error
        is_trusted          whether the operator named it, or it was found on the operator's PATH
        operator_arguments  its arguments, if the operator wrote the program and the arguments: a
                            manager of packages then sees the installed package that they name;
                            None otherwise
        depth               how many scripts have led to this interpreter; 0 for the program
                            itself"""
        if program in self._visited or depth > _MAX_INTERPRETERS:
            return
        self._visited.add(program)
        real_path, links = self._visible.walk(program)  # `links` are the symlinks on the way
        if not real_path or not _is_executable(real_path):
            return  # the start fails later, with the error of the system
        content_is_trusted = self._check_trust(program, links, real_path, named_by, is_trusted)
        self._visible.add(real_path, "interpreter" if depth else "program")
        for path in dict.fromkeys((program, *links)):
            may_trust = is_trusted and not self._boundary.is_package_file(path)
            self._show_environment(path, may_trust, depth)
        self._show_environment(real_path, content_is_trusted, depth)
        interpreters = _programs_of_first_line(real_path)
        if content_is_trusted:
            self._show_installation(real_path, interpreters)
            if not interpreters:  # a script that is named python3 is not Python
                self._show_libraries(program, real_path)
            self._show_packages(program, real_path, operator_arguments, depth)
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
        Raises Refused if the program itself must not be visible."""
        if is_trusted:
            return not self._boundary.is_package_file(real_path)
        names = [Path(path).name for path in (program, *links, real_path)]
        if self._boundary.is_runtime(names, real_path):
            return True
        if not self._boundary.allows(real_path):
            suggested_grant = installation(real_path, self._lookup.home)
            raise self._boundary.refused_error(real_path, named_by, suggested_grant)
        return False

    def _show_installation(self, program: str, interpreters: list[str]) -> None:
        """Make the installation visible that contains a trusted program, and the packages of a
        program of Node."""
        if prefix := installation(program, self._lookup.home):
            self._show_parts(Path(prefix), "runtime")
        if any(Path(name).name in _NODES for name in interpreters):
            for path in node_packages(program, self._lookup.home):
                self._visible.show(path, "node packages")
        for path in managers.pnpm_packages(program):
            self._visible.show(path, "node packages")

    def _show_parts(self, folder: Path, source: str) -> None:
        for path in managers.installation_parts(folder):
            self._visible.show(path, source)

    def _show_environment(self, program: str, is_trusted: bool, depth: int) -> None:
        """Make the virtual environment visible that contains a program, or the version that a shim
        leads to. Those of a package are visible already, as a part of it."""
        folder, outer = Path(program).parent, Path(program).parent.parent
        if program in self._visited_files:
            return
        if not is_trusted and not self._boundary.allows(os.path.realpath(outer)):
            return
        self._visited_files.add(program)
        if is_too_wide(str(outer), self._lookup.home):
            return
        if is_trusted:
            self._show_version(Path(program), depth)
        settings = outer / "pyvenv.cfg"
        if str(folder) in self._visited or not os.path.isfile(settings):  # noqa: PTH113
            return
        self._visited.add(str(folder))
        # Only a Python reads these settings. Beside any other program, an extension that may write
        # there could have put them.
        if not Path(program).name.startswith(("python", "pypy")):
            return
        if is_trusted:
            self._show_parts(outer, "virtual environment")
        self._show_pth_paths(outer, is_trusted)
        for line in _read_lines(settings):
            key, _, value = line.partition("=")
            if key.strip() == "home":
                for name in (Path(program).name, "python3"):
                    home = f"{value.strip()}/{name}"
                    self.follow(home, str(settings), is_trusted=is_trusted, depth=depth + 1)

    def _show_version(self, shim: Path, depth: int) -> None:
        """Make the version visible that a shim of a version manager leads to, and what the manager
        needs to find it."""
        manager = managers.find_shim_manager(shim)
        if manager is None:
            return
        root, lookup = shim.parent.parent, self._lookup
        for path in managers.installation_parts(root, manager.shown):
            self._visible.show(path, "runtime")
        selection = managers.Selection(
            variables=lookup.variables, folder=lookup.selections, home=lookup.own_home
        )
        for path in manager.find(root, shim.name, selection):
            if Path(path).parent.name == "bin":
                self.follow(path, str(shim), is_trusted=True, depth=depth + 1)
            else:
                self._visible.show(path, "runtime")

    def _show_pth_paths(self, environment: Path, is_trusted: bool) -> None:
        """Make the folders visible that the .pth files of a virtual environment name, unless the
        extension is a package: a package must not see the operator's sources. Raises Refused if a
        .pth file that is not trusted names a folder that is not visible."""
        for pth_file in sorted(environment.glob("lib/python3*/site-packages/*.pth")):
            for line in _read_lines(pth_file):
                path = os.path.join(pth_file.parent, line.strip())  # noqa: PTH118
                if not line.strip() or not os.path.isdir(path):  # noqa: PTH112
                    continue
                if not is_trusted and not self._boundary.allows(os.path.realpath(path)):
                    raise self._boundary.refused_error(os.path.realpath(path), str(pth_file))
                if not self._boundary.has_package and not is_too_wide(path, self._lookup.home):
                    self._visible.show(path, "pth file")

    def _show_libraries(self, program: str, real_path: str) -> None:
        """Make the folders visible in which a trusted Python or Node looks for packages: those of
        variables that the extension is given, and those that the operator installed for the version
        of Python, unless the extension is a package."""
        lookup, names = self._lookup, {Path(real_path).name, Path(program).name}
        if any(name.startswith("python") for name in names):
            version = re.search(r"python(3\.\d+)", Path(real_path).name)
            if lookup.own_home and version is not None and not self._boundary.has_package:
                user_packages = f"{lookup.own_home}/.local/lib/python{version[1]}"
                self._visible.show(user_packages, "user packages")
            self._show_variable("PYTHONPATH")
        if any(name.startswith("node") for name in names):
            self._show_variable("NODE_PATH")

    def _show_variable(self, name: str) -> None:
        for path in split_path_list(self._lookup.variables.get(name, "")):
            if not is_too_wide(path, self._lookup.home):
                self._visible.show(path, f"variable {name}")

    def _show_packages(
        self, program: str, real_path: str, arguments: Sequence[str] | None, depth: int
    ) -> None:
        """Give a trusted manager of packages (npx, uvx) a private cache. If the operator wrote the
        command, also make the interpreters of the manager and the named package visible."""
        runner, lookup = managers.find_runner(program, real_path), self._lookup
        if runner is None:
            return
        if "uv" in runner.programs and Path(real_path).name == "uvx":
            # uvx executes the program uv in its own folder.
            uv = str(Path(real_path).with_name("uv"))
            self.follow(uv, real_path, is_trusted=True, depth=depth + 1)
        # `runner.private` lists its caches, each by the variables and folders that can name it.
        caches = [
            managers.find_place(alternatives, lookup.variables, lookup.own_home)
            for alternatives in runner.private
        ]
        for cache in caches:
            self._visible.walk(cache)  # adds the symlinks that lead to it
        private = tuple(os.path.realpath(cache) for cache in caches if cache)
        for name in runner.needs:
            for path in lookup.find_all(name):
                self.follow(path, real_path, is_trusted=True, depth=depth + 1)
        if arguments is not None and len(private) == len(runner.private):  # all caches are known
            for alternatives in runner.shown:
                place = managers.find_place(alternatives, lookup.variables, lookup.own_home)
                if place and not is_too_wide(place, lookup.home):
                    self._visible.show(place, "runtime")
            for path in runner.find(private, arguments):
                self._show_package(Path(path), depth)
        for folder in private:
            if not is_too_wide(folder, lookup.home):
                self._visible.add_private(folder)

    def _show_package(self, path: Path, depth: int) -> None:
        """Make a package visible that the operator's command names: a file, the packages of Node,
        or a virtual environment."""
        if os.path.isfile(path / "pyvenv.cfg"):  # noqa: PTH113
            self._show_environment(str(path / "bin" / "python"), is_trusted=True, depth=depth)
        elif os.path.isfile(path) or path.name == "node_modules":  # noqa: PTH113
            self._visible.show(str(path), "package of the command")


def installation(program: str, home: str) -> str:
    """Return the prefix that a program was installed in, with its libraries: the folder above
    `bin`. Return "" if there are no libraries, or if that folder contains files of others."""
    prefix = Path(program).parent.parent
    libraries = (prefix / name for name in ("lib", "libexec", "share"))
    has_libraries = any(map(os.path.isdir, libraries))
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
        if os.path.isdir(above / "node_modules"):  # noqa: PTH112
            yield str(above / "node_modules")
            if os.path.isfile(above / "package.json"):  # noqa: PTH113
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
