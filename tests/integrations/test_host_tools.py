"""What the integrations share, without any framework."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import UsageError
from exthost.integrations.host_tools import HostTools, framework

PAINTER = Path(__file__).parents[1] / "extensions" / "painter.py"
ENTRY = {
    "name": "painter",
    "dialect": "mcp",
    "source": {"type": "process", "command": sys.executable, "args": ["-S", "-E", str(PAINTER)]},
}
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


async def test_a_selection_keeps_to_its_names_and_a_host_does_not() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        selected = HostTools(host.tools.select("painter:a*"))
        every = HostTools(host)
        await host.load({**ENTRY, "name": "second"})
        assert [tool.name for tool in selected.listed()] == ["ext_painter_add"]
        assert "ext_second_add" in [tool.name for tool in every.listed()]
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
def test_something_else_than_a_host_is_an_error(value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        HostTools(value)
    assert caught.value.code == "X1801"


def test_a_framework_that_is_not_installed_is_one_sentence_with_its_extra() -> None:
    with pytest.raises(UsageError) as caught, framework("langchain"):
        import no_such_framework  # type: ignore[import-not-found] # noqa: F401
    assert caught.value.code == "X1800"
    assert caught.value.help == "pip install 'exthost[langchain]'"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_its_framework_and_no_other_does(module: str) -> None:
    # A framework may be installed here, so it is made unavailable.
    names = ["pydantic_ai", "langchain_core", "agents", "smolagents", "fastmcp"]
    program = (
        f"import sys\nsys.modules.update(dict.fromkeys({names}))\n"
        "import exthost, exthost.integrations, exthost.integrations.host_tools\n"
        f"try:\n    import exthost.integrations.{module}\n"
        "except exthost.errors.UsageError as error:\n    print(error.code, error.help)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    expected = f"X1800 pip install 'exthost[{MODULES[module]}]'"
    assert done.stdout.strip() == expected, done.stderr
