"""Finds the installed package that npx or uvx runs, without running either.

npx keeps each package that it installed in a folder of its own (`~/.npm/_npx/HASH`), with all
dependencies. It runs what is there only if the command names an exact version; otherwise it asks
the registry for a newer one. It looks at other places first, such as `node_modules` of the working
folder: if there is anything, the package is not known.

uvx runs the environment that `uv tool install` made, if its settings and the requirements are still
the same, and otherwise one that it makes at the start. So its package is never certain.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exthost.launch.command_options import split_options
from exthost.launch.known_programs import known_programs
from exthost.process.small_files import read_start

# How much of a package.json or .npmrc is read.
_SETTINGS_BYTES = 1024 * 1024

_NAME = r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*"
_NPM_SPEC = re.compile(rf"({_NAME})@([0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?)")
_PYPI_SPEC = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:(?:==|@)([0-9][0-9A-Za-z.+!_-]*))?"
)

# Settings of npm that change what is run, or where it is looked for.
_NPM_SETTINGS = frozenset(
    (
        *("cache", "prefix", "global", "location", "package", "call", "workspace", "workspaces"),
        *("script-shell", "shell", "node-options", "userconfig", "globalconfig", "before"),
        *("include-workspace-root", "install-strategy", "ignore-scripts", "local-prefix"),
    )
)


class InstalledPackage(NamedTuple):
    """A package of a registry as it is installed.

    name         its name in the registry
    version      its version
    folder       the folder with its files and its dependencies
    interpreter  the program that reads its code, or "" if that is not known
    doubt        why the runner may run other files; "" if it certainly runs these
    advice       what to do in that case
    """

    name: str
    version: str
    folder: str
    interpreter: str = ""
    doubt: str = ""
    advice: str = ""


class UnknownPackage(Exception):
    """It is not known which files a runner runs. `advice` says what to do."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.advice = advice


# The arguments of the runner, its path, its working folder and its variables → the package. Raises
# UnknownPackage or UnknownOption.
PackageFinder = Callable[[Sequence[str], str, str, Mapping[str, str]], InstalledPackage]

_INSTALL_NPM = "install the package with npm, and run its program with node"
_EXACT_VERSION = "name an exact version: npx NAME@1.2.3"


def find_npx_package(
    arguments: Sequence[str], program: str, cwd: str, env: Mapping[str, str]
) -> InstalledPackage:
    """Return the package that npx runs."""
    options, rest = split_options(arguments, known_programs().runner_options["npx"], "npx")
    specs = [value for option, value in options if option in ("-p", "--package")]
    if not rest or any(option in ("-c", "--call") for option, _ in options):
        raise UnknownPackage("npx runs a text, or is given no package", _INSTALL_NPM)
    command = "" if specs else rest[0]
    specs = specs or [rest[0]]
    matches = [_NPM_SPEC.fullmatch(spec) for spec in specs]
    if not all(matches):
        raise UnknownPackage(
            f"npx runs the newest version of {' '.join(specs)}, which it looks up at each start",
            _EXACT_VERSION,
        )
    _refuse_other_places(program, cwd, env)
    cache = _npm_variable(env, "cache") or f"{_home(env)}/.npm"
    key = hashlib.sha512("\n".join(sorted(specs)).encode()).hexdigest()[:16]
    folder = os.path.join(cwd, cache, "_npx", key)  # noqa: PTH118
    for match in matches:
        assert match is not None
        name, version = match[1], match[2]
        if _installed_version(f"{folder}/node_modules/{name}") != version:
            raise UnknownPackage(
                f"npx has not installed {name}@{version} yet",
                "start it once without the pin",
            )
    if not command and not os.path.exists(f"{folder}/node_modules/.bin/{rest[0]}"):  # noqa: PTH110
        raise UnknownPackage(f"the program {rest[0]} is in none of its packages", _INSTALL_NPM)
    assert matches[0] is not None
    return InstalledPackage(matches[0][1], matches[0][2], folder)


def find_npm_package(
    arguments: Sequence[str], program: str, cwd: str, env: Mapping[str, str]
) -> InstalledPackage:
    """Return the package that `npm exec` runs."""
    if not arguments or arguments[0] not in ("exec", "x"):
        raise UnknownPackage("npm runs a script of package.json", "run the script itself")
    rest = [*arguments[1:]]
    if "--" in rest:
        rest.remove("--")  # npm reads its own options only before it
    return find_npx_package(rest, program, cwd, env)


