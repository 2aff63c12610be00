"""One file, two tools, a stream and progress, in every dialect, by the real host."""

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
    started,
    write_manifest,
)
from tests.faces.cli.cli_process import run_inside


def plain(result: Any) -> Any:
    """The value that the handler returned; MCP wraps one that is not an object."""
    data = result.data
    return data["result"] if isinstance(data, dict) and data.keys() == {"result"} else data


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_its_tools_and_its_stream_are_called(dialect: str, tmp_path: Path) -> None:
    async with started(SAMPLE, dialect, tmp_path) as ext:
        assert list(ext.tools) == ["add", "work", "count"]
        tool = ext.tools["add"]
        assert tool.description == "Add two numbers."
        assert tool.input_schema["properties"]["a"] == {
            "type": "integer",
            "description": "the first",
        }
        assert plain(await ext.call_tool("add", {"a": 1, "b": 2})) == 3
        assert (await ext.call_tool("work", {"steps": 3})).text == "done"
        assert plain(await ext.call_tool("count", {"to": 3})) == [1, 2, 3]


@pytest.mark.parametrize("dialect", ["morphir", "mcp"])
def test_the_command_line_calls_it(dialect: str) -> None:
    words = ["call", "add", "a=1", "b=2", "--json", "--dialect", dialect, "--"]
    done = run_inside(*words, *command(SAMPLE, dialect))
    assert done.returncode == 0, done.stderr
    assert "3" in done.stdout


@pytest.mark.parametrize("dialect", ["nexo", "roder", "synaps"])
def test_the_manifest_that_it_prints_is_all_that_a_host_needs(dialect: str, tmp_path: Path) -> None:
    folder = tmp_path / "sample"
    folder.mkdir()
    manifest = write_manifest(SAMPLE, dialect, folder)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    target = folder if dialect == "synaps" else manifest
    done = run_inside("inspect", str(target), cwd=folder, env=os.environ | {"PATH": path})
    assert done.returncode == 0, done.stderr
    assert "add" in done.stdout and "count" in done.stdout


# -- what each dialect has for streams and progress --------------------------------------------


async def test_in_mcp_progress_and_items_are_progress_notifications(tmp_path: Path) -> None:
    async with started(SAMPLE, "mcp", tmp_path) as ext:
        observed: list[Progress] = []
        await ext.call_tool("work", {"steps": 2}, on_progress=observed.append)
        assert [(item.progress, item.total, item.message) for item in observed] == [
            (1, 2, "step 1"),
            (2, 2, "step 2"),
        ]
        observed.clear()
        await ext.call_tool("count", {"to": 3}, on_progress=observed.append)
        assert [item.message for item in observed] == ["1", "2", "3"]


async def test_in_mcp_progress_always_increases_and_nothing_of_it_is_lost() -> None:
    """As the protocol requires, whatever a handler reports and yields."""
    ext = Extension("both")

    @ext.stream
    async def history(ctx: Context) -> AsyncIterator[str]:
        for day in (1, 2):
            await ctx.progress(day, 2, f"day {day}")
            yield f"item {day}"
        await ctx.progress(1, 2, "once more")

    observed: list[Progress] = []
    async with testing.connect(ext, dialect="mcp") as client:
        await client.call_tool("history", on_progress=observed.append)
    words = ["day 1", "item 1", "day 2", "item 2", "once more"]
    assert [progress.message for progress in observed] == words
    values = [progress.progress for progress in observed]
    assert values == sorted(set(values)) and (values[0], values[2]) == (1, 2)


@pytest.mark.parametrize("start", [0, 0.25, 10**12, 1e17])
async def test_in_mcp_the_progress_of_a_handler_is_not_replaced_by_the_number_of_items(
    start: float,
) -> None:
    """Also where a float has no room for a small step, as with bytes of a large file."""
    ext = Extension("both")

    @ext.stream
    def history(ctx: Context) -> Iterator[str]:
        for step in (0, 0, 1):
            ctx.progress(start + step * 1000, start + 1000, "step")
            yield "item"

    observed: list[Progress] = []
    async with testing.connect(ext, dialect="mcp") as client:
        await client.call_tool("history", on_progress=observed.append)
    values = [progress.progress for progress in observed]
    assert len(values) == 6 and values == sorted(set(values)), values
    assert (values[0], values[4]) == (start, start + 1000)
    assert values[3] == pytest.approx(start, rel=1e-5, abs=1e-5)


async def test_in_nexo_progress_reaches_the_caller(tmp_path: Path) -> None:
    async with started(SAMPLE, "nexo", tmp_path) as ext:
        observed: list[Progress] = []
        await ext.call_tool("work", {"steps": 2}, on_progress=observed.append)
    assert [(item.progress, item.total, item.message) for item in observed] == [
        (1, 2, "step 1"),
        (2, 2, "step 2"),
    ]


async def test_in_synaps_a_stream_is_a_command_and_progress_its_task(tmp_path: Path) -> None:
    async with started(SAMPLE, "synaps", tmp_path) as ext:
        async with ext.commands.invoke("count", ["3"]) as stream:
            events = [event async for event in stream]
        assert [event.content for event in events] == ["1", "2", "3"]
        assert stream.result == [1, 2, 3]
        async with ext.commands.invoke("work", ["steps=2"]) as stream:
            tasks = [type(event).__name__ async for event in stream]
        assert stream.result == "done" and len(tasks) == 4, tasks


