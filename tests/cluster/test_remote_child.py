"""A process on another node behaves like a local process, and its calls fail if the node is lost.

`remote()` yields an extension whose processes run on nodes that are simulated on this machine. On
each node an agent starts processes for the host. The extension is the hostile test extension:
`keep` never answers, `leave` exits.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exthost.config.cluster import ClusterSettings
from exthost.errors import ExtensionGone, SpawnFailed
from tests.cluster.remote import remote
from tests.extensions.harness import error_of, wait_until
from tests.extensions.proc import is_running

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[2]


@pytest.mark.both_loops
async def test_calls_large_messages_stderr_and_the_exit_status_are_sent() -> None:
    async with remote() as r:
        extension = await r.extension.start()
        assert await extension.call("echo", {"x": 1}) == {"x": 1}
        large = "x" * 3_000_000
        assert await extension.call("echo", large) == large
        answers = await asyncio.gather(*(extension.call("echo", n) for n in range(200)))
        assert answers == list(range(200))
        error = await error_of(extension.call("leave", {"code": 3}))
        assert isinstance(error, ExtensionGone)
        assert error.evidence.exit == "exited with 3"
        assert error.evidence.stderr == ("leaving, as I was told",)


async def test_an_exit_directly_after_the_start_is_reported_with_stderr() -> None:
    async with remote("die_at=start", "code=7") as r:
        error = await error_of(r.extension.start())
        assert error.evidence.exit == "exited with 7"
        assert error.evidence.stderr == ("dying at start",)


async def test_all_output_before_an_exit_arrives() -> None:
    program = "import os; os.write(2, b'e' * 50000 + b'\\nlast\\n'); os._exit(1)"
    async with remote(argv=[sys.executable, "-S", "-E", "-c", program]) as r:
        error = await error_of(r.extension.start())
        assert error.evidence.stderr[-1] == "last"
        assert error.evidence.exit == "exited with 1"


async def test_a_killed_child_and_a_killed_agent_end_their_calls_once() -> None:
    async with remote(restart={"strategy": "immediate"}) as r:
        extension = await r.extension.start()
        calls_in_flight = [
            asyncio.create_task(error_of(extension.call("keep", n))) for n in range(5)
        ]
        await wait_until(lambda: extension.stats.in_flight == 5)
        os.kill(extension.stats.pid or 0, signal.SIGKILL)
        for error in await asyncio.gather(*calls_in_flight):
            assert isinstance(error, ExtensionGone) and "SIGKILL" in error.message
        assert await extension.call("echo", 1) == 1  # answered by the next process

        (pid,), child = r.agent_pids, extension.stats.pid or 0
        calls_in_flight = [
            asyncio.create_task(error_of(extension.call("keep", n))) for n in range(5)
        ]
        await wait_until(lambda: extension.stats.in_flight == 5)
        os.kill(pid, signal.SIGKILL)
        for error in await asyncio.gather(*calls_in_flight):
            assert isinstance(error, ExtensionGone)
            assert "local-" in error.message  # the node
            assert "the node failed, not the extension" in error.help
        await wait_until(lambda: not is_running(child))
        assert await extension.call("echo", 2) == 2
        r.ledger.check_calls(extension, result=2, gone=10)


async def test_a_frozen_node_is_lost_after_its_silence_limit() -> None:
    async with remote(cluster=ClusterSettings(silence=2.0)) as r:
        extension = await r.extension.start()
        (pid,), child = r.agent_pids, extension.stats.pid or 0
        call_in_flight = asyncio.create_task(error_of(extension.call("keep", 1)))
        await wait_until(lambda: extension.stats.in_flight == 1)
        os.kill(pid, signal.SIGSTOP)
        error = await call_in_flight
        assert isinstance(error, ExtensionGone)
        assert "has not answered for" in error.message
        assert "the node failed, not the extension" in error.help
        await wait_until(lambda: not is_running(child) and not is_running(pid))


async def test_a_program_that_a_node_does_not_have_is_reported() -> None:
    async with remote(argv=["/nowhere/at/all"]) as r:
        error = await error_of(r.extension.start())
        assert isinstance(error, SpawnFailed)
        assert error.code == "X0401"
        assert "on node local-" in error.message
        await wait_until(lambda: not r.cluster.agents.connections[0].process_count)


async def test_the_node_reports_processor_time_and_memory() -> None:
    async with remote() as r:
        extension = await r.extension.start()
        await wait_until(lambda: extension.internals.node_usage[1] > 0)
        seconds, memory = extension.internals.node_usage
        assert 0 < seconds < 60 and 1_000_000 < memory < 1_000_000_000


async def test_a_start_can_be_cancelled() -> None:
    async with remote("hang_at=initialize") as r:
        start = asyncio.create_task(r.extension.start())
        await wait_until(lambda: bool(r.nodes.agents))
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start


# A program that runs a host and prints the pid of its extension.
HOST = """
import asyncio, sys
from exthost import Host
async def main():
    source = {"type": "process", "command": sys.argv[1], "args": sys.argv[2:]}
    entry = {"name": "a", "dialect": "morphir", "source": source, "pool": {"engine": "local"}}
    async with Host.from_config({"extensions": [entry]}) as host:
        print(await host["a"].call("pid"), host["a"].stats.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def test_a_killed_host_leaves_no_process_on_a_node() -> None:
    hostile = str(ROOT / "tests" / "extensions" / "hostile.py")
    argv = [sys.executable, "-c", HOST, sys.executable, "-S", "-E", hostile, "ignore_eof"]
    host = subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "src"})
    assert host.stdout is not None
    try:
        child = int(host.stdout.readline().split()[1])
        assert is_running(child)
    finally:
        host.kill()
        host.wait()
        host.stdout.close()
    asyncio.run(wait_until(lambda: not is_running(child)))
