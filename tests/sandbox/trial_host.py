"""Hosts for the trials of the sandbox.

`started_extension` starts an extension in this process, by the start method that the test run has
chosen. `run_test_host` turns a forked process into a host that starts `tree_child.py`, reports that
it is ready, and then ends in a requested way ("segv", "exception", …), so that a trial can examine
what remains of its extension.
"""

import asyncio
import ctypes
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

from exthost.config import spec_from_mapping
from exthost.extension.extension import Extension
from exthost.process.child import Child
from tests.extensions.harness import SHORT_SHUTDOWN, wait_until

# "execute", or "template": a process that is forked from a template, which has imported the modules
# of the extension. `test_trials` runs some trials with both.
START_METHOD = os.environ.get("EXTHOST_TEST_START_METHOD", "execute")

# How the processes of the trials were started: "template", or the reason why not.
STARTED: Counter[str] = Counter()

FAMILY = [sys.executable, "-S", "-E", str(Path(__file__).parent / "tree_child.py")]


@asynccontextmanager
async def started_extension(
    argv: list[str], events: Any = None, **settings: Any
) -> AsyncIterator[Extension]:
    """Start an extension as `exthost.connect` does, with short shutdown steps, and close it at the
    end."""
    settings.setdefault("start_method", START_METHOD)
    source = {"type": "process", "command": argv[0], "args": argv[1:]}
    spec = spec_from_mapping({"name": "family", "source": source, **settings})
    extension = Extension(spec, SHORT_SHUTDOWN, bus=events)
    try:
        await extension.start()
        if START_METHOD == "template":
            await restart_in_advance(extension)
        yield extension
    finally:
        start = extension.internals.describe_start_method()
        STARTED[start.get("reason") or start["last"]] += 1
        await extension.close()


async def restart_in_advance(extension: Extension) -> None:
    """Restart the extension so that its process is one that was started in advance: a fork of a
    template that waits until it is needed. This way to start has the most code of its own."""
    starter = extension._starter.templates
    if starter is None or starter.last.method != "template":
        return
    plan = extension._starter.prepared().plan
    # First a restart from a template with the modules of the program.
    starter._learn(plan)
    await extension.restart()
    template = starter._last_template
    child = extension._supervisor.processes.sessions[0].lifetime.child
    if template is None or not isinstance(child, Child):
        return
    # Then one process is started in advance, and the next restart must use it.
    starter._start_next(template, plan, child)
    prepared = starter._next
    assert prepared is not None
    await wait_for_next(extension)
    await extension.restart()
    processes = extension._supervisor.processes
    assert processes.sessions[0].lifetime.child is prepared.child
    await wait_until(lambda: not processes.dismissed_count)  # those that were replaced


async def wait_for_next(extension: Extension) -> None:
    """If the process was forked from a template, wait until the next one was started in advance."""
    starter = extension._starter.templates
    if starter is not None and starter.last.method == "template":
        await wait_until(lambda: (next := starter._next) is not None and next.start.is_waiting)


def run_test_host(end: str, ready_fd: int) -> NoReturn:
    """Run the test host in this process, which was forked for it. It writes "ready" to `ready_fd`
    when its extension runs, and then ends in the way that `end` names."""
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        asyncio.run(_run_host(end, ready_fd))
    finally:
        os._exit(1)


async def _run_host(end: str, ready_fd: int) -> None:
    if end == "during spawn":
        os.write(ready_fd, b"ready")
    async with started_extension(FAMILY):
        if end != "during spawn":
            os.write(ready_fd, b"ready")
        match end:
            case "segv":
                ctypes.string_at(0)
            case "abort":
                os.abort()
            case "_exit":
                os._exit(9)
            case "exception":
                raise RuntimeError("as asked")
        await asyncio.Event().wait()
