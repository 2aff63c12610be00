"""Decides which paths of the file system are visible to a sandboxed extension.

The operator (the author of the config or the command line) decides: visible are the paths that they
name, the programs that their PATH leads to, and the grants in `permissions.filesystem`. A package
(a manifest that the host discovered in a folder, and the files beside it) is not trusted: it can
make its own folder and runtimes visible, and nothing else. Any other path that it names raises
Refused, with the setting that would grant the path. A path is visible read-only unless it was
granted with `:rw`. Each path is kept with its source (the reason why it is visible), which users
can display.

Four modules:

    file_view      the request, the grants, the order in which paths are collected
    runtimes       the files that a program needs: interpreter, environment, packages
    managers       which parts of the folders of version and package managers are shown
    visible_paths  the collection: paths, sources, and the symlinks that lead to the paths

The functions read the file system and change nothing.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from exthost.errors import Evidence, Refused
from exthost.launch.managers import PLACE_VARIABLES, SELECTION_VARIABLES
from exthost.launch.runtimes import Lookup, Runtimes, node_packages, split_path_list
from exthost.launch.sandbox.strict import View
from exthost.launch.visible_paths import (
    SYSTEM_FOLDERS,
    PathCollection,
    is_below,
    is_too_wide,
)
from exthost.model.spec import Package

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
# The settings of runtimes, to which symlinks in /usr lead. Without them, Java cannot make a random
# number, and the module XML::SAX of Perl finds no parser.
_RUNTIME_SETTINGS = (
    "/etc/java-*-openjdk",
    "/etc/java",
    "/etc/crypto-policies",
    "/etc/dotnet",
    "/etc/perl",
    "/etc/R/Renviron",
    "/etc/R/ldpaths",
)

# A file in the settings of a Java that is secret. Java itself insists that only its owner can read
# it; a root host may run an extension as that owner.
_JAVA_PASSWORDS = "management/jmxremote.password"

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

# Never granted: the files in these folders control the kernel, processes and devices.
_FORBIDDEN = ("/proc", "/sys", "/dev")

# Working folders in which a sandboxed program sees no files of the host: the root, which is empty
# in the sandbox, and /tmp, which is private to the sandbox.
_EMPTY_FOLDERS = ("/", "/tmp")

# Variables from which runtimes read further paths. A package may set them, too.
_PATH_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "NODE_PATH", *PLACE_VARIABLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """Everything that decides which paths an extension sees.

    argv     the program by its absolute path, and its arguments
    command  the program as it was written in the config or manifest, before it was looked up
    folders  folders that the operator named: a configured cwd, the folder of a named manifest
    granted  the entries of `permissions.filesystem` as written
    network  whether the extension may use the network, and so needs its files in /etc
    state    the state folder of the extension, which it may write to; "" for none
    env      the environment variables of the extension
    host     the environment variables of the host
    package  the package of the extension, which is not trusted; None if the operator wrote all
             settings of the extension, or named its manifest
    is_operators  whether the operator wrote the command and its arguments, and no manifest did
    protected  the paths in granted folders that the extension cannot write, because they lead to
             its program
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
    is_operators: bool = True
    protected: tuple[str, ...] = ()

    def is_from_package(self, argument: str) -> bool:
        """Return whether this argument (or the command itself) comes from the package."""
        return self.package is not None and argument in self.package.argv

    def variable(self, name: str) -> str:
        """Return the value that the operator gave to an environment variable; "" if it is not set,
        or set only by the package."""
        value = self.env.get(name, "")
        if self.package is not None and self.package.env.get(name) == value:
            value = ""
        return value or self.host.get(name, "")

    def given_variable(self, name: str) -> str:
        """Return the value of an environment variable of the extension; "" if it is not given one,
        or gets its value from the package."""
        value = self.env.get(name, "")
        is_from_package = self.package is not None and self.package.env.get(name) == value
        return "" if is_from_package else value

    @property
    def home(self) -> str:
        """The operator's home folder."""
        return self.variable("HOME") or os.path.expanduser("~")  # noqa: PTH111


def compute_view(request: ViewRequest) -> View:
    """Return the paths that the extension sees. Raises Refused for a grant that cannot be given,
    and for a path that only its package names."""
    visible = PathCollection(system_view(request.network), request.protected)
    for path, may_write in resolve_grants(request):
        visible.grant(path, may_write)
    boundary = _Boundary(request, visible)
    if boundary.root:
        visible.show(boundary.root, "package")
    for folder in request.folders:
        if not is_too_wide(folder, request.home):
            visible.show(folder, "own folder")
    Runtimes(visible, boundary).follow(
        request.argv[0],
        "its command",
        is_trusted=not _package_chose_program(request),
        operator_arguments=request.argv[1:] if _is_operators_program(request) else None,
    )
    for argument in request.argv[1:]:
        _show_argument(visible, boundary, request, argument)
    _check_variables(boundary, request)
    _check_cwd(boundary, request)
    return replace(
        visible.view(),
        cwd=os.path.realpath(request.cwd),
        state=os.path.realpath(request.state) if request.state else "",
    )


