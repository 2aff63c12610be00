"""The permissions that exthost proposes for commonly used MCP servers (`known_policies.toml`).

The tests are about the table, about how a command is recognized (`npx -y PACKAGE@VERSION`), and
whether the servers work under these permissions: that installs and runs them.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from exthost.host.connection import Connection, connection_spec
from exthost.launch.known_policies import KnownServer, find_policy, known_servers
from exthost.model.versionreq import VersionReq
from tests.faces.cli.cli_process import run_inside
from tests.sandbox.confined import shared_folder

# Installing a package takes from seconds to a minute. EXTHOST_TEST_POLICIES=all tries every server;
# otherwise only these are tried, which other tests install as well or which are small.
SMALL_PACKAGES = ("@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-memory")
TRIED = [
    server
    for server in known_servers()
    if os.environ.get("EXTHOST_TEST_POLICIES") == "all" or server.package in SMALL_PACKAGES
]


def test_the_table_has_at_least_25_servers_each_once() -> None:
    names = [(server.registry, server.package) for server in known_servers()]
    assert len(names) >= 25
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("server", known_servers(), ids=lambda server: server.package)
def test_a_row_grants_no_path_of_a_machine_and_names_its_hosts(server: KnownServer) -> None:
    VersionReq.parse(server.versions)
    # A placeholder, for which `find_policy` puts the paths among the arguments of the command.
    assert set(server.filesystem) <= {"{paths}", "{paths}:rw"}
    if not isinstance(server.network, bool):
        assert server.network
        for host in server.network:
            assert re.fullmatch(r"(\*\.)?[a-z0-9.-]+:\d+", host), host
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]+", name) for name in server.env)


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("npx -y @modelcontextprotocol/server-memory", "@modelcontextprotocol/server-memory"),
        ("npx @modelcontextprotocol/server-memory@2026.7.4", "@modelcontextprotocol/server-memory"),
        (
            "/usr/bin/npx -y @modelcontextprotocol/server-memory@latest",
            "@modelcontextprotocol/server-memory",
        ),
        ("uvx mcp-server-time", "mcp-server-time"),
        ("uvx mcp_server_time==2026.10.19", "mcp-server-time"),
        ("uvx --from mcp-server-time mcp-server-time --utc", "mcp-server-time"),
        # Not recognized: a version outside the range of the table, one that is not a number,
        # another package, two packages, another registry, an unknown option, no package.
        ("npx -y @modelcontextprotocol/server-memory@0.0.1", None),
        ("npx -y @modelcontextprotocol/server-memory@next", None),
        ("npx -y @modelcontextprotocol/server-memory-evil", None),
        ("npx -p mcp-server-time -p other mcp-server-time", None),
        ("npx mcp-server-time", None),  # that package is in PyPI
        ("npx --unknown-option x @modelcontextprotocol/server-memory", None),
        ("node server.js", None),
        ("npx", None),
    ],
)
def test_a_command_is_recognized_by_its_package_and_version(
    command: str, package: str | None
) -> None:
    policy = find_policy(command.split(), "/")
    assert (policy.server.package if policy is not None else None) == package


def test_the_paths_among_the_arguments_are_granted(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "trap:rw").mkdir()  # its name would be read as a grant with write access
    command = [
        "npx",
        "-y",
        SMALL_PACKAGES[0],
        str(tmp_path / "data"),
        "./trap:rw",
        "/missing",
        "word",
    ]
    policy = find_policy(command, str(tmp_path))
    assert policy is not None
    assert policy.filesystem == (f"{tmp_path}/data:rw",)


def test_a_policy_without_a_path_or_with_a_runner_that_needs_the_network_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    policy = find_policy(["npx", f"{SMALL_PACKAGES[0]}@2026.8.31", "data"], str(tmp_path))
    assert policy is not None and policy.filesystem == ()
    network, files = policy.remarks
    assert f"npm install -g {SMALL_PACKAGES[0]}@2026.8.31)" in network
    assert "its program mcp-server-filesystem" in network and "./data" in files
    policy = find_policy(["uvx", "mcp-server-time==2026.10.19"], str(tmp_path))
    assert policy is not None
    assert "uv tool install mcp-server-time==2026.10.19)" in policy.remarks[0]


def test_add_proposes_the_policy_and_writes_it_on_request(tmp_path: Path) -> None:
    command = ["--dialect", "mcp", "--", "npx", "-y", SMALL_PACKAGES[0], str(tmp_path)]
    proposed = run_inside("add", "one", *command, cwd=tmp_path)
    assert proposed.returncode == 0
    assert "--policy writes it" in proposed.stderr
    assert "permissions" not in (tmp_path / "exthost.toml").read_text()
    written = run_inside("add", "two", "--policy", *command, cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    text = (tmp_path / "exthost.toml").read_text()
    assert f'permissions = {{network = false, filesystem = ["{tmp_path}:rw"]}}' in text


def test_add_says_that_a_server_is_not_known(tmp_path: Path) -> None:
    result = run_inside("add", "one", "--policy", "--", "node", "server.js", cwd=tmp_path)
    assert "exthost learn one" in result.stderr  # it finds out which permissions are needed


def test_import_proposes_the_policy_and_writes_it_on_request(tmp_path: Path) -> None:
    servers = {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    arguments = ["mcp", "import", "--from", "mcp.json"]
    proposed = run_inside(*arguments, cwd=tmp_path)
    assert "a policy for mcp-server-time" in proposed.stderr
    written = run_inside(*arguments, "--write", "--policy", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert "permissions = {network = false" in (tmp_path / "exthost.toml").read_text()


# -- real servers ----------------------------------------------------------------------------------


def _install(server: KnownServer, folder: Path) -> list[str]:
    """Install the package of a server, and return the command that runs it."""
    if server.registry == "npm":
        npm, node = shutil.which("npm"), shutil.which("node")
        if npm is None or node is None:
            pytest.skip("npm is missing")
        options = ("--no-audit", "--no-fund", "--silent", "--ignore-scripts")
        install = [npm, "install", *options, server.package]
        program = [node, str(folder / "node_modules" / ".bin" / server.program)]
    else:
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True, timeout=300)
        install = [str(folder / "env/bin/pip"), "install", "--quiet", server.package]
        program = [str(folder / "env/bin" / server.program)]
    if subprocess.run(install, cwd=folder, check=False, timeout=400).returncode != 0:
        pytest.skip("the registry cannot be reached")
    return program


@pytest.mark.more  # installs packages
@pytest.mark.parametrize("server", TRIED, ids=lambda server: server.package)
def test_a_server_works_under_its_policy(server: KnownServer) -> None:
    # Not tmp_path, which only the user of the tests can enter: if the host is root, a server in the
    # sandbox runs as another user.
    with shared_folder() as folder:
        _check_policy(server, folder)


def _check_policy(server: KnownServer, folder: Path) -> None:
    """Install a server, start it with the permissions of its policy, and make its test calls."""
    data = folder / "data"
    data.mkdir()
    data.chmod(0o777)  # for the user of the server
    program = _install(server, folder)
    arguments = [argument.replace("{data}", str(data)) for argument in server.arguments]
    grants = [entry.replace("{paths}", str(data)) for entry in server.filesystem]
    network = server.network if isinstance(server.network, bool) else list(server.network)
    settings = {
        "permissions": {"network": network, "filesystem": grants},
        # A value that is accepted at the start, both as a token and as an address.
        "env": dict.fromkeys(server.env, "https://example.com/test"),
        "limits": {"start": "120s", "handshake": "120s", "call": "120s"},
    }

    async def run() -> list[str]:
        spec = connection_spec([*program, *arguments], "mcp", settings)  # type: ignore[arg-type]
        async with Connection(spec) as extension:
            for call in server.calls:
                name, _, text = call.replace("{data}", str(data)).partition(" ")
                await extension.call_tool(name, json.loads(text))
            return list(extension.tools)

    assert asyncio.run(run())
