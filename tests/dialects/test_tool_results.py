"""The results of `call_tool` in each dialect, the protocol of an extension, with real processes.

A failed call raises CallFailed; with `check=False` it returns a ToolResult that is an error. The
extension may report the failure by an error reply, or by a result that is marked as an error. In
the second part, hooks of another extension get the result, and may replace it.
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import CallFailed, CallTimeout, ExtensionGone, NotFound, SpawnFailed, UsageError
from exthost.extension.extension import Extension
from exthost.tool_result import TextBlock, ToolResult
from tests.dialects import test_cigen, test_mcp, test_nexo, test_synaps
from tests.extensions import nexo_tree, roder
from tests.extensions.harness import closed_at_end, error_of, wait_until
from tests.extensions.morphir_program import morphir_program

# A morphir extension whose tool answers a division by zero with an error reply.
NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}}}
DIVIDER = morphir_program(
    """
    try:
        result = params["a"] / params["b"]
    except ZeroDivisionError as division_error:
        error = str(division_error)
    """,
    tools=[{"name": "divide", "description": "", "params_schema": NUMBERS}],
)
COMMAND = [sys.executable, "-S", "-E", "-c", DIVIDER]

# The behaviour of a nexo plugin with one hook.
HOOK_BEHAVIOUR = {"offer": {"hooks": ["after_tool_call"]}}


@asynccontextmanager
async def morphir_child(folder: Path) -> AsyncIterator[Extension]:
    async with exthost.connect(COMMAND, name="divider", dialect="morphir") as ext:
        yield ext


@asynccontextmanager
async def mcp_child(folder: Path) -> AsyncIterator[Extension]:
    async with test_mcp.child() as ext:
        await ext.call_tool("change", {"add": ["ghost"]})  # a tool that the server does not know
        await wait_until(lambda: "ghost" in ext.tools)
        yield ext


@dataclass(frozen=True, kw_only=True)
class ToolCase:
    """A tool call and its expected result.

    open            starts the extension
    text, data      of the result, or of the error
    code            the code of the error that the call raises; "" if it succeeds
    is_error_reply  whether the extension reports the failure with an error reply of its dialect.
                    Otherwise it is a result that is marked as an error
    """

    dialect: str
    open: Callable[[Path], Any]
    tool: str
    arguments: Any = field(default_factory=dict)
    text: str
    data: Any = None
    code: str = ""
    is_error_reply: bool = True

    def __str__(self) -> str:
        return f"{self.dialect}-{self.tool}"


PLAN = {"schema": {"jobs": [{"id": "x"}]}}
SUCCESSFUL_CALLS = [
    ToolCase(dialect="morphir", open=morphir_child, tool="divide", arguments={"a": 6, "b": 4},
        text="1.5", data=1.5),
    ToolCase(dialect="nexo", open=lambda _: test_nexo.child(), tool="echo", arguments={"a": 1},
        text='{"a":1}', data={"a": 1}),
    ToolCase(dialect="synaps", open=lambda _: test_synaps.child(), tool="echo", arguments={"a": 1},
        text='{"a":1}', data={"a": 1}),
    ToolCase(dialect="mcp", open=mcp_child, tool="typed", arguments={"as": {"sum": 3}},
        text="typed", data={"sum": 3}),
]  # fmt: skip
FAILED_CALLS = [
    ToolCase(dialect="morphir", open=morphir_child, tool="divide", arguments={"a": 1, "b": 0},
        text="division by zero", code="X0701"),
    ToolCase(dialect="nexo", open=lambda _: test_nexo.child({"offer": {"tools": ["refuse"]}}),
        tool="refuse", text="not today", data=[1], code="X0701"),
    ToolCase(dialect="synaps", open=lambda _: test_synaps.child(), tool="ask", text="'method'",
        data=[1], code="X0701"),
    ToolCase(dialect="cigen", open=lambda _: closed_at_end(test_cigen.plugin()), tool="plan",
        arguments=test_cigen.request_with_verb("plan:fail"), text="bad plan", code="X0720"),
    ToolCase(dialect="roder", open=lambda folder: closed_at_end(roder.roder_extension(folder)),
        tool="refuse", text="not today", code="X0701"),
    ToolCase(dialect="roder", open=lambda folder: closed_at_end(roder.roder_extension(folder)),
        tool="fail", text="as you wish", code="X0702", is_error_reply=False),
    ToolCase(dialect="mcp", open=mcp_child, tool="ghost", text="no such tool", code="X0701"),
    ToolCase(dialect="mcp", open=mcp_child, tool="typed", arguments={"isError": True}, text="typed",
        code="X0702", is_error_reply=False),
]  # fmt: skip


@pytest.mark.parametrize("case", SUCCESSFUL_CALLS, ids=str)
async def test_a_successful_tool_returns_a_tool_result_in_every_dialect(
    case: ToolCase, tmp_path: Path
) -> None:
    async with case.open(tmp_path) as ext:
        for check in (True, False):
            result = await ext.call_tool(case.tool, case.arguments, check=check)
            assert isinstance(result, ToolResult) and result.error_reply is None
            assert (result.text, result.is_error) == (case.text, False)
            assert result.data == case.data
            assert result.content == (TextBlock(case.text),)


async def test_a_roder_result_has_data_and_text(tmp_path: Path) -> None:
    async with closed_at_end(roder.roder_extension(tmp_path)) as ext:
        result = await ext.call_tool("echo", {"a": 1})
        assert result.data["arguments"] == {"a": 1} and not result.is_error
        assert result.raw == {"content": result.text, "isError": False, "data": result.data}


async def test_the_data_of_a_cigen_plan_is_the_plan() -> None:
    async with closed_at_end(test_cigen.plugin()) as ext:
        result = await ext.call_tool("plan", PLAN)
        assert result.data["resources"][0]["id"] == "x" and not result.is_error
        assert result.data is result.raw and '"id":"x"' in result.text


@pytest.mark.parametrize("case", FAILED_CALLS, ids=str)
async def test_a_tool_that_fails_raises_and_is_returned_with_check_false(
    case: ToolCase, tmp_path: Path
) -> None:
    async with case.open(tmp_path) as ext:
        error = await error_of(ext.call_tool(case.tool, case.arguments))
        assert isinstance(error, CallFailed) and error.code == case.code
        assert error.extension == ext.id
        assert error.error_message == case.text and case.text in error.message
        result = await ext.call_tool(case.tool, case.arguments, check=False)
        assert ext.stats.error == 2  # in every dialect
        assert result.is_error and result.text == case.text
        assert result.content == (TextBlock(case.text),)
        if case.is_error_reply:
            assert result.error_reply is not None and result.error_reply.code == case.code
            assert result.raw["message"] == case.text and result.data == error.data
            assert case.data is None or result.data == case.data
        else:
            assert result.error_reply is None and result.raw == error.data
            assert error.evidence.argv and error.as_dict()["evidence"]["answer"]["data"]


async def test_a_call_without_a_reply_raises_even_without_check(tmp_path: Path) -> None:
    async with closed_at_end(roder.roder_extension(tmp_path)) as ext:
        timeout = await error_of(ext.call_tool("hang", timeout=0.2, check=False))
        assert isinstance(timeout, CallTimeout)
        unknown = await error_of(ext.call_tool("no such tool", check=False))
        assert isinstance(unknown, NotFound)
        crash = await error_of(ext.call_tool("die", {"code": 3}, check=False))
        assert isinstance(crash, ExtensionGone)
    async with closed_at_end(roder.roder_extension(tmp_path, command="no-such-program")) as ext:
        assert isinstance(await error_of(ext.call_tool("echo", check=False)), SpawnFailed)
    async with morphir_child(tmp_path) as ext:
        invalid = await error_of(ext.call_tool("divide", {"a": "x"}, check=False))
        assert isinstance(invalid, UsageError)


async def test_call_returns_the_result_unchanged(tmp_path: Path) -> None:
    async with test_mcp.child() as ext:
        params = {"name": "typed", "arguments": {"isError": True}}
        assert (await ext.call("tools/call", params))["isError"] is True


# -- the blocking API and hooks ----------------------------------------------------------------


def test_the_blocking_api_returns_and_raises_the_same(tmp_path: Path) -> None:
    document = {
        "extensions": [
            {"name": "f", "source": {"type": "process", "command": COMMAND[0], "args": COMMAND[1:]}}
        ],
        "process_extensions": [roder.config_entry(tmp_path)],
    }  # fmt: skip
    with exthost.SyncHost.from_config(document) as host:
        assert host.call_tool("ext_f_divide", {"a": 6, "b": 3}).data == 2
        with pytest.raises(CallFailed) as caught:
            host["f"].call_tool("divide", {"a": 1, "b": 0})
        assert caught.value.code == "X0701"
        for call in (host.call_tool, partial(host.call_tool, hooks=False)):
            error_result = call("ext_f_divide", {"a": 1, "b": 0}, check=False)
            assert error_result.is_error and error_result.text == "division by zero"
        for _ in range(2):  # before and after the start of the process
            with pytest.raises(CallFailed) as caught:
                host.call_tool("ext_toy_fail")
            assert caught.value.code == "X0702" and caught.value.evidence.argv
            assert caught.value.error_message == "as you wish"
            assert host["toy"].call_tool("fail", check=False).is_error
        error_result = host["toy"].tools.call("fail")
        assert error_result == host.call_tool("ext_toy_fail", check=False)


def host_with_hook(folder: Path, override: Any = None) -> exthost.Host:
    """Return a host with the roder toy and the nexo plugin `eye`, which has an `after_tool_call`
    hook. The hook answers with this `override`: fields of the event that replace those of the call,
    such as `result`. It writes what it receives to the file `heard`."""
    hooks = {} if override is None else {"hooks": {"after_tool_call": {"override": override}}}
    log_file = {"heard": str(folder / "heard")}
    nexo_tree.write_plugin(
        folder / "plugins" / "eye", "eye", behaviour={**HOOK_BEHAVIOUR, **hooks, **log_file}
    )
    return exthost.Host.from_config(
        {
            "discovery": {"search_paths": [str(folder / "plugins")]},
            "process_extensions": [roder.config_entry(folder)],
        }
    )


async def test_call_tool_raises_after_its_hooks_have_received_the_failure(tmp_path: Path) -> None:
    async with host_with_hook(tmp_path) as host:
        failed = await error_of(host.call_tool("ext_toy_fail"))
        assert isinstance(failed, CallFailed) and failed.code == "X0702"
        assert (await host.call_tool("ext_toy_fail", check=False)).raw == failed.data
        refused = await error_of(host.call_tool("ext_toy_refuse"))
        assert isinstance(refused, CallFailed) and refused.code == "X0701"
        reply = await host.call_tool("ext_toy_refuse", check=False)
        assert reply.is_error and reply.text == "not today" and reply.error_reply is not None
        timeout_error = await error_of(host.call_tool("ext_toy_hang", timeout=0.2, check=False))
        assert isinstance(timeout_error, CallTimeout)
    received = (tmp_path / "heard").read_text()
    assert received.count("as you wish") == 2 and received.count("not today") == 2
    assert received.count("no answer arrived") == 1


async def test_the_error_of_a_failed_tool_mentions_skipped_hooks(
    tmp_path: Path,
) -> None:
    # An override must be an object, so this hook fails, and the host skips it.
    async with host_with_hook(tmp_path, override="no object") as host:
        for name in ("ext_toy_fail", "ext_toy_refuse"):
            failed = await error_of(host.call_tool(name))
            assert isinstance(failed, CallFailed)
            assert [item.count("after_tool_call of") for item in failed.__notes__] == [1]
            returned = await host.call_tool(name, check=False)
            assert [item.count("after_tool_call of") for item in returned.warnings] == [1]


async def test_a_result_of_a_hook_replaces_the_error(tmp_path: Path) -> None:
    replacement = {"content": "replaced", "isError": False, "data": 1}
    async with host_with_hook(tmp_path, {"result": replacement}) as host:
        result = await host.call_tool("ext_toy_fail")
        assert (result.raw, result.text, result.data, result.is_error) == (
            replacement,
            "replaced",
            1,
            False,
        )


async def test_a_hook_can_turn_a_result_into_a_failure(tmp_path: Path) -> None:
    replacement = {"content": "not allowed", "isError": True, "data": None}
    async with host_with_hook(tmp_path, {"result": replacement}) as host:
        error = await error_of(host.call_tool("ext_toy_echo"))
        assert isinstance(error, CallFailed) and error.data == replacement
        assert (await host.call_tool("ext_toy_echo", check=False)).text == "not allowed"


async def test_tools_call_returns_a_failure_in_the_format_of_the_dialect(tmp_path: Path) -> None:
    async with closed_at_end(roder.roder_extension(tmp_path)) as ext:
        refused = await ext.tools.call("refuse")
        assert isinstance(refused, ToolResult) and refused.is_error
        assert refused.raw["data"]["error"]["kind"] == "tool_execution_failed"
        assert refused.error_reply is None and refused.text == refused.raw["content"]
