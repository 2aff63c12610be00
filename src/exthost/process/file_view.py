"""What a sandboxed extension is shown of the file system.

The list comes from the operator: what a config or a command line names, what its PATH leads to, and
what `permissions.filesystem` grants. A package (a manifest that was merely discovered, and all that
lies beside it) may lead only into its own folder and to runtimes; any other path is refused, with
the line that would grant it. Each path is shown read-only unless it was granted with `:rw`, and is
kept with its source, so that the whole list can be displayed.

    file_view     the request, the grants, the order in which paths are collected
    runtimes      the files that a program needs: interpreter, environment, caches
    visible_paths   the collection itself: paths, sources and the links on the way

Looks at the file system and changes nothing. Raises Refused for what cannot be shown.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from exthost.errors import Evidence, Refused
from exthost.process.runtimes import Lookup, Runtimes, listed_paths
from exthost.process.visible_paths import (
    SYSTEM_FOLDERS,
    PathCollection,
    is_below,
    is_too_wide,
)
from exthost.sandbox.strict import View
from exthost.spec import Package

__all__ = ["ViewRequest", "compute_view", "system_view", "toml_key"]

# The files of /etc that loaders, libraries and name lookups read; all are public. Each costs a
# tenth of a millisecond at every start.
_SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
)
_NETWORK_FILES = (
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
)

# Never granted: they give access to the machine, not to files.
_FORBIDDEN = ("/proc", "/sys", "/dev")

# Working folders that show nothing of the host: the sealed root, and the private /tmp.
_EMPTY_FOLDERS = ("/", "/tmp")

# Variables of a package that runtimes read further paths from.
_PATH_VARIABLES = (
    "PYTHONPATH",
    "PYTHONHOME",
    "NODE_PATH",
    "npm_config_cache",
    "UV_CACHE_DIR",
    "UV_PYTHON_INSTALL_DIR",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """Everything that decides what an extension is shown.

    argv     the program by its absolute path, and its arguments
    command  the program as it was written, before it was looked up
    folders  folders that the operator named: a configured cwd, the folder of a named manifest
    granted  the entries of `permissions.filesystem` as written
    state    a folder that it may write in, or ""
    env      the variables of the child; `host` are the variables of the host
    package  the extension's own package, which is not trusted; None if the operator wrote it all
    config   the config of the host, which it must not write; "" for none
    """

    extension: str
    argv: tuple[str, ...]
    cwd: str
    command: str = ""
    folders: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()
    network: bool = False
    state: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    host: Mapping[str, str] = field(default_factory=dict, repr=False)
    package: Package | None = None
    config: str = ""

    def is_of_package(self, word: str) -> bool:
        """Return whether this word of the command comes from the package."""
        return self.package is not None and word in self.package.argv

    def variable(self, name: str) -> str:
        """Return a variable as the operator set it; "" if nobody or only the package did."""
        value = self.env.get(name, "")
        if self.package is not None and self.package.env.get(name) == value:
            value = ""
        return value or self.host.get(name, "")

    @property
    def home(self) -> str:
        """The operator's home folder."""
        return self.variable("HOME") or os.path.expanduser("~")  # noqa: PTH111


def compute_view(request: ViewRequest) -> View:
    """Return what the extension is shown. Raises Refused for a grant that cannot be given, and for
    a path that only its package leads to."""
    shown = PathCollection(system_view(request.network))
    for entry in request.granted:
        path, may_write = _resolve_grant(entry, request)
        shown.grant(path, may_write)
    boundary = _Boundary(request, shown)
    if boundary.root:
        shown.show(boundary.root, "package")
    for folder in request.folders:
        if not is_too_wide(folder, request.home):
            shown.show(folder, "own folder")
    Runtimes(shown, boundary).follow(
        request.argv[0], "its command", is_trusted=not _package_chose_program(request)
    )
    for word in request.argv[1:]:
        _show_argument(shown, boundary, request, word)
    _check_variables(boundary, request)
    _check_cwd(boundary, request)
    if request.config and os.path.exists(request.config):  # noqa: PTH110
        shown.guard(os.path.realpath(request.config))
    return replace(
        shown.view(),
        cwd=os.path.realpath(request.cwd),
        state=os.path.realpath(request.state) if request.state else "",
    )


@cache
def system_view(network: bool = False) -> View:
    """Return what every program is shown. Cached for the life of the host."""
    shown = PathCollection()
    for path in (*SYSTEM_FOLDERS, *_SYSTEM_FILES, *(_NETWORK_FILES if network else ())):
        if os.path.exists(path):  # noqa: PTH110
            shown.show(path, "system")
    return shown.view()


# -- what a package may lead to ------------------------------------------------------------------


