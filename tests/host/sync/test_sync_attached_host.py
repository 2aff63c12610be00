"""A blocking program uses a host that runs elsewhere; hosts are opened without `with`.

`exthost.sync_attach(config)` connects to the host that runs for this config, through its control
socket, and returns an object with the methods of a host. In these tests the host runs in the same
process.
"""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import exthost
from exthost import errors
from exthost.dialects.meanings import Progress
from exthost.extension.stats import Stats

EXTENSIONS = Path(__file__).parents[2] / "extensions"
TEXT = Path(__file__).parents[3] / "examples" / "morphir" / "text.py"
CONFIG = """\
[[extensions]]
name = "text"
source = {{ type = "process", command = "{python}", args = ["-S", "-E", "{text}"] }}

[[extensions]]
name = "painter"
dialect = "mcp"
source = {{ type = "process", command = "{python}", args = ["-S", "-E", "{painter}"] }}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "exthost.toml"
    painter = EXTENSIONS / "painter.py"
    path.write_text(CONFIG.format(python=sys.executable, text=TEXT, painter=painter))
    return path


@pytest.fixture
def host(config: Path) -> Iterator[exthost.SyncHost]:
    with exthost.SyncHost.from_config(config, control=True) as host:
        yield host


def test_close_on_the_loop_of_the_host_is_an_error_and_closes_nothing(
    host: exthost.SyncHost, config: Path
) -> None:
    command = [sys.executable, "-S", "-E", str(TEXT)]
    connection = exthost.sync_connect(command, dialect="morphir")
    with exthost.sync_attach(config) as attached, connection as extension:
        for opened, loop_thread in (
            (host, host._opened_loop_thread),
            (attached, attached._opened_loop_thread),
            (connection, connection._loop_thread),
        ):
            assert loop_thread is not None
            with pytest.raises(errors.UsageError) as caught:
                loop_thread.run_plain(opened.close)
            assert caught.value.code == "X1314"  # a blocking call on the loop
        for text in (host["text"], attached["text"], extension):
            assert text.call_tool("shout", {"text": "hi"}).data == {"text": "HI"}


def test_a_blocking_program_calls_a_host_that_runs_elsewhere(
    host: exthost.SyncHost, config: Path
) -> None:
    with exthost.sync_attach(config) as attached:
        assert attached.call_tool("ext_text_shout", {"text": "hi"}).data == {"text": "HI"}
        assert attached["text"].call_tool("count", {"text": "a b"}).data == {"words": 2}
        reports: list[Progress] = []
        attached.call_tool("ext_painter_add", {"a": 1, "b": 2}, on_progress=reports.append)
        assert len(reports) == 1
        block = {"type": "tool_use", "id": "1", "name": "ext_text_shout", "input": {"text": "a"}}
        [answer] = attached.run_calls([block])
        assert "A" in answer["content"][0]["content"]
        assert list(attached) == ["text", "painter"] and len(attached.extensions) == 2
        assert attached.tools.as_openai() == host.tools.as_openai()
        assert attached.tools.host is attached and host.tools.host is host
        with pytest.raises(errors.CallFailed, match="the brush is dry"):
            attached["painter"].call_tool("fail")
        with pytest.raises(errors.ExtensionGone):
            attached.call_tool("ext_painter_crash")
        attached["text"].restart()
        assert attached["text"].stats.restarts == host["text"].stats.restarts


def test_threads_share_an_attached_host(host: exthost.SyncHost, config: Path) -> None:
    results: list[object] = []
    with exthost.sync_attach(config) as attached:

        def call(number: int) -> None:
            result = attached.call_tool("ext_text_shout", {"text": f"a{number}"})
            results.append(result.data["text"])

        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(map(str, results)) == [f"A{number}" for number in range(8)]


def test_the_counts_of_every_host_have_one_type(host: exthost.SyncHost, config: Path) -> None:
    host.call_tool("ext_text_shout", {"text": "hi"})
    with exthost.sync_attach(config) as attached:
        stats = attached["text"].stats
        assert type(stats) is type(host["text"].stats) is Stats
        assert (stats.calls, stats.result, stats["result"]) == (1, 1, 1)
        assert {**dict(stats), "uptime": 0} == {**dict(host["text"].stats), "uptime": 0}


def test_hosts_are_opened_and_closed_without_a_block(config: Path) -> None:
    host = exthost.SyncHost.from_config(config, control=True)
    assert repr(host) == "<SyncHost, not open>"
    assert host.open() is host and repr(host) == "<SyncHost of 2 extensions>"
    try:
        attached = exthost.sync_attach(config)
        assert repr(attached) == "<SyncAttachedHost, not open>"
        with pytest.raises(errors.UsageError, match="not open"):
            attached.call_tool("ext_text_shout", {"text": "hi"})
        assert attached.open() is attached
        assert repr(attached).startswith("<SyncAttachedHost of process ")
        assert repr(attached["text"]) == "<SyncAttachedExtension 'text' ready>"
        with pytest.raises(errors.UsageError):
            attached.open()
        attached.close()
        attached.close()
        assert repr(attached) == "<SyncAttachedHost, not open>"
        with pytest.raises(errors.UsageError):
            host.open()
    finally:
        host.close()
    assert repr(host) == "<SyncHost, not open>"
    connection = exthost.sync_connect([sys.executable, "-S", "-E", str(TEXT)], dialect="morphir")
    assert repr(connection) == "<SyncConnection, not open>"
    try:
        assert connection.open().call_tool("shout", {"text": "hi"}).data == {"text": "HI"}
        assert repr(connection) == "<SyncConnection, open>"
    finally:
        connection.close()
        connection.close()


async def test_asynchronous_hosts_are_opened_without_a_block(config: Path) -> None:
    host = await exthost.Host.from_config(config, control=True).open()
    try:
        attached = await exthost.attach(config).open()
        assert (await attached.call_tool("ext_text_shout", {"text": "hi"})).data == {"text": "HI"}
        assert isinstance(attached["text"].stats, Stats)
        await attached.close()
    finally:
        await host.close()


def test_a_blocking_program_without_a_host_gets_the_error_of_attach(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound) as caught, exthost.sync_attach(tmp_path / "x.toml"):
        pass
    assert caught.value.code == "X1275"  # no host runs