async def test_in_roder_a_stream_is_a_task(tmp_path: Path) -> None:
    async with started(SAMPLE, "roder", tmp_path) as ext:
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
    async with started(SAMPLE, "morphir", tmp_path, events=bus) as ext:
        await ext.call_tool("work", {"steps": 1})
    assert "progress 1/1: step 1" in lines and "worked" in lines


# -- faults, in the words of each dialect ------------------------------------------------------

RAW: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "morphir": ("{name}", lambda name, given: given),
    "nexo": ("tools/call", lambda name, given: {"name": name, "arguments": given}),
    "synaps": ("tool.call", lambda name, given: {"name": name, "input": given}),
    "roder": ("tools/call", lambda name, given: {"toolName": name, "arguments": given}),
    "mcp": ("tools/call", lambda name, given: {"name": name, "arguments": given}),
}


async def raw(ext: exthost.Extension, name: str, arguments: Any) -> Any:
    """Call a tool without the host's check of its arguments."""
    method, params = RAW[ext.dialect.name]
    return await ext.call(method.format(name=name), params(name, arguments))


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_bad_arguments_are_reported_in_the_words_of_the_dialect(
    dialect: str, tmp_path: Path
) -> None:
    async with started(SAMPLE, dialect, tmp_path) as ext:
        expected = (
            "invalid arguments for add: b: expected a whole number, got 'x'; "
            "aa: is not known; did you mean a?; a: is missing"
        )
        given = {"b": "x", "aa": 1}
        if dialect == "mcp":  # a model is to see what was wrong
            result = await raw(ext, "add", given)
            assert result["isError"] is True and result["content"][0]["text"] == expected
            return
        with pytest.raises(CallFailed) as caught:
            await raw(ext, "add", given)
        assert caught.value.error_message == expected
        assert caught.value.error_code == (None if dialect == "morphir" else -32602)


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_an_exception_is_an_error_reply_and_its_traceback_is_on_stderr(
    dialect: str, tmp_path: Path
) -> None:
    bus = exthost.Bus()
    lines: list[str] = []
    bus.subscribe(exthost.events.LogLine, lambda event: lines.append(event.text))
    async with started(WAITING, dialect, tmp_path, events=bus) as ext:
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
    if dialect != "roder":  # where nothing of what passes is logged
        text = "\n".join(lines)
        assert "Traceback" in text and "the value is odd" in text
        # Only the author's own frames; a result without one is named by its handler.
        assert re.search(r'Traceback .*:\n +File "[^"]*/waiting_extension.py"', text), text
        assert re.search(
            r'File "[^"]*/waiting_extension.py", line \d+, in unwritable: its arg', text
        ), text
        assert "/exthost/authoring/sdk/" not in text, text
        assert "come back tomorrow" not in text


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_an_unknown_tool_and_an_unknown_method_are_reported(
    dialect: str, tmp_path: Path
) -> None:
    async with started(SAMPLE, dialect, tmp_path) as ext:
        with pytest.raises(CallFailed, match="nothing_like_it"):
            await raw(ext, "nothing_like_it", {})
        with pytest.raises(CallFailed, match="no/such"):
            await ext.call("no/such", {})


@pytest.mark.parametrize("dialect", ["synaps", "roder"])
async def test_a_result_that_the_host_would_not_read_is_an_error(
    dialect: str, tmp_path: Path
) -> None:
    async with started(WAITING, dialect, tmp_path) as ext:
        with pytest.raises(CallFailed, match="allows 4194304"):
            await ext.call_tool("large", {"size": 5 * 2**20})
        assert (await ext.call_tool("large", {"size": 10})).text == "x" * 10


@pytest.mark.parametrize("program", [SAMPLE, WAITING], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "mcp"])
async def test_without_a_dialect_it_detects_that_of_the_host(dialect: str, program: Path) -> None:
    words = [sys.executable, str(program)]
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    limits: Any = {"handshake": "60s", "start": "60s"}
    async with exthost.connect(words, dialect=dialect, env=env, limits=limits) as ext:
        assert ext.tools


def test_a_program_whose_stdin_is_at_its_end_exits() -> None:
    words = [sys.executable, str(SAMPLE)]
    nobody = subprocess.DEVNULL
    assert subprocess.run(words, stdin=nobody, timeout=150, check=False).returncode == 0


def test_help_and_words_that_are_not_options_are_answered() -> None:
    words = [sys.executable, str(SAMPLE)]
    done = subprocess.run(
        [*words, "--help"], capture_output=True, text=True, timeout=150, check=True
    )
    assert "--dialect D" in done.stdout and "sample 1.2.3" in done.stdout
    done = subprocess.run(
        [*words, "--dilect", "mcp"], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 2 and "'--dilect'" in done.stderr


def test_input_that_no_host_sends_is_refused() -> None:
    words = [sys.executable, str(SAMPLE)]
    done = subprocess.run(
        words, input="GET / HTTP/1.1\n", capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 2 and "GET / HTTP" in done.stderr


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    words = [sys.executable, str(SAMPLE)]
    done = subprocess.run(
        [*words, "--dialect", "esperanto"], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 2 and "morphir, nexo" in done.stderr


def test_the_variable_names_the_dialect_as_well() -> None:
    asked = {"id": 7, "method": "add", "params": {"a": 1, "b": 2}}
    done = subprocess.run(
        [sys.executable, str(SAMPLE)],
        input=json.dumps(asked),  # without a line break, as a person may type it
        env=os.environ | {"EXTHOST_DIALECT": "morphir"},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert json.loads(done.stdout) == {"id": 7, "result": 3}
