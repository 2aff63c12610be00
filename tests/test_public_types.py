"""Type checkers find mistakes in the use of the public API, such as a misspelt name or setting.

The checkers mypy and pyright read two programs. They must report no error in RIGHT, and an error in
each line of WRONG.
"""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# A check takes ten seconds, and pyright downloads parts of itself when it first runs.
CHECK_SECONDS = 300

# The beginning of both programs.
HEAD = """\
import exthost
from exthost.events import CallEnded, CallStarted, Exited
from exthost.extension.extension import Extension
from exthost.host.sync.sync_extension import SyncExtension


def on_exit(event: Exited) -> None:
    print(event.status)


"""

# A program without mistakes.
RIGHT = """\
def on_call(event: CallStarted | CallEnded) -> None:
    print(event.extension, event.key)


def on_event(event: CallStarted | CallEnded | Exited) -> None:
    print(event.extension)


async def right(host: exthost.Host, ext: Extension) -> None:
    host.events.subscribe(Exited, lambda event: print(event.status))
    host.events.subscribe((CallStarted, CallEnded), on_call)
    host.events.subscribe((CallStarted, CallEnded, Exited), on_event)
    host.events.subscribe((CallStarted, CallEnded), lambda event: print(event.key))
    host.events.subscribe(exthost.events.EVERYTHING, print)
    print(ext.state == "ready", ext.health == "running", ext.stats.result + 1)
    models = await ext.inference.list_models(timeout=1.0)
    print(models[0], (await host.call_tool("a:b", {}, on_progress=print)).text)
    async with exthost.connect(["x"], limits={"call": "2s"}, pool={"max": 2}) as one:
        print(await one.call("m", wait=False))
    tools: list[dict[str, str]] = host.tools.select("a:*").as_openai("responses", prefix=False)
    print(tools, await host.run_calls({}, timeout=1, only=["a:*"], confirm=lambda question: True))
    async with exthost.attach("x") as attached:
        print(attached["x"].stats.result + 1)


def right_blocking(host: exthost.SyncHost) -> None:
    ext: SyncExtension = host["x"]
    print(ext.state == "ready", ext.stats.result + 1, ext.tools.call("t").text)
    with ext.tasks.execute({}, timeout=2.0) as events:
        print([event for event in events], events.result)
    print(ext.inference.list_models(timeout=1.0)[0])
    with exthost.sync_connect(["x"], dialect="mcp", start="lazy") as one:
        print(one.call_tool("t", on_progress=print, wait=False), one.prompts.list(timeout=1))
    host.close(drain=True)
    with exthost.sync_attach("x") as attached:
        print(attached["x"].stats.result + 1, attached.call_tool("a:b", {}, timeout=1.0).text)
    exthost.SyncHost.from_config("x").open().close()
    try:
        host.call_tool("a:b")
    except exthost.errors.ExthostError as error:
        print(error.public().as_dict())
"""

# A program with a mistake in each line of its function. Most are misspelt names. The others are a
# listener for other events, a value that is not in the list of choices, and `with` in place of
# `async with`.
WRONG = """\
async def wrong(host: exthost.Host, ext: Extension, sync_host: exthost.SyncHost) -> None:
    host.events.subscribe((CallStarted, CallEnded), on_exit)
    host.nonsense
    host["x"].nonsense
    sync_host.nonsense
    sync_host["x"].nonsense
    ext.nonsense
    ext.inference.nonsense
    ext.stats.nonsense
    sync_host["x"].inference.nonsense
    sync_host["x"].inference.list_models(timeuot=1.0)
    sync_host["x"].list_tools(timeuot=1.0)
    sync_host["x"].call_tool("t", on_porgress=print)
    sync_host["x"].tools.nonsense
    sync_host.hooks.nonsense
    exthost.Host(hardne=True)
    exthost.Host.from_config("x", hardne=True)
    exthost.SyncHost(hardne=True)
    exthost.SyncHost.from_config("x", hardne=True)
    exthost.connect(["x"], limts={})
    exthost.connect(["x"], limits={"cal": 1})
    exthost.connect(["x"], start="later")
    exthost.sync_connect(["x"], limts={})
    exthost.sync_attach("x").nonsense
    exthost.sync_attach("x").call_tool("t", timeuot=1.0)
    host.tools.as_openai("chta")
    await host.run_calls({}, onyl=[])
    exthost.connect(["x"]).__enter__()
"""


def write_programs(folder: Path) -> set[int]:
    """Write both programs; return the numbers of the lines that have a mistake."""
    (folder / "right.py").write_text(f"{HEAD}\n\n{RIGHT}")
    (folder / "wrong.py").write_text(f"{HEAD}\n\n{WRONG}")
    lines_before = HEAD.count("\n") + 2
    return {
        lines_before + n for n, line in enumerate(WRONG.splitlines(), 1) if line.startswith("    ")
    }


Errors = dict[tuple[str, int], str]


def mypy_errors(folder: Path) -> Errors:
    """Return the errors of mypy, by program and line."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    result = subprocess.run(
        [*command, f"--cache-dir={folder / 'cache'}", "right.py", "wrong.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr
    errors = re.findall(r"^(\w+)\.py:(\d+): error: (.*)", result.stdout, re.MULTILINE)
    return {(program, int(line)): text for program, line, text in errors}


def pyright_errors(folder: Path) -> Errors:
    """Return the errors of pyright, by program and line."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    try:
        result = subprocess.run(
            [*command, "right.py", "wrong.py"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=CHECK_SECONDS,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("pyright does not run here: it cannot download parts of itself")
    if not result.stdout.startswith("{"):
        pytest.skip(f"pyright does not run here: {result.stderr.strip()[-200:]}")
    return {
        (Path(item["file"]).stem, item["range"]["start"]["line"] + 1): item["message"]
        for item in json.loads(result.stdout)["generalDiagnostics"]
        if item["severity"] == "error"
    }


@pytest.mark.more
@pytest.mark.parametrize("check", [mypy_errors, pyright_errors])
def test_type_checkers_report_exactly_the_lines_with_a_mistake(
    check: Callable[[Path], Errors], tmp_path: Path
) -> None:
    lines = write_programs(tmp_path)
    errors = check(tmp_path)
    assert set(errors) == {("wrong", line) for line in lines}, errors