@cache
def system_view(network: bool = False) -> View:
    """Return the paths that every sandboxed program sees: the system's programs and libraries, and
    some files of /etc. `network` adds the files that name lookups and TLS need. Cached, because
    these paths do not change while the host runs."""
    visible = PathCollection()
    for path in (*SYSTEM_FOLDERS, *_SYSTEM_FILES, *(_NETWORK_FILES if network else ())):
        if os.path.exists(path):  # noqa: PTH110
            visible.show(path, "system")
    for path in runtime_settings("/"):
        visible.show(path, "system")
    return visible.view()


def runtime_settings(root: str) -> Iterator[str]:
    """Yield the settings of runtimes below /etc of this root that exist, without secrets."""
    for pattern in _RUNTIME_SETTINGS:
        for folder in sorted(Path(root).glob(pattern.lstrip("/"))):
            if os.path.lexists(folder / _JAVA_PASSWORDS):
                names = sorted(path for path in folder.iterdir() if path.name != "management")
                yield from map(str, names)
            else:
                yield str(folder)


# -- paths that a package names ------------------------------------------------------------------


class _Boundary:
    """Decides which paths a package may make visible. `root` is the real path of the package's
    folder; "" if there is no package, or if its folder is too wide to be visible.

    Implements the protocol `runtimes.Boundary`."""

    def __init__(self, request: ViewRequest, visible: PathCollection) -> None:
        self._request = request
        self._visible = visible
        self._runtimes: dict[str, PathCollection] = {}
        self.root = ""
        if request.package is not None and not is_too_wide(request.package.root, request.home):
            self.root = os.path.realpath(request.package.root)

    @property
    def lookup(self) -> Lookup:
        """Where the operator's programs and caches are."""
        request = self._request
        names = (*_PATH_VARIABLES, *SELECTION_VARIABLES)
        variables = {name: request.given_variable(name) for name in names}
        own_home = request.given_variable("HOME")
        return Lookup(
            home=request.home,
            variables=variables | {"PATH": request.variable("PATH")},
            own_home=own_home if own_home.startswith("/") else "",
            selections=self._selection_folder(),
        )

    def _selection_folder(self) -> str:
        """Return the working folder if a file there may select a version of a runtime, such as
        .python-version: the extension sees the folder, and neither the package nor the extension
        can write there. Otherwise return ""."""
        real_path = os.path.realpath(self._request.cwd)
        is_changeable = self.is_package_file(real_path) or self._visible.may_write(real_path)
        return real_path if self.allows(real_path) and not is_changeable else ""

    @property
    def has_package(self) -> bool:
        return self._request.package is not None

    def is_package_file(self, path: str) -> bool:
        """Return whether the package could have written the file at this path. If its folder
        is too wide (`root` is ""), the result is True for every path."""
        return self.has_package and (not self.root or is_below(path, self.root))

    def allows(self, real_path: str) -> bool:
        """Return whether this real path is visible already, whatever the package names."""
        return self._visible.has(real_path)

    def is_runtime(self, names: list[str], real_path: str) -> bool:
        """Return whether a program is one of the system's, of the host's own Python, or one that
        the operator's PATH leads to. `names` are the file names under which the program was
        reached, and `real_path` is its real path."""
        if self.is_package_file(real_path) and real_path != self.root:
            return False
        if any(is_below(real_path, os.path.realpath(folder)) for folder in SYSTEM_FOLDERS):
            return True
        prefix = os.path.realpath(sys.base_prefix)  # the installation of the host's own Python
        if is_below(real_path, prefix) and not is_too_wide(prefix, self._request.home):
            return True
        return any(self._find_runtime_paths(name).has(real_path) for name in names)

    def _find_runtime_paths(self, name: str) -> PathCollection:
        """Return the paths that the program of this name on the operator's PATH would see."""
        if name not in self._runtimes:
            paths = self._runtimes[name] = PathCollection()
            without_package = replace(self._request, package=None)
            program = self.lookup.find(name)
            if program:
                boundary = _Boundary(without_package, paths)
                Runtimes(paths, boundary).follow(program, "PATH", is_trusted=True)
        return self._runtimes[name]

    def refused_error(self, real_path: str, named_by: str, grant: str = "") -> Refused:
        """Return the error for a path that only the package names.

        named_by  what names the path: an argument, a variable, a file
        grant     the path that the error suggests to grant, if it is not `real_path`"""
        request = self._request
        grants = ", ".join(f'"{path}"' for path in (*request.granted, grant or real_path))
        return Refused(
            "X0390",
            f"{named_by} leads to {real_path}, outside its package and the system's runtimes",
            extension=request.extension,
            help=f"to show it that: [overrides.{toml_key(request.extension)}.permissions] "
            f"filesystem = [{grants}]",
            evidence=Evidence(path=real_path, key="permissions.filesystem"),
        )


def toml_key(id: str) -> str:
    """Return an extension's id as a TOML key, quoted if that is necessary."""
    if id.isascii() and id.replace("-", "").replace("_", "").isalnum():
        return id
    return json.dumps(id, ensure_ascii=False)  # TOML has no escapes of surrogate pairs


