"""The files that a program needs to run: its interpreter, its environment, its caches.

Programs behind shims are the normal case: a bare `python3` may be a link in a virtual environment
to an interpreter that a version manager keeps below somebody's home. So a program is followed, link
by link and first line by first line, and what it needs is shown read-only: the environment, the
interpreter's prefix, the version manager's root, the package cache.

What is followed is trusted or not. A trusted program was named by the operator, or found on the
operator's PATH. What a package wrote is not trusted: its links, first lines and settings may lead
to what is shown anyway and to runtimes of the operator; anything else is refused.
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

__all__ = ["Boundary", "Lookup", "Runtimes", "installation", "listed_paths"]

# How many scripts may be each other's interpreters; the kernel allows fewer.
_MAX_INTERPRETERS = 5

# Settings of virtual environments, and files that point to packages, have a few lines.
_SETTINGS_BYTES = 64 * 1024

# Options of env(1) that are followed by a value.
_ENV_OPTIONS = frozenset({"-u", "--unset", "-C", "--chdir"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Where the operator's programs and caches are: a home folder, and variables."""

    home: str
    variables: Mapping[str, str]

    def find(self, name: str) -> str:
        """Return the program of this name on PATH, "" if there is none; a path as it is."""
        if name.startswith("/"):
            return name
        for folder in (self.variables.get("PATH") or os.defpath).split(os.pathsep):
            path = os.path.join(folder, name)  # noqa: PTH118
            if folder and "/" not in name and os.access(path, os.X_OK):
                return path
        return ""


class Boundary(Protocol):
    """What a package may lead to."""

    @property
    def lookup(self) -> Lookup: ...
    @property
    def has_package(self) -> bool: ...
    def is_package_file(self, path: str) -> bool: ...
    def allows(self, real: str) -> bool: ...
    def is_runtime(self, names: list[str], real: str) -> bool: ...
    def refuse(self, real: str, named_by: str, grant: str = "") -> Refused: ...


