"""call_tool in each dialect, with real processes: what it returns, and what `check` changes."""

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
from tests.extensions.harness import closing, failing, until

# A morphir extension whose tool answers a division by zero with an error reply.
DIVIDER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"]}
    if request["method"] == "divide":
        try:
            answer["result"] = request["params"]["a"] / request["params"]["b"]
        except ZeroDivisionError as error:
            answer["error"] = str(error)
    else:
        numbers = {"type": "object", "properties": {"a": {"type": "number"}}}
        answer["result"] = [{"name": "divide", "description": "", "params_schema": numbers}]
    print(json.dumps(answer), flush=True)
"""
COMMAND = [sys.executable, "-S", "-E", "-c", DIVIDER]

EYE = {"offer": {"hooks": ["after_tool_call"]}}


@asynccontextmanager
async def morphir_child(folder: Path) -> AsyncIterator[Extension]:
    async with exthost.connect(COMMAND, name="divider", dialect="morphir") as ext:
        yield ext


@asynccontextmanager
async def mcp_child(folder: Path) -> AsyncIterator[Extension]:
    async with test_mcp.child() as ext:
        await ext.call_tool("change", {"add": ["ghost"]})  # one that it cannot call
        await until(lambda: "ghost" in ext.tools)
        yield ext


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way in which a tool of a dialect ends. `code` is of the error that it raises."""

    dialect: str
    open: Callable[[Path], Any]
    tool: str
    arguments: Any = field(default_factory=dict)
    text: str
    data: Any = None
    code: str = ""
    is_reply: bool = True

    def __str__(self) -> str:
        return f"{self.dialect}-{self.tool}"


PLAN = {"schema": {"jobs": [{"id": "x"}]}}
GOOD = [
    Row(dialect="morphir", open=morphir_child, tool="divide", arguments={"a": 6, "b": 4},
        text="1.5", data=1.5),
    Row(dialect="nexo", open=lambda _: test_nexo.child(), tool="echo", arguments={"a": 1},
        text='{"a":1}', data={"a": 1}),
    Row(dialect="synaps", open=lambda _: test_synaps.child(), tool="echo", arguments={"a": 1},
        text='{"a":1}', data={"a": 1}),
    Row(dialect="mcp", open=mcp_child, tool="typed", arguments={"as": {"sum": 3}},
        text="typed", data={"sum": 3}),
]  # fmt: skip
BAD = [
    Row(dialect="morphir", open=morphir_child, tool="divide", arguments={"a": 1, "b": 0},
        text="division by zero", code="X0701"),
    Row(dialect="nexo", open=lambda _: test_nexo.child({"offer": {"tools": ["refuse"]}}),
        tool="refuse", text="not today", data=[1], code="X0701"),
    Row(dialect="synaps", open=lambda _: test_synaps.child(), tool="ask", text="'method'",
        data=[1], code="X0701"),
    Row(dialect="cigen", open=lambda _: closing(test_cigen.plugin()), tool="plan",
        arguments=test_cigen.asking("plan:fail"), text="bad plan", code="X0720"),
    Row(dialect="roder", open=lambda folder: closing(roder.toy(folder)), tool="refuse",
        text="not today", code="X0701"),
    Row(dialect="roder", open=lambda folder: closing(roder.toy(folder)), tool="fail",
        text="as you wish", code="X0702", is_reply=False),
    Row(dialect="mcp", open=mcp_child, tool="ghost", text="no such tool", code="X0701"),
    Row(dialect="mcp", open=mcp_child, tool="typed", arguments={"isError": True}, text="typed",
        code="X0702", is_reply=False),
]  # fmt: skip


