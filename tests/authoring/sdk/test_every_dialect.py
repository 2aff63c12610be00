"""One program that is written with the SDK works in every dialect, with the real host.

A dialect is the protocol that an extension speaks: `sample.py --dialect mcp`. The first tests are
the same for all dialects. The others show how each dialect carries streams, progress and errors.
SAMPLE and WAITING are the test programs `sample.py` and `waiting_extension.py`.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.dialects.meanings import Progress
from exthost.errors import CallFailed
from exthost.sdk import Context, Extension, testing
from tests.authoring.sdk.programs import (
    JSON_DIALECTS,
    SAMPLE,
    WAITING,
    command,
    running_extension,
    write_manifest,
)
from tests.faces.cli.cli_process import run_inside


def unwrap(result: Any) -> Any:
    """Return the value that the handler returned. MCP wraps a value that is not an object."""
    data = result.data
    return data["result"] if isinstance(data, dict) and data.keys() == {"result"} else data


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_the_tools_and_the_stream_can_be_called(dialect: str, tmp_path: Path) -> None:
    async with running_extension(SAMPLE, dialect, tmp_path) as ext:
        assert list(ext.tools) == ["add", "work", "count"]
        tool = ext.tools["add"]
        assert tool.description == "Add two numbers."
        assert tool.input_schema["properties"]["a"] == {
            "type": "integer",
            "description": "the first",
        }
        assert unwrap(await ext.call_tool("add", {"a": 1, "b": 2})) == 3
        assert (await ext.call_tool("work", {"steps": 3})).text == "done"
        assert unwrap(await ext.call_tool("count", {"to": 3})) == [1, 2, 3]


@pytest.mark.parametrize("dialect", ["morphir", "mcp"])
def test_the_command_line_can_call_a_tool(dialect: str) -> None:
    arguments = ["call", "add", "a=1", "b=2", "--json", "--dialect", dialect, "--"]
    result = run_inside(*arguments, *command(SAMPLE, dialect))
    assert result.returncode == 0, result.stderr
    assert "3" in result.stdout


@pytest.mark.parametrize("dialect", ["nexo", "roder", "synaps"])
def test_a_host_can_use_the_printed_manifest(dialect: str, tmp_path: Path) -> None:
    folder = tmp_path / "sample"
    folder.mkdir()
    manifest = write_manifest(SAMPLE, dialect, folder)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    target = folder if dialect == "synaps" else manifest
    result = run_inside("inspect", str(target), cwd=folder, env=os.environ | {"PATH": path})
    assert result.returncode == 0, result.stderr
    assert "add" in result.stdout and "count" in result.stdout


# -- streams and progress in each dialect -------------------------------------------


async def test_in_mcp_progress_and_items_are_progress_notifications(tmp_path: Path) -> None:
    async with running_extension(SAMPLE, "mcp", tmp_path) as ext:
        progress_events: list[Progress] = []
        await ext.call_tool("work", {"steps": 2}, on_progress=progress_events.append)
        assert [(item.progress, item.total, item.message) for item in progress_events] == [
            (1, 2, "step 1"),
            (2, 2, "step 2"),
        ]
        progress_events.clear()
        await ext.call_tool("count", {"to": 3}, on_progress=progress_events.append)
        assert [item.message for item in progress_events] == ["1", "2", "3"]


async def test_in_mcp_progress_always_increases() -> None:
    """The protocol requires this, also if a handler reports a smaller value."""
    ext = Extension("both")

    @ext.stream
    async def history(ctx: Context) -> AsyncIterator[str]:
        for day in (1, 2):
            await ctx.progress(day, 2, f"day {day}")
            yield f"item {day}"
        await ctx.progress(1, 2, "once more")

    progress_events: list[Progress] = []
    async with testing.connect(ext, dialect="mcp") as client:
        await client.call_tool("history", on_progress=progress_events.append)
    messages = ["day 1", "item 1", "day 2", "item 2", "once more"]
    assert [progress.message for progress in progress_events] == messages
    values = [progress.progress for progress in progress_events]
    assert values == sorted(set(values)) and (values[0], values[2]) == (1, 2)


@pytest.mark.parametrize("start", [0, 0.25, 10**12, 1e17])
async def test_in_mcp_the_progress_of_a_handler_has_precedence_over_items(
    start: float,
) -> None:
    """This includes values so large that a float cannot represent a small step."""
    ext = Extension("both")

    @ext.stream
    def history(ctx: Context) -> Iterator[str]:
        for step in (0, 0, 1):
            ctx.progress(start + step * 1000, start + 1000, "step")
            yield "item"

    progress_events: list[Progress] = []
    async with testing.connect(ext, dialect="mcp") as client:
        await client.call_tool("history", on_progress=progress_events.append)
    values = [progress.progress for progress in progress_events]
    assert len(values) == 6 and values == sorted(set(values)), values
    # Reports and items alternate. A report has its own value if that is larger than the last one;
    # an item has a value that is only a little larger.
    assert (values[0], values[4]) == (start, start + 1000)
    assert values[3] == pytest.approx(start, rel=1e-5, abs=1e-5)


async def test_in_nexo_progress_reaches_the_caller(tmp_path: Path) -> None:
    async with running_extension(SAMPLE, "nexo", tmp_path) as ext:
        progress_events: list[Progress] = []
        await ext.call_tool("work", {"steps": 2}, on_progress=progress_events.append)
    assert [(item.progress, item.total, item.message) for item in progress_events] == [
        (1, 2, "step 1"),
        (2, 2, "step 2"),
    ]


async def test_in_synaps_a_stream_is_a_command_and_progress_is_a_task(tmp_path: Path) -> None:
    async with running_extension(SAMPLE, "synaps", tmp_path) as ext:
        async with ext.commands.invoke("count", ["3"]) as stream:
            events = [event async for event in stream]
        assert [event.content for event in events] == ["1", "2", "3"]
        assert stream.result == [1, 2, 3]
        async with ext.commands.invoke("work", ["steps=2"]) as stream:
            task_events = [type(event).__name__ async for event in stream]
        # The start of the task, two steps, and its end.
        assert stream.result == "done" and len(task_events) == 4, task_events


async def test_in_roder_a_stream_is_a_task(tmp_path: Path) -> None:
    async with running_extension(SAMPLE, "roder", tmp_path) as ext:
        spec = await ext.tasks.spec("count")
        assert spec.description == "Count."
        async with ext.tasks.execute({"to": 3}, executor_id="count") as stream:
            events = [event async for event in stream]
        assert [event.chunk for event in events[:-1]] == ["1\n", "2\n", "3\n"]
        with pytest.raises(CallFailed, match="a whole number"):
            async with ext.tasks.execute({"to": "x"}, executor_id="count") as stream:
                pass


async def test_in_morphir_progress_is_a_line_of_the_log(tmp_path: Path) -> None:
    bus = exthost.Bus()
    lines: list[str] = []
    bus.subscribe(exthost.events.LogLine, lambda event: lines.append(event.text))
    async with running_extension(SAMPLE, "morphir", tmp_path, events=bus) as ext:
        await ext.call_tool("work", {"steps": 1})
    assert "progress 1/1: step 1" in lines and "worked" in lines


# -- errors in each dialect -----------------------------------------------------

# The method that calls a tool in each dialect, and the params for a name and arguments.
TOOL_CALLS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "morphir": ("{name}", lambda name, arguments: arguments),
    "nexo": ("tools/call", lambda name, arguments: {"name": name, "arguments": arguments}),
    "synaps": ("tool.call", lambda name, arguments: {"name": name, "input": arguments}),
    "roder": ("tools/call", lambda name, arguments: {"toolName": name, "arguments": arguments}),
    "mcp": ("tools/call", lambda name, arguments: {"name": name, "arguments": arguments}),
}


async def call_unchecked(ext: exthost.Extension, name: str, arguments: Any) -> Any:
    """Call a tool without the host's check of its arguments."""
    method, params = TOOL_CALLS[ext.dialect.name]
    return await ext.call(method.format(name=name), params(name, arguments))


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_invalid_arguments_are_reported_in_the_form_of_the_dialect(
    dialect: str, tmp_path: Path
) -> None:
    async with running_extension(SAMPLE, dialect, tmp_path) as ext:
        expected = (
            "invalid arguments for add: b: expected a whole number, got 'x'; "
            "aa: is not known; did you mean a?; a: is missing"
        )
        arguments = {"b": "x", "aa": 1}
        if dialect == "mcp":  # the model gets the error as a result
            result = await call_unchecked(ext, "add", arguments)
            assert result["isError"] is True and result["content"][0]["text"] == expected
            return
        with pytest.raises(CallFailed) as caught:
            await call_unchecked(ext, "add", arguments)
        assert caught.value.error_message == expected
        assert caught.value.error_code == (None if dialect == "morphir" else -32602)


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_an_exception_is_an_error_reply_and_its_traceback_is_on_stderr(
    dialect: str, tmp_path: Path
) -> None:
    bus = exthost.Bus()
    lines: list[str] = []
    bus.subscribe(exthost.events.LogLine, lambda event: lines.append(event.text))
    async with running_extension(WAITING, dialect, tmp_path, events=bus) as ext:
        for name, arguments, message in (
            ("fail", {"how": "plainly"}, "ValueError: the value is odd"),
            ("fail", {"how": "on purpose"}, "come back tomorrow"),
            ("fail", {"how": "by exiting"}, "SystemExit: 3"),
            ("fail_later", {}, "LookupError: not here"),
            ("unwritable", {}, "TypeError: a value of type object cannot be written as JSON"),
        ):
            with pytest.raises(CallFailed) as caught:
                await ext.call_tool(name, arguments)
            assert message in str(caught.value), str(caught.value)
        assert (await ext.call_tool("distance", {"at": {"x": 3}, "scale": 2})).text == "6.0"
    if dialect != "roder":  # roder does not log output
        text = "\n".join(lines)
        assert "Traceback" in text and "the value is odd" in text
        # The traceback has only frames of the author. An invalid result names its handler.
        assert re.search(r'Traceback .*:\n +File "[^"]*/waiting_extension.py"', text), text
        assert re.search(
            r'File "[^"]*/waiting_extension.py", line \d+, in unwritable: its arg', text
        ), text
        assert "/exthost_sdk/" not in text, text
        assert "come back tomorrow" not in text


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_an_unknown_tool_and_an_unknown_method_are_reported(
    dialect: str, tmp_path: Path
) -> None:
    async with running_extension(SAMPLE, dialect, tmp_path) as ext:
        with pytest.raises(CallFailed, match="nothing_like_it"):
            await call_unchecked(ext, "nothing_like_it", {})
        with pytest.raises(CallFailed, match="no/such"):
            await ext.call("no/such", {})