class Runtimes:
    """Follows programs, and adds what they need to a collection."""

    def __init__(self, shown: PathCollection, boundary: Boundary) -> None:
        self._shown = shown
        self._boundary = boundary
        self._lookup = boundary.lookup
        self._visited: set[str] = set()

    def follow(self, program: str, named_by: str, *, is_trusted: bool, depth: int = 0) -> None:
        """Follow a program to what it really runs. Raises Refused where it leads out of bounds."""
        if program in self._visited or depth > _MAX_INTERPRETERS:
            return
        self._visited.add(program)
        real, links = self._shown.walk(program)
        if not real or not _is_executable(real):
            return  # executing it fails with the error
        real_is_trusted = self._judge(program, links, real, named_by, is_trusted)
        self._shown.add(real, "interpreter" if depth else "program")
        for path in dict.fromkeys((program, *links)):
            may_trust = is_trusted and not self._boundary.is_package_file(path)
            self._show_environment(path, may_trust, depth)
        self._show_environment(real, real_is_trusted, depth)
        prefix = installation(real, self._lookup.home)
        if prefix and self._may_show(prefix, real_is_trusted):
            self._shown.show(prefix, "runtime")
        if Path(real).name == "uvx" and real_is_trusted:  # it runs the uv beside it
            beside = str(Path(real).with_name("uv"))
            self.follow(beside, real, is_trusted=True, depth=depth + 1)
        for path, source in self._caches({Path(real).name, Path(program).name}):
            if os.path.exists(path):  # noqa: PTH110
                self._shown.show(path, source)
        for word in _first_line(real):
            if interpreter := self._lookup.find(word):
                by_path = not word.startswith("/")
                self.follow(
                    interpreter,
                    f"the first line of {real}",
                    is_trusted=real_is_trusted or by_path,
                    depth=depth + 1,
                )

    def _judge(
        self, program: str, links: list[str], real: str, named_by: str, is_trusted: bool
    ) -> bool:
        """Return whether the content of a program is trusted. Raises Refused if the program must
        not even be shown."""
        if is_trusted:
            return not self._boundary.is_package_file(real)
        names = [Path(path).name for path in (program, *links, real)]
        if self._boundary.is_runtime(names, real):
            return True
        if not self._boundary.allows(real):
            whole = installation(real, self._lookup.home)
            raise self._boundary.refuse(real, named_by, whole)
        return False

    def _may_show(self, folder: str, is_trusted: bool) -> bool:
        """Return whether a folder may be shown for the sake of a file in it."""
        return is_trusted or self._boundary.allows(os.path.realpath(folder))

    def _show_environment(self, program: str, is_trusted: bool, depth: int) -> None:
        """Show the virtual environment, or the version manager, that a program is in."""
        folder = Path(program).parent
        if str(folder) in self._visited:
            return
        outer = folder.parent
        if not self._may_show(str(outer), is_trusted):
            return
        self._visited.add(str(folder))
        if folder.name == "shims" and not is_too_wide(str(outer), self._lookup.home):
            self._shown.show(str(outer), "runtime")
        settings = outer / "pyvenv.cfg"
        if not settings.is_file() or is_too_wide(str(outer), self._lookup.home):
            return
        self._shown.show(str(outer), "virtual environment")
        self._show_pointers(outer, is_trusted)
        for line in _lines(settings):
            key, _, value = line.partition("=")
            if key.strip() == "home":
                for name in (Path(program).name, "python3"):
                    home = f"{value.strip()}/{name}"
                    self.follow(home, str(settings), is_trusted=is_trusted, depth=depth + 1)

    def _show_pointers(self, environment: Path, is_trusted: bool) -> None:
        """Show packages that a virtual environment refers to in .pth files, if the operator made
        the environment and the extension is not a package, which may not see the operator's
        sources."""
        for pointer in sorted(environment.glob("lib/python3*/site-packages/*.pth")):
            for line in _lines(pointer):
                path = os.path.join(pointer.parent, line.strip())  # noqa: PTH118
                if not line.strip() or not Path(path).is_dir():
                    continue
                if not is_trusted and not self._boundary.allows(os.path.realpath(path)):
                    raise self._boundary.refuse(os.path.realpath(path), str(pointer))
                if not self._boundary.has_package and not is_too_wide(path, self._lookup.home):
                    self._shown.show(path, "pth file")

    def _caches(self, names: set[str]) -> Iterator[tuple[str, str]]:
        """Yield where runners keep what they run, and interpreters what a user installed, each
        with its source."""
        home, variables = self._lookup.home, self._lookup.variables
        if names & {"npx", "npm", "npx-cli.js", "npm-cli.js"}:
            yield variables.get("npm_config_cache") or f"{home}/.npm", "cache"
        if names & {"uv", "uvx"}:
            yield variables.get("UV_CACHE_DIR") or f"{home}/.cache/uv", "cache"
            yield variables.get("UV_PYTHON_INSTALL_DIR") or f"{home}/.local/share/uv", "cache"
        if any(name.startswith("python") for name in names):
            for folder in Path(home, ".local", "lib").glob("python3*"):
                yield str(folder), "user packages"
            yield from self._listed("PYTHONPATH")
        if any(name.startswith("node") for name in names):
            yield from self._listed("NODE_PATH")

    def _listed(self, name: str) -> Iterator[tuple[str, str]]:
        for path in listed_paths(self._lookup.variables.get(name, "")):
            if not is_too_wide(path, self._lookup.home):
                yield path, f"variable {name}"


def installation(program: str, home: str) -> str:
    """Return the folder that a program was installed in along with what it needs; "" if it was not,
    or if that folder holds more."""
    prefix = Path(program).parent.parent
    installed = any((prefix / name).is_dir() for name in ("lib", "libexec", "share"))
    if Path(program).parent.name != "bin" or not installed or is_too_wide(str(prefix), home):
        return ""
    return str(prefix)


def listed_paths(value: str, cwd: str = "") -> list[str]:
    """Return the paths in a variable such as PYTHONPATH; relative ones only with a `cwd`."""
    paths = [path for path in value.split(os.pathsep) if path]
    if cwd:
        return [os.path.join(cwd, path) for path in paths]  # noqa: PTH118
    return [path for path in paths if path.startswith("/")]


def _lines(path: Path) -> list[str]:
    """Return the lines of a small file; none if it cannot be read."""
    try:
        return read_start(str(path), _SETTINGS_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _is_executable(path: str) -> bool:
    """Return whether a path is a file with an execute bit, which keys and documents lack."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _first_line(program: str) -> list[str]:
    """Return the programs that a script's first line names: the interpreter, and the one that env
    looks up. Their arguments are ignored."""
    words = first_words(program)
    if not words or Path(words[0]).name != "env":
        return words[:1]
    rest = iter(words[1:])
    for word in rest:
        if word in _ENV_OPTIONS:
            next(rest, "")
        elif not word.startswith("-") and "=" not in word:
            return [words[0], word]
    return words[:1]
