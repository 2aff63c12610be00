"""Tests of `HostTools`, on which the integrations for agent frameworks (LangChain, …) are built.

It lists the tools of a host for a framework, and calls them. A failed call is not an exception but
an outcome with a text, which the model reads. No framework is needed here.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import UsageError
from exthost.integrations.host_tools import HostTool, HostTools, framework

PAINTER = Path(__file__).parents[1] / "extensions" / "painter.py"
ENTRY = {
    "name": "painter",
    "dialect": "mcp",
    "source": {"type": "process", "command": sys.executable, "args": ["-S", "-E", str(PAINTER)]},
}
# The modules in exthost.integrations, and the extra that installs the framework of each.
MODULES = {
    "pydantic_ai": "pydantic-ai",
    "langchain": "langchain",
    "openai_agents": "openai-agents",
    "smolagents": "smolagents",
    "fastmcp": "fastmcp",
}


async def test_a_failure_is_an_outcome_and_a_result_keeps_its_parts() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        tools = HostTools(host, prefix=False)
        paint, fail = tools.listed()[:2]
        assert (paint.name, paint.description) == ("ext_painter_paint", "Paint")
        assert fail.schema == {"type": "object", "properties": {}}
        painted = await tools.call("ext_painter_paint", {"text": "red"})
        assert painted.has_media and painted.text == "painted red"
        assert [block["type"] for block in painted.as_mcp()["content"]] == ["text", "image"]
        added = await tools.call_json("ext_painter_add", '{"a": 1, "b": 2}')
        assert added.value == {"sum": 3} == added.as_mcp()["structuredContent"]
        for outcome in (
            await tools.call("ext_painter_fail", {}),
            await tools.call("ext_painter_crash", {}),
            await tools.call("ext_painter_add", {"a": "one"}),
            await tools.call("no_such_tool", {}),
            await tools.call_json("ext_painter_add", "{"),
        ):
            assert outcome.is_error and outcome.data is None
            assert outcome.value.startswith("Error: ") and outcome.as_mcp()["isError"]


async def test_a_tool_that_the_framework_does_not_accept_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def convert(tool: HostTool) -> str:
        if tool.name == "ext_painter_fail":
            raise ValueError("its schema\nis odd")
        return tool.name

    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        tools = HostTools(host)
        for _ in range(2):
            names = tools.converted(convert)
            assert "ext_painter_fail" not in names and len(names) == len(tools.listed()) - 1
        with pytest.raises(ZeroDivisionError):  # it accepts none: the framework has another fault
            tools.converted(lambda tool: 1 // 0)
    [record] = [record for record in caplog.records if "schema is odd" in record.message]
    assert "ext_painter_fail" in record.message
    assert record.levelname == "WARNING" and record.message.endswith(": its schema is odd")


async def test_the_tools_of_a_host_that_is_not_open_are_an_error(tmp_path: Path) -> None:
    config = {"extensions": [ENTRY]}
    for host in (
        exthost.Host.from_config(config),
        exthost.SyncHost.from_config(config),
        exthost.attach(tmp_path / "exthost.toml"),
        exthost.sync_attach(tmp_path / "exthost.toml"),
    ):
        with pytest.raises(UsageError, match="this host is not open"):
            HostTools(host).listed()
        with pytest.raises(UsageError, match="this host is not open"):
            host["painter"]
    async with exthost.Host.from_config({"extensions": []}) as empty_host:
        assert HostTools(empty_host).listed() == []


async def test_a_selection_has_only_its_tools_and_a_host_also_those_added_later() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        selected = HostTools(host.tools.select("painter:a*"))
        all_tools = HostTools(host)
        await host.load({**ENTRY, "name": "second"})
        assert [tool.name for tool in selected.listed()] == ["ext_painter_add"]
        assert "ext_second_add" in [tool.name for tool in all_tools.listed()]
        await host.unload("painter")
        assert selected.listed() == []


async def test_an_asynchronous_host_is_refused_where_a_framework_blocks() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        tools = HostTools(host)
        assert not tools.is_blocking
        with pytest.raises(UsageError) as caught:
            tools.call_blocking("ext_painter_add", {})
    assert caught.value.code == "X1802" and "SyncHost" in caught.value.help


def test_a_blocking_host_needs_no_event_loop() -> None:
    with exthost.SyncHost.from_config({"extensions": [ENTRY]}) as host:
        tools = HostTools(host.tools.select("*_add"), timeout=20)
        assert tools.is_blocking
        assert tools.call_blocking("ext_painter_add", {"a": 1, "b": 2}).data == {"sum": 3}
        assert tools.call_blocking("ext_painter_add", {}).is_error


@pytest.mark.parametrize("value", [None, {"a": 1}, "exthost.toml"])
def test_a_value_that_is_not_a_host_is_refused(value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        HostTools(value)
    assert caught.value.code == "X1801"


def test_the_error_for_a_missing_framework_names_the_extra() -> None:
    with pytest.raises(UsageError) as caught, framework("langchain"):
        import no_such_framework  # type: ignore[import-not-found] # noqa: F401
    assert caught.value.code == "X1800"
    assert caught.value.help == "pip install 'exthost[langchain]'"


def test_only_the_module_of_a_framework_imports_it() -> None:
    # A framework may be installed here, so it is made unavailable.
    names = ["pydantic_ai", "langchain_core", "agents", "smolagents", "fastmcp"]
    program = (
        f"import importlib, sys\nsys.modules.update(dict.fromkeys({names}))\n"
        "import exthost, exthost.integrations, exthost.integrations.host_tools\n"
        f"for module in {[*MODULES]}:\n"
        "    try:\n        importlib.import_module(f'exthost.integrations.{module}')\n"
        "    except exthost.errors.UsageError as error:\n        print(error.code, error.help)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    expected = [f"X1800 pip install 'exthost[{extra}]'" for extra in MODULES.values()]
    assert result.stdout.splitlines() == expected, result.stderr