def _refuse_other_places(program: str, cwd: str, env: Mapping[str, str]) -> None:
    """Raise UnknownPackage if npx may find the command elsewhere than in its cache."""
    folder = os.path.abspath(cwd)  # noqa: PTH100
    for above in _folders_above(folder):
        for name in ("node_modules", "package.json"):
            if os.path.lexists(f"{above}/{name}"):
                raise UnknownPackage(
                    f"npx looks in {above}/{name} before its cache",
                    "set cwd to a folder without node_modules and package.json, also above it",
                )
    for variable in env:
        setting = variable.lower().removeprefix("npm_config_").replace("_", "-")
        if variable.lower().startswith("npm_config_") and setting in _NPM_SETTINGS - {"cache"}:
            raise UnknownPackage(f"the variable {variable} changes what npx runs", "remove it")
    prefix = os.path.dirname(os.path.dirname(program))  # noqa: PTH120
    for file in (f"{folder}/.npmrc", f"{_home(env)}/.npmrc", f"{prefix}/etc/npmrc"):
        for setting in _npmrc_keys(file):
            if setting in _NPM_SETTINGS:
                raise UnknownPackage(f"{setting} in {file} changes what npx runs", "remove it")


def _folders_above(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return
        folder = parent


def _npmrc_keys(file: str) -> Iterator[str]:
    try:
        text = read_start(file, _SETTINGS_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        yield line.partition("=")[0].strip().strip("\"'").removesuffix("[]").lower()


def _npm_variable(env: Mapping[str, str], setting: str) -> str:
    for variable, value in env.items():
        if variable.lower() == f"npm_config_{setting}":
            return value
    return ""


def _installed_version(folder: str) -> str:
    """Return the version of an npm package in a folder; "" if it is not there."""
    try:
        data = json.loads(read_start(f"{folder}/package.json", _SETTINGS_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    version = data.get("version") if isinstance(data, dict) else None
    return version if isinstance(version, str) else ""


# -- uv --------------------------------------------------------------------------------------------


def find_uvx_package(
    arguments: Sequence[str], program: str, cwd: str, env: Mapping[str, str]
) -> InstalledPackage:
    """Return the package that uvx runs if it finds it usable."""
    options, rest = split_options(arguments, known_programs().runner_options["uvx"], "uvx")
    sources = [value for option, value in options if option == "--from"]
    if not rest or len(sources) > 1:
        raise UnknownPackage("uvx is given no package", "name the package")
    spec = (*sources, rest[0])[0]
    match = _PYPI_SPEC.fullmatch(spec)
    install = f"install it with `uv tool install {spec}`, run the installed program, and pin that"
    if match is None:
        raise UnknownPackage(f"uvx resolves {spec} at each start", install)
    name = re.sub(r"[-_.]+", "-", match[1]).lower()
    data = env.get("XDG_DATA_HOME") or f"{_home(env)}/.local/share"
    tools = env.get("UV_TOOL_DIR") or f"{data}/uv/tools"
    folder = os.path.join(cwd, tools, name)  # noqa: PTH118
    version = _tool_version(folder, name)
    command = f"{folder}/bin/{rest[0] if sources else match[1]}"
    if not version or match[2] not in (None, version) or not os.path.isfile(command):  # noqa: PTH113
        raise UnknownPackage(f"uvx resolves {spec} at each start: it is not installed", install)
    return InstalledPackage(
        name,
        version,
        folder,
        os.path.realpath(f"{folder}/bin/python"),
        doubt=f"uvx resolves {spec} again if its settings have changed",
        advice=f"run {command} itself, with cwd = {folder!r} and sha256 = {{ package = … }}",
    )


def _tool_version(folder: str, name: str) -> str:
    """Return the version of a package in an environment of uv; "" if it is not there."""
    wanted = name.replace("-", "_")
    try:
        libraries = os.listdir(f"{folder}/lib")  # noqa: PTH208
        for library in libraries:
            for entry in os.listdir(f"{folder}/lib/{library}/site-packages"):  # noqa: PTH208
                stem, _, version = entry.removesuffix(".dist-info").partition("-")
                if entry.endswith(".dist-info") and stem.lower().replace(".", "_") == wanted:
                    return version
    except OSError:
        pass
    return ""


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")  # noqa: PTH111


PACKAGE_RUNNERS: Mapping[str, PackageFinder] = {
    "npx": find_npx_package,
    "npm": find_npm_package,
    "uvx": find_uvx_package,
}