@pytest.mark.parametrize("row", GOOD, ids=str)
async def test_a_tool_that_succeeds_returns_one_shape_in_every_dialect(
    row: Row, tmp_path: Path
) -> None:
    async with row.open(tmp_path) as ext:
        for check in (True, False):
            result = await ext.call_tool(row.tool, row.arguments, check=check)
            assert isinstance(result, ToolResult) and result.error_reply is None
            assert (result.text, result.is_error) == (row.text, False)
            assert result.data == row.data
            assert result.content == (TextBlock(row.text),)


async def test_a_roder_result_has_its_data_beside_its_text(tmp_path: Path) -> None:
    async with closing(roder.toy(tmp_path)) as ext:
        result = await ext.call_tool("echo", {"a": 1})
        assert result.data["arguments"] == {"a": 1} and not result.is_error
        assert result.raw == {"content": result.text, "isError": False, "data": result.data}


async def test_a_cigen_plan_is_its_own_data() -> None:
    async with closing(test_cigen.plugin()) as ext:
        result = await ext.call_tool("plan", PLAN)
        assert result.data["resources"][0]["id"] == "x" and not result.is_error
        assert result.data is result.raw and '"id":"x"' in result.text


@pytest.mark.parametrize("row", BAD, ids=str)
async def test_a_tool_that_fails_raises_and_is_returned_with_check_false(
    row: Row, tmp_path: Path
) -> None:
    async with row.open(tmp_path) as ext:
        error = await failing(ext.call_tool(row.tool, row.arguments))
        assert isinstance(error, CallFailed) and error.code == row.code
        assert error.extension == ext.id
        assert error.error_message == row.text and row.text in error.message
        result = await ext.call_tool(row.tool, row.arguments, check=False)
        assert ext.stats.error == 2  # however its dialect says so
        assert result.is_error and result.text == row.text
        assert result.content == (TextBlock(row.text),)
        if row.is_reply:
            assert result.error_reply is not None and result.error_reply.code == row.code
            assert result.raw["message"] == row.text and result.data == error.data
            assert row.data is None or result.data == row.data
        else:
            assert result.error_reply is None and result.raw == error.data
            assert error.evidence.argv and error.as_dict()["evidence"]["answer"]["data"]


async def test_a_call_that_did_not_happen_raises_even_without_check(tmp_path: Path) -> None:
    async with closing(roder.toy(tmp_path)) as ext:
        late = await failing(ext.call_tool("hang", timeout=0.2, check=False))
        assert isinstance(late, CallTimeout)
        unknown = await failing(ext.call_tool("no such tool", check=False))
        assert isinstance(unknown, NotFound)
        gone = await failing(ext.call_tool("die", {"code": 3}, check=False))
        assert isinstance(gone, ExtensionGone)
    async with closing(roder.toy(tmp_path, command="no-such-program")) as ext:
        assert isinstance(await failing(ext.call_tool("echo", check=False)), SpawnFailed)
    async with morphir_child(tmp_path) as ext:
        unfit = await failing(ext.call_tool("divide", {"a": "x"}, check=False))
        assert isinstance(unfit, UsageError)


async def test_call_stays_raw(tmp_path: Path) -> None:
    async with test_mcp.child() as ext:
        asked = {"name": "typed", "arguments": {"isError": True}}
        assert (await ext.call("tools/call", asked))["isError"] is True


# -- the other faces -------------------------------------------------------------------------


def test_the_blocking_face_returns_and_raises_the_same(tmp_path: Path) -> None:
    document = {
        "extensions": [
            {"name": "f", "source": {"type": "process", "command": COMMAND[0], "args": COMMAND[1:]}}
        ],
        "process_extensions": [roder.entry(tmp_path)],
    }  # fmt: skip
    with exthost.SyncHost.from_config(document) as host:
        assert host.call_tool("ext_f_divide", {"a": 6, "b": 3}).data == 2
        with pytest.raises(CallFailed) as caught:
            host["f"].call_tool("divide", {"a": 1, "b": 0})
        assert caught.value.code == "X0701"
        for call in (host.call_tool, partial(host.call_tool, hooks=False)):
            divided = call("ext_f_divide", {"a": 1, "b": 0}, check=False)
            assert divided.is_error and divided.text == "division by zero"
        for _ in range(2):  # before and after its start
            with pytest.raises(CallFailed) as caught:
                host.call_tool("ext_toy_fail")
            assert caught.value.code == "X0702" and caught.value.evidence.argv
            assert caught.value.error_message == "as you wish"
            assert host["toy"].call_tool("fail", check=False).is_error
        answered = host["toy"].tools.call("fail")
        assert answered == host.call_tool("ext_toy_fail", check=False)


