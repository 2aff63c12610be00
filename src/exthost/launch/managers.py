"""Lists what a sandboxed program is shown of the folders of version and package managers.

Managers keep interpreters and programs beside credentials, logs, caches and the environments of
other packages. So no folder of a manager is shown as a whole: the tables below name the parts that
a program needs to run, and nothing else is shown. Three kinds of managers:

    INSTALLATION_PARTS  a program of nvm, conda, sdkman, fnm or pipx lies in a folder of its own,
                        the installation. These parts of an installation are shown.
    SHIM_MANAGERS       a program of pyenv, rbenv, nodenv, asdf, mise or Volta is a shim: a script
                        or symlink that looks up the selected version, and executes that.
    PACKAGE_RUNNERS     uv, npm and pnpm run packages by name. Each gets an empty private cache in
                        memory. Of the user's folders it sees the package that is named, if that is
                        installed.

A place is a tuple of alternative paths, most of which begin with a variable. The first alternative
whose variable is set counts. The functions only list paths; `runtimes` follows symlinks and shows
the paths.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exthost.process.small_files import read_start

# Such as ("$UV_CACHE_DIR", "$XDG_CACHE_HOME/uv", "~/.cache/uv").
Place = tuple[str, ...]

# The parts of an installation, or of a virtual environment, that programs read. Missing on purpose:
# `etc` (npmrc with tokens of a registry, variables that conda sets), `conda-meta` (such variables),
# `envs` and `pkgs` (other environments of conda), receipts of pipx and uv, and all hidden files.
INSTALLATION_PARTS = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share", "ssl"),
    "pyvenv.cfg",
    # Java, and programs for it
    *("conf", "jmods", "legal", "release", "boot"),
    # Go
    *("src", "pkg", "go.env", "VERSION"),
    # Erlang
    *("erts-*", "releases"),
)

# How much is read of a file that names a version, and of a script. They are short.
_SELECTION_BYTES = 16 * 1024
_SHIM_BYTES = 64 * 1024

# A version or the name of a tool: one component of a path.
_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9._+@-]+")

# The most folders of packages that are followed from one program of pnpm.
_MAX_PACKAGES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Where a shim manager looks for the selected version.

    variables  the variables that were given to the program
    folder     the working folder of the program; "" if its files must not select anything
    home       the home folder of the program
    """

    variables: Mapping[str, str]
    folder: str
    home: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimManager:
    """A manager whose programs are shims.

    shims    the folder of its root that contains the shims
    markers  files or folders by which its root is recognised
    shown    the parts of its root that every shim needs
    find     yields the paths below its root that a shim executes or reads, each a program or a
             file. Its arguments are the root, the name of the shim, and the selection
    """

    name: str
    shims: str
    markers: tuple[str, ...]
    shown: tuple[str, ...]
    find: Callable[[Path, str, Selection], Iterator[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRunner:
    """A manager that downloads a package and runs it.

    programs   the file names of the manager's own program
    private    the places that are empty and writable for the program, in memory
    shown      the places that are shown whatever is run
    needs      the names of programs that it looks up on PATH
    find       yields the paths of the package that the arguments name, if it is there already. Its
               arguments are the private folders, and the arguments of the manager
    install    returns, for a person, the command that installs the package that the arguments of
               the manager name, so that it runs without network; "" if they name none
    """

    name: str
    programs: frozenset[str]
    private: tuple[Place, ...]
    shown: tuple[Place, ...] = ()
    needs: tuple[str, ...] = ()
    find: Callable[[tuple[str, ...], Sequence[str]], Iterator[str]]
    install: Callable[[Sequence[str]], str]


# -- pyenv, rbenv, nodenv ------------------------------------------------------------------------


def _pyenv_like(name: str, variable: str, file: str) -> ShimManager:
    """Return the row of pyenv, or of a manager that works in the same way."""

    def find(root: Path, program: str, selection: Selection) -> Iterator[str]:
        for version in _select_versions(root, variable, file, selection):
            if folder := _newest(root / "versions", version):
                yield str(folder / "bin" / program)

    return ShimManager(
        name=name,
        shims="shims",
        markers=(f"libexec/{name}",),
        shown=("shims", "bin", "libexec", f"{name}.d", "version"),
        find=find,
    )


def _select_versions(root: Path, variable: str, file: str, selection: Selection) -> list[str]:
    """Return the versions that a variable selects, or else a file in the working folder, or else
    the file `version` of the manager."""
    if value := selection.variables.get(variable):
        return _names(value.replace(":", " "))
    folder = Path(selection.folder) if selection.folder else None
    for path in (*((folder / file,) if folder is not None else ()), root / "version"):
        if names := _names(_read(path, _SELECTION_BYTES)):
            return names
    return []


def _newest(versions: Path, prefix: str) -> Path | None:
    """Return the folder of a version, or of the newest one that begins with it: 3.12 for 3.12.4."""
    if _is_folder(versions / prefix):
        return versions / prefix
    candidates = [path for path in versions.glob(f"{prefix}.*") if _is_folder(path)]
    return max(candidates, key=lambda path: _version_key(path.name), default=None)


def _version_key(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


# -- asdf, mise ----------------------------------------------------------------------------------


def _find_in_installs(root: Path, program: str, selection: Selection) -> Iterator[str]:
    """Yield the selected program of asdf or mise. `.tool-versions` has a line `tool version …` for
    each tool; the file in the working folder comes before the one in the home folder."""
    found = False
    for folder in (selection.folder, selection.home):
        path = Path(folder or "/", ".tool-versions")
        if not folder or found or not (text := _read(path, _SELECTION_BYTES)):
            continue
        yield str(path)
        for line in text.splitlines():
            tool, *versions = _names(line.partition("#")[0]) or [""]
            for version in versions[:1]:  # further versions are fallbacks
                executable = root / "installs" / tool / version / "bin" / program
                if _exists(executable):
                    found = True
                    yield str(root / "plugins" / tool)
                    yield str(executable)


# -- Volta ---------------------------------------------------------------------------------------


def _find_in_volta(root: Path, program: str, selection: Selection) -> Iterator[str]:
    """Yield the selected Node of Volta, and the package that a shim belongs to."""
    user = root / "tools" / "user"
    platform = _read_json(user / "platform.json")
    package = ""
    if _exists(user / "bins" / f"{program}.json"):
        described = _read_json(user / "bins" / f"{program}.json")
        package = str(described.get("package", ""))
        platform = described.get("platform", {})
        yield str(user / "bins" / f"{program}.json")
    else:
        yield str(user / "platform.json")
    node = platform.get("node") if isinstance(platform, dict) else None
    version = node.get("runtime") if isinstance(node, dict) else node
    if isinstance(version, str) and _NAME.fullmatch(version):
        yield str(root / "tools" / "image" / "node" / version / "bin" / "node")
    if package and all(_NAME.fullmatch(part) for part in package.split("/")):
        yield str(user / "packages" / f"{package}.json")
        yield str(root / "tools" / "image" / "packages" / package)


SHIM_MANAGERS = (
    _pyenv_like("pyenv", "PYENV_VERSION", ".python-version"),
    _pyenv_like("rbenv", "RBENV_VERSION", ".ruby-version"),
    _pyenv_like("nodenv", "NODENV_VERSION", ".node-version"),
    ShimManager(
        name="asdf, mise",
        shims="shims",
        markers=("installs",),
        shown=("shims", "bin", "lib", "libexec"),
        find=_find_in_installs,
    ),
    ShimManager(
        name="volta",
        shims="bin",
        markers=("tools/image", "tools/user"),
        shown=("bin", "layout.v[0-9]"),
        find=_find_in_volta,
    ),
)


def find_shim_manager(shim: Path) -> ShimManager | None:
    """Return the manager that a shim belongs to; None if the program is not a shim."""
    root = shim.parent.parent
    for manager in SHIM_MANAGERS:
        if shim.parent.name == manager.shims and all(
            _exists(root / marker) for marker in manager.markers
        ):
            return manager
    return None


def installation_parts(folder: Path, parts: Sequence[str] = INSTALLATION_PARTS) -> Iterator[str]:
    """Yield the parts of an installation, an environment or a manager's root that exist."""
    for part in parts:
        if "*" in part or "[" in part:
            yield from sorted(str(path) for path in folder.glob(part))
        elif _exists(folder / part):
            yield str(folder / part)


# -- uv, npm, pnpm -------------------------------------------------------------------------------

# Options whose value is the next argument. An option that is missing here is taken for one without
# a value, and its value for the name of the package: then the package is not found.
_UV_VALUES = frozenset(
    (
        *("--from", "--with", "--with-editable", "--with-requirements", "--python", "-p"),
        *("--index", "--default-index", "--index-url", "-i", "--extra-index-url"),
        *("--find-links", "-f", "--cache-dir", "--directory", "--project", "--config-file"),
        *("--env-file", "--constraints", "-c", "--overrides", "--exclude-newer", "--color"),
    )
)
_NPM_VALUES = frozenset(
    (
        *("--package", "-p", "--call", "-c", "--cache", "--prefix", "--registry"),
        *("--workspace", "-w", "--userconfig", "--loglevel", "--script-shell"),
        "--node-options",
    )
)
# npx asks the registry at each start, also for a package that is installed.
_NAME_PROGRAM = ", and name its program as the command"

_EXACT_VERSION = re.compile(r"@?[^@]+@\d+\.\d+\.\d+[\w.+-]*")


def _find_for_uv(private: tuple[str, ...], arguments: Sequence[str]) -> Iterator[str]:
    """Yield the environment of an installed tool, and the receipt by which uv decides whether it is
    what the arguments name. The URLs in a receipt may contain passwords; then it is left out."""
    if not (package := _package_of_uv(arguments)):
        return
    folder = Path(private[1], package)  # the folder of tools: the second place of the row of uv
    yield str(folder)
    receipt = _read(folder / "uv-receipt.toml", _SELECTION_BYTES)
    if receipt and not re.search(r"://[^/\s\"]*@", receipt):
        yield str(folder / "uv-receipt.toml")


def _package_of_uv(arguments: Sequence[str]) -> str:
    """Return the package that the arguments of uvx or `uv tool run` name, as uv names the folder of
    an installed tool."""
    if [*arguments[:2]] == ["tool", "run"]:
        arguments = arguments[2:]
    options, name = _split_options(arguments, _UV_VALUES)
    named = next((value for option, value in options if option == "--from"), name)
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", named)
    if match is None:
        return ""
    # A version, extras or a condition can follow: server@1.2, server[cli]>=1. Anything else is not
    # the name of a package, but a path or a URL.
    rest = named[match.end() :]
    if rest and not re.fullmatch(r"[\[@=<>!~; ].*", rest):
        return ""
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def _install_with_uv(arguments: Sequence[str]) -> str:
    """Implements `PackageRunner.install`, as the two functions below for npm and pnpm."""
    package = _package_of_uv(arguments)
    return f"uv tool install {package}" if package else ""


def _find_for_npm(private: tuple[str, ...], arguments: Sequence[str]) -> Iterator[str]:
    """Yield the parts of the folder in which npx keeps a package of an exact version. Of any other
    package npx may want to write a newer version there."""
    packages = _packages_of_npm(arguments)
    if packages and all(_EXACT_VERSION.fullmatch(package) for package in packages):
        # npx names the folder after this digest.
        digest = hashlib.sha512("\n".join(sorted(packages)).encode()).hexdigest()
        folder = Path(private[0], "_npx", digest[:16])
        yield from (str(folder / "node_modules"), str(folder / "package.json"))


def _packages_of_npm(arguments: Sequence[str]) -> list[str]:
    """Return the packages that the arguments of npx or `npm exec` name."""
    if [*arguments[:1]] in (["exec"], ["x"]):
        arguments = arguments[1:]
    options, name = _split_options(arguments, _NPM_VALUES)
    named = [value for option, value in options if option in ("--package", "-p")]
    return named or ([name] if name else [])


def _install_with_npm(arguments: Sequence[str]) -> str:
    packages = _packages_of_npm(arguments)
    return f"npm install -g {' '.join(packages)}{_NAME_PROGRAM}" if packages else ""


def _install_with_pnpm(arguments: Sequence[str]) -> str:
    arguments = arguments[1:] if [*arguments[:1]] == ["dlx"] else arguments
    _, name = _split_options(arguments, _NPM_VALUES)
    return f"pnpm add -g {name}{_NAME_PROGRAM}" if name else ""


def _split_options(
    arguments: Sequence[str], with_value: frozenset[str]
) -> tuple[list[tuple[str, str]], str]:
    """Return the options before the first argument that is not one, with their values, and that
    argument; "" if there is none."""
    options, remaining = list[tuple[str, str]](), iter(arguments)
    for argument in remaining:
        option, equals, value = argument.partition("=")
        if argument == "--":
            return options, next(remaining, "")
        if not argument.startswith("-"):
            return options, argument
        if not equals and option in with_value:
            value = next(remaining, "")
        options.append((option, value))
    return options, ""


PACKAGE_RUNNERS = (
    PackageRunner(
        name="uv",
        programs=frozenset({"uv", "uvx"}),
        private=(
            ("$UV_CACHE_DIR", "$XDG_CACHE_HOME/uv", "~/.cache/uv"),
            ("$UV_TOOL_DIR", "$XDG_DATA_HOME/uv/tools", "~/.local/share/uv/tools"),
        ),
        shown=(("$UV_PYTHON_INSTALL_DIR", "$XDG_DATA_HOME/uv/python", "~/.local/share/uv/python"),),
        needs=("python3", "python"),
        find=_find_for_uv,
        install=_install_with_uv,
    ),
    PackageRunner(
        name="npm",
        programs=frozenset({"npm", "npx", "npm-cli.js", "npx-cli.js"}),
        private=(("$npm_config_cache", "$NPM_CONFIG_CACHE", "~/.npm"),),
        needs=("node",),
        find=_find_for_npm,
        install=_install_with_npm,
    ),
    PackageRunner(
        name="pnpm",
        programs=frozenset({"pnpm", "pnpx", "pnpm.cjs", "pnpx.cjs", "pnpm.mjs", "pnpx.mjs"}),
        private=(
            ("$XDG_CACHE_HOME/pnpm", "~/.cache/pnpm"),
            ("$PNPM_HOME/store", "$XDG_DATA_HOME/pnpm/store", "~/.local/share/pnpm/store"),
            ("$XDG_STATE_HOME/pnpm", "~/.local/state/pnpm"),
        ),
        needs=("node",),
        find=lambda private, arguments: iter(()),
        install=_install_with_pnpm,
    ),
)

# The variables that the tables name.
PLACE_VARIABLES = tuple(
    dict.fromkeys(
        alternative[1:].partition("/")[0]
        for runner in PACKAGE_RUNNERS
        for place in (*runner.private, *runner.shown)
        for alternative in place
        if alternative.startswith("$")
    )
)
SELECTION_VARIABLES = ("PYENV_VERSION", "RBENV_VERSION", "NODENV_VERSION")


def find_runner(*paths: str) -> PackageRunner | None:
    """Return the manager that a program belongs to, by the file names of its paths; None if it is
    not one that runs packages."""
    names = {Path(path).name for path in paths}
    return next((runner for runner in PACKAGE_RUNNERS if names & runner.programs), None)


def find_place(place: Place, variables: Mapping[str, str], home: str) -> str:
    """Return the absolute path of a place; "" if it is not known."""
    for alternative in place:
        first, _, rest = alternative.partition("/")
        value = home if first == "~" else variables.get(first.removeprefix("$"), "")
        if value.startswith("/"):
            return os.path.normpath(f"{value}/{rest}")
    return ""


# -- programs of pnpm ----------------------------------------------------------------------------


def pnpm_packages(shim: str) -> Iterator[str]:
    """Yield the folders of packages that a program of pnpm needs: the one that its script names,
    and those that symlinks in it lead to. pnpm keeps each version of a package by itself, beside
    the packages of other programs."""
    target = ""
    script = _read(Path(shim), _SHIM_BYTES)
    if not script.startswith("#!"):
        return
    for line in script.splitlines():
        if match := re.match(r"# cmd-shim-target=(/.+)$", line):
            target = match[1]
        elif match := re.match(r"\s*exec node\s+\"\$basedir(?:_abs)?\"?/'?([^'\"]+)['\"]", line):
            target = target or os.path.join(os.path.dirname(shim), match[1])  # noqa: PTH118, PTH120
    if not target or "node_modules" not in Path(target).parts or not _exists(Path(target)):
        return
    yield target  # for the symlinks on the way
    remaining, seen = [os.path.realpath(target)], set[str]()
    while remaining and len(seen) < _MAX_PACKAGES:
        folder = _outer_packages(remaining.pop())
        if not folder or folder in seen:
            continue
        seen.add(folder)
        yield folder
        for pattern in ("*", "@*/*"):
            links = (path for path in Path(folder).glob(pattern) if path.is_symlink())
            remaining += [os.path.realpath(path) for path in links]


def _outer_packages(path: str) -> str:
    """Return the innermost folder `node_modules` that contains a path."""
    above = (str(folder) for folder in Path(path).parents if folder.name == "node_modules")
    return next(above, "")


# -- small files ---------------------------------------------------------------------------------


def _exists(path: Path) -> bool:
    """Return whether a path exists. Unlike `Path.exists`, this does not raise for a folder that the
    host's user cannot enter."""
    return os.path.exists(path)  # noqa: PTH110


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _names(text: str) -> list[str]:
    """Return the words of a text that can be one component of a path."""
    return [word for word in text.split() if _NAME.fullmatch(word)]


def _read(path: Path, size: int) -> str:
    try:
        return read_start(str(path), size).decode("utf-8", "replace")
    except OSError:
        return ""


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read(path, _SELECTION_BYTES))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
