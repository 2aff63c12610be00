"""Finds out which installed package an npx, npm or uvx command would run, without running it.

A pin (`sha256` in a config) compares the files of that package with a digest. The commands are such
as `npx -y server@1.2.3`, `npm exec server@1.2.3` and `uvx server`.

npx installs each package, with its dependencies, in a separate folder of its cache
(`~/.npm/_npx/HASH`). It uses the cached package only if the command names an exact version;
otherwise it asks the registry for a newer one. Before the cache it searches other places, such as
`node_modules` in the working folder. If one of these exists, the package cannot be determined.

uvx uses the environment that `uv tool install` created if its settings and requirements have not
changed. Otherwise it creates a new one at the start. So the result for uvx is never certain.
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
_NPM_SPEC = rf"({_NAME})@([0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?)"
_PYPI_SPEC = r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:(?:==|@)([0-9][0-9A-Za-z.+!_-]*))?"

# npm settings that change which program is run, or where npm searches for it.
_NPM_SETTINGS = frozenset(
    (
        *("cache", "prefix", "global", "location", "package", "call", "workspace", "workspaces"),
        *("script-shell", "shell", "node-options", "userconfig", "globalconfig", "before"),
        *("include-workspace-root", "install-strategy", "ignore-scripts", "local-prefix"),
    )
)


class InstalledPackage(NamedTuple):
    """An installed package from a registry.

    name         its name in the registry
    version      its version
    folder       the folder with its files and its dependencies
    interpreter  the interpreter that runs its code; "" if unknown
    uncertainty  why the runner may run other files; "" if the result is certain
    advice       how to make the result certain
    """

    name: str
    version: str
    folder: str
    interpreter: str = ""
    uncertainty: str = ""
    advice: str = ""


class UnknownPackage(Exception):
    """The files that a runner would run cannot be determined. `advice` suggests a fix."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.advice = advice


# Called with the runner's arguments, path, working folder and environment variables. Raises
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
        raise UnknownPackage("npx runs a shell command, or no package is named", _INSTALL_NPM)
    has_package_option = bool(specs)
    specs = specs or [rest[0]]
    matches = [re.fullmatch(_NPM_SPEC, spec) for spec in specs]
    if not all(matches):
        raise UnknownPackage(
            f"npx looks up the version of {' '.join(specs)} at each start",
            _EXACT_VERSION,
        )
    _require_no_other_source(program, cwd, env)
    cache = _npm_variable(env, "cache") or f"{_home(env)}/.npm"
    # npx names the folder of an installation after this digest.
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
    if has_package_option and not os.path.exists(f"{folder}/node_modules/.bin/{rest[0]}"):  # noqa: PTH110
        raise UnknownPackage(
            f"the program {rest[0]} is in none of the packages {' '.join(specs)}", _INSTALL_NPM
        )
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
        rest.remove("--")  # it ends the options of npm
    return find_npx_package(rest, program, cwd, env)


def _require_no_other_source(program: str, cwd: str, env: Mapping[str, str]) -> None:
    """Raise UnknownPackage if npx may use a command from outside its cache."""
    folder = os.path.abspath(cwd)  # noqa: PTH100
    for parent in _folder_and_parents(folder):
        for name in ("node_modules", "package.json"):
            if os.path.lexists(f"{parent}/{name}"):
                raise UnknownPackage(
                    f"npx looks in {parent}/{name} before its cache",
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


def _folder_and_parents(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return
        folder = parent


def _npmrc_keys(file: str) -> Iterator[str]:
    """Yield the names of the settings in an .npmrc file."""
    try:
        text = read_start(file, _SETTINGS_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        yield line.partition("=")[0].strip().strip("\"'").removesuffix("[]").lower()


def _npm_variable(env: Mapping[str, str], setting: str) -> str:
    """Return the value of an npm setting that an environment variable sets; "" if none does."""
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
    """Return the installed tool that uvx runs unless it decides to create a new environment."""
    options, rest = split_options(arguments, known_programs().runner_options["uvx"], "uvx")
    sources = [value for option, value in options if option == "--from"]
    if not rest or len(sources) > 1:
        raise UnknownPackage(
            "uvx is given no package, or several --from options", "name the package"
        )
    spec = sources[0] if sources else rest[0]
    match = re.fullmatch(_PYPI_SPEC, spec)
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
        uncertainty=f"uvx resolves {spec} again if its settings have changed",
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