def hooked(folder: Path, result: Any) -> exthost.Host:
    """A host with the roder toy, and a hook that puts this result in place of each."""
    more = {} if result is None else {"hooks": {"after_tool_call": {"override": result}}}
    received = {"heard": str(folder / "heard")}
    nexo_tree.plugin(folder / "plugins" / "eye", "eye", behaviour={**EYE, **more, **received})
    return exthost.Host.from_config(
        {
            "discovery": {"search_paths": [str(folder / "plugins")]},
            "process_extensions": [roder.entry(folder)],
        }
    )


async def test_run_tool_raises_after_its_hooks_have_seen_the_failure(tmp_path: Path) -> None:
    async with hooked(tmp_path, None) as host:
        failed = await failing(host.call_tool("ext_toy_fail"))
        assert isinstance(failed, CallFailed) and failed.code == "X0702"
        assert (await host.call_tool("ext_toy_fail", check=False)).raw == failed.data
        refused = await failing(host.call_tool("ext_toy_refuse"))
        assert isinstance(refused, CallFailed) and refused.code == "X0701"
        reply = await host.call_tool("ext_toy_refuse", check=False)
        assert reply.is_error and reply.text == "not today" and reply.error_reply is not None
        late = await failing(host.call_tool("ext_toy_hang", timeout=0.2, check=False))
        assert isinstance(late, CallTimeout)
    received = (tmp_path / "heard").read_text()
    assert received.count("as you wish") == 2 and received.count("not today") == 2
    assert received.count("no answer came") == 1


async def test_the_error_of_a_failed_tool_mentions_skipped_hooks(
    tmp_path: Path,
) -> None:
    async with hooked(tmp_path, "no object") as host:
        for name in ("ext_toy_fail", "ext_toy_refuse"):
            failed = await failing(host.call_tool(name))
            assert isinstance(failed, CallFailed)
            assert [item.count("after_tool_call of") for item in failed.__notes__] == [1]
            returned = await host.call_tool(name, check=False)
            assert [item.count("after_tool_call of") for item in returned.warnings] == [1]


async def test_a_result_that_a_hook_replaced_is_read_anew(tmp_path: Path) -> None:
    good = {"content": "mended", "isError": False, "data": 1}
    async with hooked(tmp_path, {"result": good}) as host:
        result = await host.call_tool("ext_toy_fail")
        assert (result.raw, result.text, result.data, result.is_error) == (good, "mended", 1, False)


async def test_a_hook_may_turn_a_result_into_a_failure(tmp_path: Path) -> None:
    bad = {"content": "not allowed", "isError": True, "data": None}
    async with hooked(tmp_path, {"result": bad}) as host:
        error = await failing(host.call_tool("ext_toy_echo"))
        assert isinstance(error, CallFailed) and error.data == bad
        assert (await host.call_tool("ext_toy_echo", check=False)).text == "not allowed"


async def test_tools_call_words_a_failure_in_the_format_of_the_dialect(tmp_path: Path) -> None:
    async with closing(roder.toy(tmp_path)) as ext:
        refused = await ext.tools.call("refuse")
        assert isinstance(refused, ToolResult) and refused.is_error
        assert refused.raw["data"]["error"]["kind"] == "tool_execution_failed"
        assert refused.error_reply is None and refused.text == refused.raw["content"]
