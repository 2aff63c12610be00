"""Permissions for commonly used MCP servers, as data (`known_policies.toml`):

    [[servers]]
    registry = "npm"
    package = "@modelcontextprotocol/server-filesystem"
    versions = ">=2026.0.0, <2027.0.0"
    program = "mcp-server-filesystem"
    network = false
    filesystem = ["{paths}:rw"]

`find_policy` returns the permissions of the server that a command runs, if its package and version
are in the table. They are proposals: a person puts them into a config. A command is recognized by
its words alone, and nothing is executed or looked up. So the table says nothing about the code that
the command really runs; a lock does that.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from exthost.launch.command_options import UnknownOption, split_options
from exthost.launch.known_programs import known_programs, program_name
from exthost.launch.learned_policy import Network
from exthost.model.package_tables import read_tables
from exthost.model.versionreq import NotAVersion, Version, VersionReq

Registry = Literal["npm", "pypi"]

# The runners of each registry, and the option that names a package.
_RUNNERS: Mapping[str, tuple[Registry, tuple[str, ...]]] = {
    "npx": ("npm", ("-p", "--package")),
    "uvx": ("pypi", ("--from",)),
}

_INSTALL_COMMANDS = {"npx": "npm install -g", "uvx": "uv tool install"}

_NPM_SPEC = re.compile(r"(@?[^@]+)(?:@(.+))?")
_PYPI_SPEC = re.compile(r"([A-Za-z0-9._-]+?)(?:(?:==|@)(.+))?")

# In `filesystem`, these stand for the existing paths among the arguments of the command.
_PATHS, _WRITABLE_PATHS = "{paths}", "{paths}:rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownServer:
    """A server of the table.

    registry    where its package is published
    package     the name of the package
    versions    the versions for which the policy is meant, as a requirement such as ">=1.0.0"
    program     the name of its program
    network     the hosts that it connects to, true or false
    filesystem  the paths that it needs
    arguments   arguments with which a test starts it
    env         the variables that it needs: names of secrets, mostly
    calls       the tools that a test of the policy calls, each with its arguments as JSON
    note        a remark for users
    """

    registry: Registry
    package: str
    versions: str
    program: str
    network: Network = False
    filesystem: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    note: str = ""

    @property
    def tried(self) -> Literal["list", "calls"]:
        """What the test of the policy does: it starts the server and lists its tools, or also makes
        the calls of `calls`."""
        return "calls" if self.calls else "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPolicy:
    """The policy for a command. `remarks` are lines for the person who decides about it."""

    server: KnownServer
    network: Network
    filesystem: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    def as_table(self) -> dict[str, Any]:
        """Return the table `permissions` for a config."""
        network = self.network if isinstance(self.network, bool) else list(self.network)
        return {"network": network, "filesystem": list(self.filesystem)}


@cache
def known_servers() -> tuple[KnownServer, ...]:
    """Return all servers of the table."""
    rows = read_tables("exthost.launch", "known_policies.toml")["servers"]
    return tuple(map(_read_row, rows))


def _read_row(row: Mapping[str, Any]) -> KnownServer:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    return KnownServer(**values)


def find_policy(argv: Sequence[str], cwd: str) -> KnownPolicy | None:
    """Return the policy for a command such as ("npx", "-y", "server@1.2.3", "/data"); None if its
    server or its version is not in the table. Relative paths of its arguments begin at `cwd`."""
    name = program_name(argv[0]) if argv else ""
    if name not in _RUNNERS:
        return None
    registry, package_options = _RUNNERS[name]
    try:
        options, rest = split_options(argv[1:], known_programs().runner_options[name], name)
    except UnknownOption:
        return None
    specs = [value for option, value in options if option in package_options]
    if len(specs) > 1 or not rest:
        return None
    package, version = _split_spec(registry, specs[0] if specs else rest[0])
    for server in known_servers():
        if (server.registry, server.package) == (registry, package) and _fits(server, version):
            return _make_policy(server, rest[1:], cwd, name, version)
    return None


def _make_policy(
    server: KnownServer, arguments: Sequence[str], cwd: str, runner: str, version: str
) -> KnownPolicy:
    """Return the policy of a server for these arguments, with remarks for a person."""
    remarks = [server.note] if server.note else []
    remarks += [
        f"it needs the variable {name}: env = {{ {name} = {{ from = … }} }}" for name in server.env
    ]
    if server.network is not True:
        # Both ask their registry for the package, even if it is in their cache.
        separator = "@" if runner == "npx" else "=="
        exact = f"{server.package}{separator}{version}" if version else server.package
        remarks.append(
            f"{runner} asks its registry at each start, and cannot do so with these: install it "
            f"({_INSTALL_COMMANDS[runner]} {exact}), and use its program {server.program} as the "
            "command"
        )
    filesystem = tuple(dict.fromkeys(_fill(server.filesystem, arguments, cwd)))
    if server.filesystem and not filesystem:
        remarks.append(
            "it is granted no files: none of its arguments is a path with a slash that exists, "
            "such as ./data"
        )
    return KnownPolicy(
        server=server,
        network=server.network,
        filesystem=filesystem,
        remarks=tuple(remarks),
    )


def _fill(entries: Sequence[str], arguments: Sequence[str], cwd: str) -> Iterator[str]:
    """Yield the entries of `permissions.filesystem`, with the existing paths among the arguments in
    place of {paths}."""
    for entry in entries:
        if entry not in (_PATHS, _WRITABLE_PATHS):
            yield entry
            continue
        suffix = entry.removeprefix(_PATHS)
        for argument in arguments:
            value = argument.rpartition("=")[2] if argument.startswith("-") else argument
            path = os.path.normpath(os.path.join(cwd, os.path.expanduser(value)))  # noqa: PTH111, PTH118
            is_path = "/" in value and os.path.exists(path)  # noqa: PTH110 - may be unreadable
            if is_path and not path.endswith((":rw", ":ro")):
                yield f"{os.path.realpath(path)}{suffix}"


def _split_spec(registry: Registry, spec: str) -> tuple[str, str]:
    """Return the name and the version of a package; "" for a version that is not named."""
    match = (_NPM_SPEC if registry == "npm" else _PYPI_SPEC).fullmatch(spec)
    if match is None:
        return "", ""
    name, version = match[1], match[2] or ""
    if registry == "pypi":
        name = re.sub(r"[-_.]+", "-", name).lower()
    return name, "" if version == "latest" else version


def _fits(server: KnownServer, version: str) -> bool:
    """Return whether the policy is meant for this version; "" is the newest one."""
    if not version:
        return True
    try:
        return VersionReq.parse(server.versions).matches(Version.parse(version))
    except NotAVersion:
        return False