class _Boundary:
    """Decides about paths that a package leads to. Without a package there are none."""

    def __init__(self, request: ViewRequest, shown: PathCollection) -> None:
        self._request = request
        self._shown = shown
        self._runtimes: dict[str, PathCollection] = {}
        self.root = ""
        if request.package is not None and not is_too_wide(request.package.root, request.home):
            self.root = os.path.realpath(request.package.root)

    @property
    def lookup(self) -> Lookup:
        """Where the operator's programs and caches are."""
        variables = {name: self._request.variable(name) for name in ("PATH", *_PATH_VARIABLES)}
        return Lookup(home=self._request.home, variables=variables)

    @property
    def has_package(self) -> bool:
        return self._request.package is not None

    def is_package_file(self, path: str) -> bool:
        """Return whether the package could have written what is at this path."""
        return self.has_package and (not self.root or is_below(path, self.root))

    def allows(self, real: str) -> bool:
        """Return whether this real path is shown anyway."""
        return self._shown.has(real)

    def is_runtime(self, names: list[str], real: str) -> bool:
        """Return whether a program is the system's, or one that the operator's PATH leads to."""
        if self.is_package_file(real) and real != self.root:
            return False
        if any(is_below(real, os.path.realpath(folder)) for folder in SYSTEM_FOLDERS):
            return True
        prefix = os.path.realpath(sys.base_prefix)  # of the host's own interpreter
        if is_below(real, prefix) and not is_too_wide(prefix, self._request.home):
            return True
        return any(self._runtime(name).has(real) for name in names)

    def _runtime(self, name: str) -> PathCollection:
        """Return what the program of this name on the operator's PATH would be shown."""
        if name not in self._runtimes:
            found = self._runtimes[name] = PathCollection()
            nobody = replace(self._request, package=None)
            program = self.lookup.find(name)
            if program:
                Runtimes(found, _Boundary(nobody, found)).follow(program, "PATH", is_trusted=True)
        return self._runtimes[name]

    def refuse(self, real: str, named_by: str, grant: str = "") -> Refused:
        """Return the error for a path that only the package leads to."""
        request = self._request
        grants = ", ".join(f'"{path}"' for path in (*request.granted, grant or real))
        return Refused(
            "X0390",
            f"{named_by} leads to {real}, outside its package and the system's runtimes",
            extension=request.extension,
            help=f"to show it that: [overrides.{toml_key(request.extension)}.permissions] "
            f"filesystem = [{grants}]",
            evidence=Evidence(path=real, key="permissions.filesystem"),
        )


def toml_key(id: str) -> str:
    """Return an extension's id as a part of a TOML key."""
    return id if id.isascii() and id.replace("-", "").replace("_", "").isalnum() else json.dumps(id)


def _package_chose_program(request: ViewRequest) -> bool:
    """Return whether the package, and not the operator, decides which file is the program: it gives
    a path, or the PATH on which a bare name is looked up."""
    command = request.command or request.argv[0]
    if not request.is_of_package(command) or request.package is None:
        return False
    return "/" in command or "PATH" in request.package.env


def _show_argument(
    shown: PathCollection, boundary: _Boundary, request: ViewRequest, word: str
) -> None:
    """Show a file that is named among the arguments: the file alone."""
    path = os.path.join(request.cwd, word)  # noqa: PTH118
    if not os.path.isfile(path):  # noqa: PTH113
        return
    real, _ = shown.walk(path)
    if not real:
        return
    if request.is_of_package(word):
        if not boundary.allows(real):
            raise boundary.refuse(real, f"its argument {word!r}")
        return
    shown.add(real, "argument")
    if real.endswith((".js", ".mjs", ".cjs", ".ts")):
        for folder in _node_packages(real, request.home):
            shown.show(folder, "node packages")


def _node_packages(script: str, home: str) -> Iterator[str]:
    """Yield the nearest packages above a node script of the operator."""
    for above in Path(script).parents:
        if is_too_wide(str(above), home):
            return
        if (above / "node_modules").is_dir():
            yield str(above / "node_modules")
            if (above / "package.json").is_file():
                yield str(above / "package.json")
            return


def _check_variables(boundary: _Boundary, request: ViewRequest) -> None:
    """Raise Refused for a variable by which a package leads a runtime elsewhere."""
    if request.package is None:
        return
    for name in _PATH_VARIABLES:
        value = request.env.get(name, "")
        if not value or request.package.env.get(name) != value:
            continue
        for path in listed_paths(value, request.cwd):
            real = os.path.realpath(path)
            if os.path.exists(real) and not boundary.allows(real):  # noqa: PTH110
                raise boundary.refuse(real, f"its variable {name}")


def _check_cwd(boundary: _Boundary, request: ViewRequest) -> None:
    """Raise Refused for a working folder that a package chose outside itself."""
    package, real = request.package, os.path.realpath(request.cwd)
    if package is None or package.cwd != request.cwd or real in _EMPTY_FOLDERS:
        return
    # A program that is its own package lies in a folder that is not shown, and starts there.
    is_beside = real == os.path.dirname(os.path.realpath(package.root))  # noqa: PTH120
    if not boundary.allows(real) and not is_beside and boundary.root:
        raise boundary.refuse(real, "its working folder")


# -- what was granted ----------------------------------------------------------------------------


def _resolve_grant(entry: str, request: ViewRequest) -> tuple[str, bool]:
    """Return the real path of an entry, and whether it may be written."""
    path, may_write = (entry[:-3], True) if entry.endswith(":rw") else (entry, False)
    path = path.removesuffix(":ro")
    full = os.path.abspath(os.path.join(request.cwd, os.path.expanduser(path)))  # noqa: PTH100, PTH111, PTH118
    real = os.path.realpath(full)

    def refused(code: str, why: str, help: str) -> Refused:
        return Refused(
            code,
            f"permissions.filesystem names {path!r}, {why}",
            extension=request.extension,
            help=help,
            evidence=Evidence(path=full, key="permissions.filesystem"),
        )

    for candidate in (full, real):
        if candidate == "/" or any(is_below(candidate, forbidden) for forbidden in _FORBIDDEN):
            led = f", which leads to {candidate}" if candidate != full else ""
            raise refused(
                "X0381", f"and that is never granted{led}", "name the folder that it needs"
            )
    if not os.path.lexists(full):
        raise refused("X0382", "and there is nothing", "create it, or take the entry out")
    if real != full:
        raise refused(
            "X0383",
            f"and on the way is a link: it leads to {real}",
            f"write {real} if that is what you mean",
        )
    return real, may_write