@pytest.mark.parametrize("dialect", ["synaps", "roder"])
async def test_a_result_over_the_message_limit_is_an_error(dialect: str, tmp_path: Path) -> None:
    async with running_extension(WAITING, dialect, tmp_path) as ext:
        with pytest.raises(CallFailed, match="allows 4194304"):  # 4 MiB in both dialects
            await ext.call_tool("large", {"size": 5 * 2**20})
        assert (await ext.call_tool("large", {"size": 10})).text == "x" * 10


@pytest.mark.parametrize("program", [SAMPLE, WAITING], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "mcp"])
async def test_without_the_option_dialect_a_program_detects_the_dialect_of_the_host(
    dialect: str, program: Path
) -> None:
    argv = [sys.executable, str(program)]
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    limits: Any = {"handshake": "60s", "start": "60s"}
    async with exthost.connect(argv, dialect=dialect, env=env, limits=limits) as ext:
        assert ext.tools


def test_a_program_with_an_empty_stdin_exits() -> None:
    argv = [sys.executable, str(SAMPLE)]
    null = subprocess.DEVNULL
    assert subprocess.run(argv, stdin=null, timeout=150, check=False).returncode == 0


def test_help_is_printed_and_unknown_options_are_refused() -> None:
    argv = [sys.executable, str(SAMPLE)]
    result = subprocess.run(
        [*argv, "--help"], capture_output=True, text=True, timeout=150, check=True
    )
    assert "--dialect D" in result.stdout and "sample 1.2.3" in result.stdout
    result = subprocess.run(
        [*argv, "--dilect", "mcp"], capture_output=True, text=True, timeout=150, check=False
    )
    assert result.returncode == 2 and "'--dilect'" in result.stderr