def _package_chose_program(request: ViewRequest) -> bool:
    """Return whether the package, not the operator, decides which file is executed: the package
    gives the path of the program, or the PATH on which a bare name is looked up."""
    command = request.command or request.argv[0]
    if not request.is_from_package(command) or request.package is None:
        return False
    return "/" in command or "PATH" in request.package.env


def _is_operators_program(request: ViewRequest) -> bool:
    """Return whether the operator wrote the command and all its arguments, and the program is not a
    file beside the extension: the command is a name on PATH, or an absolute path outside the
    folders of the extension."""
    command = request.command or request.argv[0]
    program = os.path.realpath(request.argv[0])
    folders = [*request.folders, *([request.package.root] if request.package is not None else [])]
    return (
        request.is_operators
        and ("/" not in command or command.startswith("/"))
        and not any(map(request.is_from_package, (command, *request.argv[1:])))
        and not any(is_below(program, os.path.realpath(folder)) for folder in folders)
    )


def _show_argument(
    visible: PathCollection, boundary: _Boundary, request: ViewRequest, argument: str
) -> None:
    """Make a file visible that an argument names: the file alone, without its folder. A file that
    the package names must be visible already."""
    path = os.path.join(request.cwd, argument)  # noqa: PTH118
    if not os.path.isfile(path):  # noqa: PTH113
        return
    real_path, _ = visible.walk(path)
    if not real_path:
        return
    if request.is_from_package(argument):
        if not boundary.allows(real_path):
            raise boundary.refused_error(real_path, f"its argument {argument!r}")
        return
    visible.add(real_path, "argument")
    if real_path.endswith((".js", ".mjs", ".cjs", ".ts")):
        for path in node_packages(real_path, request.home):
            visible.show(path, "node packages")


def _check_variables(boundary: _Boundary, request: ViewRequest) -> None:
    """Raise Refused if the package sets a variable such as PYTHONPATH to a path that is not
    visible."""
    if request.package is None:
        return
    for name in _PATH_VARIABLES:
        value = request.env.get(name, "")
        if not value or request.package.env.get(name) != value:
            continue
        for path in split_path_list(value, request.cwd):
            real_path = os.path.realpath(path)
            if real_path in _EMPTY_FOLDERS or not os.path.exists(real_path):  # noqa: PTH110
                continue
            if not boundary.allows(real_path):
                raise boundary.refused_error(real_path, f"its variable {name}")


def _check_cwd(boundary: _Boundary, request: ViewRequest) -> None:
    """Raise Refused if the package sets a working folder that is neither visible nor its own."""
    package = request.package
    real_path = os.path.realpath(request.cwd)
    if package is None or package.cwd != request.cwd or real_path in _EMPTY_FOLDERS:
        return
    # If the package is a single program, it starts in the folder of that program, which is not
    # visible as a whole.
    is_beside = real_path == os.path.dirname(os.path.realpath(package.root))  # noqa: PTH120
    if not boundary.allows(real_path) and not is_beside and boundary.root:
        raise boundary.refused_error(real_path, "its working folder")


# -- grants --------------------------------------------------------------------------------------


def resolve_grants(request: ViewRequest) -> tuple[tuple[str, bool], ...]:
    """Return the real path of each entry of `permissions.filesystem`, and whether the extension may
    write there. Raises Refused for an entry that cannot be granted."""
    return tuple(_resolve_grant(entry, request) for entry in request.granted)


def _resolve_grant(entry: str, request: ViewRequest) -> tuple[str, bool]:
    """Return the real path of an entry of `permissions.filesystem`, and whether it is writable.
    Raises Refused for an entry that cannot be granted."""
    path, may_write = (entry[:-3], True) if entry.endswith(":rw") else (entry, False)
    path = path.removesuffix(":ro")
    full = os.path.abspath(os.path.join(request.cwd, os.path.expanduser(path)))  # noqa: PTH100, PTH111, PTH118
    real_path = os.path.realpath(full)

    def refused_error(code: str, reason: str, help: str) -> Refused:
        return Refused(
            code,
            f"permissions.filesystem names {path!r}, {reason}",
            extension=request.extension,
            help=help,
            evidence=Evidence(path=full, key="permissions.filesystem"),
        )

    for candidate in (full, real_path):
        if candidate == "/" or any(is_below(candidate, forbidden) for forbidden in _FORBIDDEN):
            via_symlink = f", which leads to {candidate}" if candidate != full else ""
            raise refused_error(
                "X0381", f"and that is never granted{via_symlink}", "name the folder that it needs"
            )
    if not os.path.lexists(full):
        from exthost.process.user_ids import find_forbidden_folder

        if closed := find_forbidden_folder(full):
            reason = f"and the folder {closed} is closed to the user of the host"
            raise refused_error("X0382", reason, "name a path that this user can reach")
        raise refused_error("X0382", "and there is nothing", "create it, or take the entry out")
    if real_path != full:
        raise refused_error(
            "X0383",
            f"and on the way is a link: it leads to {real_path}",
            f"write {real_path} if that is what you mean",
        )
    return real_path, may_write
