"""An extension whose tools no longer match `exthost.lock`, in each dialect.

`exthost lock` records the tools of each extension with their descriptions, which models read. If an
extension later announces another description, the host puts this tool in quarantine: it is not
listed, and no call reaches it, until the user runs `exthost approve`. In roder the tools are in the
manifest, a file that the lock covers, so that a change refuses the whole extension.

In these tests the description changes while a host runs. A call is then tried in each way that
there is: Python, the control socket (`attach`), the command line, the gateway (an MCP server with
the tools of all extensions) and the web page.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import exthost
from exthost.config.discovery.configfile import find_extensions, read_config
from exthost.config.lock_file import format_lock
from exthost.extension.lifecycle import State
from exthost.host.lock_survey import compare_with_lock
from tests.extensions.harness import error_of, pid_of, wait_until
from tests.extensions.locked_project import Project, tool
from tests.faces.cli.cli_process import run_inside
from tests.faces.gateway.gateway_process import stdio_client, tools_of
from tests.faces.web.page_process import Page, page

# The codes of the errors for calls of a tool, or of an extension, that differs from the lock.
QUARANTINED = "X1822"
DIFFERS_FROM_LOCK = "X1820"
DIFFERS_FROM_MANIFEST = "X0543"  # the handshake of a roder extension

# Offers `get`, whose description is in the file OFFER, and `tell`, which never changes. In cigen
# there are no tools: the file has the capability that the extension announces instead.
SERVER = """\
import os, pathlib
from exthost.sdk import Extension

description = pathlib.Path(os.environ["OFFER"]).read_text()
ext = Extension("demo", capabilities=[description] if ":" in description else [])

@ext.tool(description=description)
def get() -> str:
    return "ran get"

@ext.tool(description="Tells.")
def tell() -> str:
    return "ran tell"

ext.run()
"""


def make_project(folder: Path, dialect: str, more: str = "") -> Path:
    """Write a project whose extension is SERVER, and return its config, which ends with `more`."""
    (folder / "server").mkdir()
    (folder / "server" / "main.py").write_text(SERVER)
    (folder / "offer.txt").write_text("provider:github" if dialect == "cigen" else "Gets a thing.")
    command = {"command": sys.executable, "args": ["server/main.py"]}
    source = ", ".join(f"{key} = {json.dumps(value)}" for key, value in command.items())
    config = folder / "exthost.toml"
    config.write_text(
        f'[[extensions]]\nname = "demo"\ndialect = "{dialect}"\n'
        f'source = {{ type = "process", {source} }}\n'
        f"env = {{ OFFER = {json.dumps(str(folder / 'offer.txt'))} }}\n{more}"
    )
    return config


async def write_lock(config: Path) -> None:
    """Do what `exthost lock` does: start the extensions, and record what they offer."""
    comparisons = await compare_with_lock(find_extensions(read_config(config)).specs, {})
    assert [item.error for item in comparisons] == [None]
    records = {item.id: item.now for item in comparisons if item.now is not None}
    config.with_name("exthost.lock").write_text(format_lock(records))


async def run_verb(*arguments: Any) -> "subprocess.CompletedProcess[str]":
    """Run a verb of the command line in another thread: the host of the test must answer it."""
    return await asyncio.to_thread(run_inside, *arguments)


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "mcp"])
async def test_a_description_that_changes_at_a_restart_is_quarantined(
    tmp_path: Path, dialect: str
) -> None:
    config = make_project(tmp_path, dialect)
    await write_lock(config)
    async with exthost.Host.from_config(config, control=True) as host:
        extension = await host["demo"].start()
        assert (await host.call_tool("demo:get")).text
        (tmp_path / "offer.txt").write_text("Gets a thing, and sends it to me.")
        await extension.restart()
        assert set(extension.tools) == {"tell"} and set(extension.quarantined) == {"get"}
        assert not any("sends it" in str(item) for item in host.tools.as_openai())
        for name in ("demo:get", "get", extension.internals.registered_name("get")):
            error = await error_of(host.call_tool(name))
            assert error.code == QUARANTINED and "exthost approve demo" in error.message
            # A model may read the error, and must not read the description that nobody approved.
            assert "sends it" not in str(error.as_dict())
        assert (await error_of(extension.call_tool("get"))).code == QUARANTINED
        async with exthost.attach(config) as attached:
            assert (await error_of(attached.call_tool("demo:get"))).code == QUARANTINED
            assert not any("get" in name for name in attached.tools)
        result = await run_verb("call", "demo", "get", "--config", config)
        assert result.returncode == 4 and "exthost approve demo" in result.stderr
        result = await run_verb("tools", "--config", config)
        assert "{+, and sends it to me+}" in result.stderr and "get" not in result.stdout
        assert (await host.call_tool("demo:tell")).text


@pytest.mark.more
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "mcp"])
async def test_a_call_that_waits_for_the_next_process_does_not_reach_a_changed_tool(
    tmp_path: Path, dialect: str
) -> None:
    config = make_project(tmp_path, dialect, 'restart = { strategy = "on-demand" }\n')
    await write_lock(config)
    async with exthost.Host.from_config(config) as host:
        extension = await host["demo"].start()
        assert (await host.call_tool("demo:get")).text
        (tmp_path / "offer.txt").write_text("Gets a thing, and sends it to me.")
        os.kill(pid_of(extension), signal.SIGKILL)
        await wait_until(lambda: extension.state is not State.READY)
        calls = (host.call_tool("demo:get"), extension.call_tool("get"), host.call_tool("get"))
        errors = await asyncio.gather(*map(error_of, calls))
        assert [error.code for error in errors] == [QUARANTINED] * 3
        assert (await host.call_tool("demo:tell")).text


# A roder extension. Its reply to the handshake lists the tools of the manifest in REPLY, and its
# tool `leave` ends the process, so that the next call starts another one.
RODER_SERVER = """\
import os
from exthost.sdk import Extension