def test_the_dialects_that_have_a_manifest_are_named() -> None:
    argv = [sys.executable, str(SAMPLE), "--manifest"]
    for more in ([], ["mcp"]):
        result = subprocess.run(
            [*argv, *more], capture_output=True, text=True, timeout=150, check=False
        )
        assert result.returncode == 2 and "nexo, roder, synaps" in result.stderr
        assert "morphir" not in result.stderr


def test_input_that_no_host_sends_is_refused() -> None:
    argv = [sys.executable, str(SAMPLE)]
    result = subprocess.run(
        argv, input="GET / HTTP/1.1\n", capture_output=True, text=True, timeout=150, check=False
    )
    assert result.returncode == 2 and "GET / HTTP" in result.stderr


def test_the_error_of_an_unknown_dialect_names_the_known_dialects() -> None:
    argv = [sys.executable, str(SAMPLE)]
    result = subprocess.run(
        [*argv, "--dialect", "esperanto"], capture_output=True, text=True, timeout=150, check=False
    )
    assert result.returncode == 2 and "morphir, nexo" in result.stderr


def test_the_variable_exthost_dialect_sets_the_dialect() -> None:
    request = {"id": 7, "method": "add", "params": {"a": 1, "b": 2}}
    result = subprocess.run(
        [sys.executable, str(SAMPLE)],
        input=json.dumps(request),  # without a line break, as a person may type it
        env=os.environ | {"EXTHOST_DIALECT": "morphir"},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert json.loads(result.stdout) == {"id": 7, "result": 3}
