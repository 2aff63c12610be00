"""Agents of each framework can use extensions, as the how-tos (`docs/howto/`) say.

The programs of the how-tos run with a fake model and extensions of three dialects (protocols), in
environments with the newest release of the framework and with the oldest that exthost supports.
"""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.integrations.environments import (
    RELEASES,
    agent_folder,
    call,
    environment_python,
    run_program,
)

pytestmark = pytest.mark.more

# The how-to, the environment and the program of each framework.
AGENTS = [
    ("pydantic-ai", "pydantic_ai", "agent.py"),
    ("langchain", "langchain", "agent.py"),
    ("openai-agents", "openai_agents", "agent.py"),
    ("openai-agents", "openai_agents", "server_agent.py"),
    ("smolagents", "smolagents", "agent.py"),
]

# The functions of `framework_agent.py`, and the environments in which they run.
FUNCTIONS = [
    ("pydantic_ai", "pydantic_ai"),
    ("langchain", "langchain"),
    ("openai_agents", "openai_agents"),
    ("openai_agents_tools", "openai_agents"),
    ("fastmcp", "fastmcp"),
]
# Each kind of host with the newest release.
HOSTS = [("newest", "Host"), ("newest", "SyncHost"), ("newest", "attach"), ("oldest", "Host")]

# (release, program or framework) whose model gets no image: these releases send the images of MCP
# servers as text, and smolagents keeps images for other tools.
WITHOUT_IMAGES = {("oldest", "server_agent.py"), ("newest", "smolagents"), ("oldest", "smolagents")}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("page", "name", "program"), AGENTS)
def test_an_agent_works_as_its_how_to_says(
    page: str, name: str, program: str, release: str, tmp_path: Path
) -> None:
    python = environment_python(f"{name}-{release}")
    folder = agent_folder(page, tmp_path)
    # A tool whose schema has no properties gets its arguments from smolagents as one object.
    remark = {"text": "so"}
    question = [
        call("ext_text_shout", text="hello"),
        call("ext_painter_paint", text="red"),
        call("ext_painter_fail"),
        call("ext_remark_remark", **({"arguments": remark} if page == "smolagents" else remark)),
    ]
    answer = run_program(python, folder, program, "\n".join(question))
    for part in ("HELLO", "painted red", "the brush is dry", "fine: so"):
        assert part in answer, answer
    if {(release, program), (release, name)} & WITHOUT_IMAGES:
        assert "PngImageFile" in answer or "image/png" in answer
    else:
        assert "images: 1" in answer
    crashed = run_program(python, folder, program, call("ext_painter_crash"))
    assert "it ended during crash" in crashed


@pytest.mark.parametrize(("release", "host"), HOSTS)
@pytest.mark.parametrize(("function", "name"), FUNCTIONS)
def test_selection_progress_timeout_and_cancellation_work_with_each_kind_of_host(
    function: str, name: str, release: str, host: str, tmp_path: Path
) -> None:
    python = environment_python(f"{name}-{release}")
    folder = agent_folder("fastmcp", tmp_path)
    shutil.copy(Path(__file__).with_name("framework_agent.py"), folder)
    *_, line = run_program(python, folder, "framework_agent.py", function, host).splitlines()
    report = json.loads(line)
    assert report["selected"] == ["ext_painter_add"] and report["progress"] == 1
    assert "3" in report["sum"] and "0.2 s" in report["late"]
    assert (report["is_cancelled"], report["cancelled"], report["in_flight"]) == (True, 1, 0)


# A client of the how-to's server: prints the names of its tools, a structured result, the progress
# of that call, and the results of other calls.
CLIENT = """\
import asyncio
import json

from fastmcp import Client
from server import server


async def main():
    reports = []

    async def on_progress(progress, total, message):
        reports.append([progress, total])

    async with Client(server) as client:
        names = [tool.name for tool in await client.list_tools()]
        call = client.call_tool
        added = await call("ext_painter_add", {"a": 1, "b": 2}, progress_handler=on_progress)
        results = [
            await call("ext_painter_paint", {"text": "red"}),
            await call("ext_remark_remark", {"text": "so"}),
            await call("ext_text_shout", {"text": "hello"}),
            await call("ext_painter_fail", {}, raise_on_error=False),
            await call("ext_painter_crash", {}, raise_on_error=False),
            await call("double", {"number": 2}),
        ]
        parts = [
            [result.is_error, [str(block) for block in result.content]] for result in results
        ]
        print(json.dumps([names, added.structured_content, reports, parts]))


asyncio.run(main())
"""


@pytest.mark.parametrize("release", RELEASES)
def test_a_server_of_fastmcp_works_as_its_how_to_says(release: str, tmp_path: Path) -> None:
    python = environment_python(f"fastmcp-{release}")
    folder = agent_folder("fastmcp", tmp_path)
    (folder / "client.py").write_text(CLIENT)
    *_, line = run_program(python, folder, "client.py").splitlines()
    names, added, reports, (paint, remark, shout, fail, crash, double) = json.loads(line)
    assert {"ext_painter_paint", "ext_text_shout", "ext_remark_remark", "double"} <= {*names}
    assert added == {"sum": 3} and reports == [[1, 2]]
    assert not paint[0] and "painted red" in paint[1][0] and "image/png" in paint[1][1]
    assert "fine: so" in remark[1][0] and "HELLO" in shout[1][0] and "4" in double[1][0]
    assert fail[0] and "the brush is dry" in fail[1][0]
    assert crash[0] and "it ended during crash" in crash[1][0]


# Calls a tool that returns and a tool that hangs, without an event loop.
BLOCKING = """\
import sys

import exthost

with exthost.SyncHost.from_config("exthost.toml") as host:
    selection = host.tools.select("painter:*")
    if sys.argv[1] == "smolagents":
        from exthost.integrations.smolagents import tools

        tools_by_name = {tool.name: tool for tool in tools(selection, timeout=0.2)}
        print(tools_by_name["ext_painter_add"](1, b=2), tools_by_name["ext_painter_hang"]())
    else:
        from exthost.integrations.langchain import tools

        tools_by_name = {tool.name: tool for tool in tools(selection, timeout=0.2)}
        call = {"type": "tool_call", "id": "1", "args": {}}
        message = tools_by_name["ext_painter_hang"].invoke({**call, "name": "ext_painter_hang"})
        total = tools_by_name["ext_painter_add"].invoke({"a": 1, "b": 2})
        print(total, message.status, message.content)
    print(len(tools_by_name), host["painter"].stats.timeout)
"""


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["smolagents", "langchain"])
def test_a_blocking_host_works_without_an_event_loop(
    name: str, release: str, tmp_path: Path
) -> None:
    python = environment_python(f"{name}-{release}")
    folder = agent_folder(name, tmp_path)
    (folder / "blocking.py").write_text(BLOCKING)
    *_, first, second = run_program(python, folder, "blocking.py", name).splitlines()
    assert "3" in first and "0.2 s" in first and second == "5 1"
    assert "Error: " in first if name == "smolagents" else " error " in first


@pytest.mark.parametrize("page", ["pydantic-ai", "langchain", "openai-agents", "fastmcp"])
def test_the_program_of_a_how_to_is_strictly_typed(page: str, tmp_path: Path) -> None:
    python = environment_python(f"{page.replace('-', '_')}-newest")
    folder = agent_folder(page, tmp_path)
    programs = ["server.py"] if page == "fastmcp" else ["agent.py"]
    options = ["--strict", "--config-file=", f"--cache-dir={folder / 'cache'}"]
    run_program(
        sys.executable, folder, "-m", "mypy", "--python-executable", python, *options, *programs
    )