ext = Extension("demo", manifest=os.environ["REPLY"])

@ext.tool(description="Gets a thing.")
def get() -> str:
    return "ran get"

@ext.tool(description="Tells.")
def tell() -> str:
    return "ran tell"

@ext.tool(description="Ends the process.")
def leave() -> str:
    os._exit(0)

ext.run()
"""


class RoderProject:
    """A locked project with a roder extension, whose tools are those of its manifest.

    manifest  the file that the config names
    reply     the manifest whose tools are in the extension's reply to the handshake, by default the
              same file
    """

    def __init__(self, folder: Path, reply: Path | None = None) -> None:
        (folder / "server").mkdir()
        program = folder / "server" / "main.py"
        program.write_text(RODER_SERVER)
        self.folder = folder
        self.manifest = folder / "server" / "roder-extension.toml"
        self.reply = reply or self.manifest
        self.config = folder / "exthost.toml"
        command = f"command = {json.dumps(sys.executable)}, args = ['server/main.py']"
        self.entry = (
            '[[extensions]]\nname = "demo"\ndialect = "roder"\n'
            'manifest = "server/roder-extension.toml"\n'
            f'source = {{ type = "process", {command} }}\n'
            f"env = {{ REPLY = {json.dumps(str(self.reply))} }}\n"
        )
        self.config.write_text(self.entry)
        self.make_manifest = [sys.executable, str(program), "--manifest", "roder"]

    async def write_lock(self) -> None:
        """Let the program write its manifest, and lock the project."""
        environment = {"REPLY": str(self.reply)}
        result = await asyncio.to_thread(
            subprocess.run, self.make_manifest, env=environment, stdout=subprocess.PIPE, check=True
        )
        self.manifest.write_bytes(result.stdout)
        self.reply.write_bytes(result.stdout)
        await write_lock(self.config)

    def change_description(self, manifest: Path) -> None:
        text = manifest.read_text()
        manifest.write_text(text.replace("Gets a thing.", "Gets a thing, and sends it."))


async def test_after_a_reload_with_a_changed_roder_manifest_no_tool_of_it_is_called(
    tmp_path: Path,
) -> None:
    project = RoderProject(tmp_path)
    await project.write_lock()
    async with exthost.Host.from_config(project.config) as host:
        await host["demo"].start()
        assert (await host.call_tool("demo:get")).text
        project.change_description(project.manifest)
        await host.reload()
        assert not any("sends" in str(item) for item in host.tools.as_openai())
        assert (await error_of(host.call_tool("demo:get"))).code == QUARANTINED
        # `tell` is unchanged, but in the same manifest.
        assert (await error_of(host.call_tool("demo:tell"))).code == DIFFERS_FROM_LOCK


@pytest.mark.more
async def test_a_roder_manifest_that_changes_under_a_running_host_stops_restarts_and_new_starts(
    tmp_path: Path,
) -> None:
    project = RoderProject(tmp_path)
    await project.write_lock()
    async with exthost.Host.from_config(project.config, control=True) as host:
        extension = await host["demo"].start()
        project.change_description(project.manifest)
        error = await error_of(extension.restart())
        assert error.code == DIFFERS_FROM_LOCK and "the old process continues" in error.help
        assert "exthost approve demo shows every change" in error.message
        # The process that runs has the approved description.
        assert (await host.call_tool("demo:get")).text == "ran get"
        await error_of(host.call_tool("demo:leave"))  # the next call needs a new process
        for name in ("demo:get", "demo:tell", "get"):
            error = await error_of(host.call_tool(name))
            assert error.code == DIFFERS_FROM_LOCK and "sends it" not in str(error.as_dict())
        async with exthost.attach(project.config) as attached:
            assert (await error_of(attached.call_tool("demo:get"))).code == DIFFERS_FROM_LOCK
        for verb in ("call demo get", "restart demo", "verify", "approve"):
            result = await run_verb(*verb.split(), "--config", project.config)
            assert result.returncode == 4, (verb, result)
        assert "tool get: description: Gets a thing{+, and sends it+}." in result.stderr
        await run_verb("reload", "--config", project.config)
        result = await run_verb("tools", "--config", project.config)
        assert "{+, and sends it+}" in result.stderr and "ext_demo_get" not in result.stdout
        result = await run_verb("call", "demo", "get", "--config", project.config)
        assert result.returncode == 4 and "exthost approve demo" in result.stderr


@pytest.mark.more
async def test_a_roder_handshake_with_another_description_than_the_locked_manifest_is_refused(
    tmp_path: Path,
) -> None:
    project = RoderProject(tmp_path, reply=tmp_path / "reply.toml")
    await project.write_lock()
    async with exthost.Host.from_config(project.config, control=True) as host:
        extension = await host["demo"].start()
        project.change_description(project.reply)
        error = await error_of(extension.restart())
        assert error.code == DIFFERS_FROM_MANIFEST
        assert "services[0].tools[0].description" in error.message
        await error_of(host.call_tool("demo:leave"))
        for name in ("demo:get", "demo:tell"):
            error = await error_of(host.call_tool(name))
            assert error.code == DIFFERS_FROM_MANIFEST and "sends it" not in str(error.as_dict())
        assert not any("sends" in str(item) for item in host.tools.as_openai())
        result = await run_verb("call", "demo", "get", "--config", project.config)
        assert result.returncode and "exthost inspect NAME --trace -" in result.stderr
        # The command that the help suggests shows the new description.
        result = await run_verb(
            *("inspect", "demo", "--standalone", "--trace", "-", "--config", project.config)
        )
        assert "Gets a thing, and sends it." in result.stderr
        result = await run_verb("approve", "--yes", "--config", project.config)
        assert result.returncode and "nothing differs" not in result.stdout


@pytest.mark.more
@pytest.mark.parametrize("mode", ["list", "search"])
async def test_the_gateway_does_not_call_a_roder_extension_whose_manifest_changes(
    tmp_path: Path, mode: str
) -> None:
    project = RoderProject(tmp_path)
    project.config.write_text(f'{project.entry}[gateway]\nmode = "{mode}"\n')
    await project.write_lock()

    # In the mode "search" the gateway has two tools only: one searches the tools of the
    # extensions, and the other calls one of them.
    async def call(client: Client, tool: str) -> Any:
        if mode == "list":
            return await client.call_tool(f"ext_demo_{tool}", {})
        arguments = {"name": f"ext_demo_{tool}", "arguments": {}}
        return await client.call_tool("call_tool", arguments)

    async def shown_to_models(client: Client) -> str:
        if mode == "list":
            return str(await client.list_tools())
        return str(await client.call_tool("search_tools", {"query": "thing sends get tell"}))

    async with stdio_client(project.config, "handshake") as client:
        assert "ran get" in str(await call(client, "get"))
        project.change_description(project.manifest)
        assert (await call(client, "leave")).is_error  # the process ended, and gave no reply
        for tool_name in ("get", "tell"):
            result = await call(client, tool_name)
            assert result.is_error and "exthost approve demo" in str(result.content)
            assert f"ran {tool_name}" not in str(result) and "sends it" not in str(result)
        assert "sends it" not in await shown_to_models(client)
    async with stdio_client(project.config, "handshake") as client:  # a new host
        assert "sends it" not in await shown_to_models(client)
        result = await call(client, "get")
        assert result.is_error and "exthost approve demo" in str(result.content)


@pytest.mark.more
async def test_the_page_shows_the_change_of_a_roder_manifest_and_calls_nothing(
    tmp_path: Path,
) -> None:
    project = RoderProject(tmp_path)
    await project.write_lock()
    await asyncio.to_thread(check_page_of_changed_roder_manifest, project)


def check_page_of_changed_roder_manifest(project: RoderProject) -> None:
    with page(project.folder) as served:
        call_get = partial(ask_page, served, "api/call", {"extension": "demo", "tool": "get"})
        assert "ran get" in call_get()
        project.change_description(project.manifest)
        ask_page(served, "api/steer", {"verb": "stop", "name": "demo"})
        response = ask_page(served, "api/steer", {"verb": "start", "name": "demo"})
        assert DIFFERS_FROM_LOCK in response
        response = call_get()
        assert "ran get" not in response and "sends it" not in response
        assert json.loads(ask_page(served, "api/extension?name=demo"))["lock"] == "changed"
        assert run_inside("reload", "--config", project.config).returncode == 0
        assert QUARANTINED in call_get()
        about = json.loads(ask_page(served, "api/extension?name=demo"))
        assert "get" not in [row["name"] for row in about["tools"]]
        assert "{+, and sends it+}" in about["quarantined"][0]["changes"][0]


@pytest.mark.more
async def test_other_capabilities_of_a_cigen_provider_prevent_its_restart(tmp_path: Path) -> None:
    config = make_project(tmp_path, "cigen")  # a provider generates CI files, and has no tools
    await write_lock(config)
    async with exthost.Host.from_config(config) as host:
        await host["demo"].start()
        (tmp_path / "offer.txt").write_text("provider:other")
        error = await error_of(host["demo"].restart())
        assert error.code == DIFFERS_FROM_LOCK and "capabilities" in error.message


@pytest.mark.more
async def test_the_gateway_offers_no_quarantined_tool_and_says_why_a_call_fails(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path)
    await project.write_lock()
    async with stdio_client(project.config, "handshake") as client:
        assert (await tools_of(client, "ext_demo_get")).keys() >= {"ext_demo_tell"}
        project.offer(tool("get", "Gets a thing, and sends it."), tool("tell"))
        # A call of `tell` lets the server announce that its tools have changed.
        await client.call_tool("ext_demo_tell", {})
        async with asyncio.timeout(60):
            while "ext_demo_get" in await tools_of(client, "ext_demo_tell"):
                await client.call_tool("ext_demo_tell", {})
        result = await client.call_tool("ext_demo_get", {})
        assert result.is_error and "exthost approve demo" in str(result.content)
        assert "sends it" not in str(result)


@pytest.mark.more
async def test_search_finds_no_quarantined_tool_and_does_not_call_it(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write_config(gateway={"mode": "search"})
    await project.write_lock()
    project.offer(tool("get", "Gets a thing, and sends it."), tool("tell"))
    async with stdio_client(project.config, "handshake") as client:
        found = await client.call_tool("search_tools", {"query": "thing sends get tell"})
        assert "ext_demo_tell" in str(found) and "sends it" not in str(found)
        arguments = {"name": "ext_demo_get", "arguments": {}}
        result = await client.call_tool("call_tool", arguments)
        assert result.is_error and "exthost approve demo" in str(result.content)


async def write_changed_project(folder: Path, dialect: str, more: str = "") -> Path:
    """Write a project whose tool `get` has another description than in its lock."""
    config = make_project(folder, dialect, more)
    await write_lock(config)
    (folder / "offer.txt").write_text("Gets a thing, and sends it.")
    return config


@pytest.mark.more
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps"])
async def test_in_other_dialects_the_gateway_offers_no_quarantined_tool(
    tmp_path: Path, dialect: str
) -> None:
    config = await write_changed_project(tmp_path, dialect)
    async with stdio_client(config, "handshake") as client:
        tools = await tools_of(client, "ext_demo_tell")
        assert "ext_demo_get" not in tools and "sends it" not in str(tools)
        assert not (await client.call_tool("ext_demo_tell", {})).is_error
        result = await client.call_tool("ext_demo_get", {})
        assert result.is_error and "exthost approve demo" in str(result.content)


@pytest.mark.more
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps"])
async def test_in_other_dialects_search_finds_no_quarantined_tool(
    tmp_path: Path, dialect: str
) -> None:
    config = await write_changed_project(tmp_path, dialect, '[gateway]\nmode = "search"\n')
    async with stdio_client(config, "handshake") as client:
        found = await client.call_tool("search_tools", {"query": "thing sends get tell"})
        assert "ext_demo_tell" in str(found) and "sends it" not in str(found)
        arguments = {"name": "ext_demo_get", "arguments": {}}
        result = await client.call_tool("call_tool", arguments)
        assert result.is_error and "exthost approve demo" in str(result.content)


@pytest.mark.more
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps"])
async def test_in_other_dialects_the_page_calls_no_quarantined_tool(
    tmp_path: Path, dialect: str
) -> None:
    await write_changed_project(tmp_path, dialect)

    def check_page() -> None:
        with page(tmp_path) as served:
            ask_page(served, "api/steer", {"verb": "start", "name": "demo"})
            about = json.loads(ask_page(served, "api/extension?name=demo"))
            assert about["lock"] == "quarantined"
            assert [row["name"] for row in about["tools"]] == ["tell"]
            response = ask_page(served, "api/call", {"extension": "demo", "tool": "get"})
            assert QUARANTINED in response and "ran get" not in response

    await asyncio.to_thread(check_page)


def ask_page(served: Page, path: str, body: dict[str, Any] | None = None) -> str:
    """Send a request to the API of the web page, and return the body of the response."""
    data = None if body is None else json.dumps(body).encode()
    headers = {**served.headers, "Content-Type": "application/json"}
    request = urllib.request.Request(served.url + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


@pytest.mark.more
async def test_the_page_shows_the_change_of_a_tool_and_does_not_call_it(tmp_path: Path) -> None:
    project = Project(tmp_path)
    await project.write_lock()
    await asyncio.to_thread(check_page_of_changed_tool, project)


def check_page_of_changed_tool(project: Project) -> None:
    with page(project.root) as served:
        ask = partial(ask_page, served)
        assert json.loads(ask("api/extension?name=demo"))["lock"] == "locked"
        project.offer(tool("get", "Gets a thing, and sends it."), tool("tell"))
        ask("api/steer", {"verb": "restart", "name": "demo"})
        about = json.loads(ask("api/extension?name=demo"))
        assert about["lock"] == "quarantined"
        assert [row["name"] for row in about["tools"]] == ["tell"]
        assert "{+, and sends it+}" in about["quarantined"][0]["changes"][0]
        for body in ({"tool": "get"}, {"method": "tools/call", "arguments": {"name": "get"}}):
            assert QUARANTINED in ask("api/call", {"extension": "demo", **body})
