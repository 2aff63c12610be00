"""Manifests that change while a host is open: changes are published, and reloaded if configured.

A manifest, such as `plugin.toml`, describes an extension; the host finds it in a search path. With
`[discovery.watch] enabled = true` the host notices that a manifest is new, changed, invalid or
removed, and publishes `ManifestChanged`; with `reload = true` it also starts the new extension, or
replaces the running one. `write_plugin` writes a manifest and a program; its `behaviour` says which
tools the program announces ("offer"), or what else it does when it starts.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import Config, DiscoverySettings, WatchSettings, config_from_mapping
from exthost.config.discovery import watch
from exthost.config.discovery.configfile import find_extensions
from exthost.config.discovery.watch import Watch
from exthost.dialects import find
from exthost.errors import ConfigError
from exthost.events import Exited, ManifestChanged, Spawned, StateChanged
from exthost.host.extension_logs import ExtensionLogs
from tests.dialects.requirements import shows
from tests.extensions.harness import error_of, pid_of, wait_until
from tests.extensions.nexo_tree import config, rewrite, write_plugin
from tests.extensions.proc import is_gone

MCP_CHILD = Path(__file__).parents[1] / "extensions" / "mcp_child.py"
# Two versions of an extension, which offer different tools.
FIRST = {"offer": {"tools": ["echo", "first"]}}
SECOND = {"offer": {"tools": ["echo", "second"]}}


def new_watch(root: Path, **settings: Any) -> Watch:
    paths = (str(root),)
    return Watch(
        DiscoverySettings(search_paths=paths, **settings), find.load_manifest_formats(), str(root)
    )


def describe_changes(changes: list[watch.Change]) -> list[tuple[str, str, str]]:
    """Return the kind, the folder of the manifest and the extension of each change."""
    return [
        (change.kind, Path(change.path).parent.name, change.extension or change.previous_id)
        for change in changes
    ]


@shows("nexo-watch-04")
async def test_after_a_reload_the_last_state_in_log_and_events_is_ready(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "x" / "a", "a", behaviour=FIRST)
    async with exthost.Host(config(tmp_path / "x")) as host:
        logs = ExtensionLogs(host.events, lambda id: str(tmp_path / f"{id}.log"))
        states: list[str] = []
        host.events.subscribe(StateChanged, lambda change: states.append(change.after))
        exited: list[int] = []
        host.events.subscribe(Exited, lambda event: exited.append(event.pid))
        old = pid_of(host["a"])
        write_plugin(path.parent, "a", behaviour=SECOND)
        (spec,) = find_extensions(host.config).specs
        await host.replace(spec)
        await wait_until(lambda: is_gone(old))
        assert (await host.call_tool("ext_a_echo", {"n": 1})).data == {"n": 1}
        assert host["a"].state == "ready" and "stopped" not in states
        logs.close()
    lines = (tmp_path / "a.log").read_text().splitlines()
    logged_states = [line.split(" ", 3)[3] for line in lines if " host " in line]
    assert "stopped" not in logged_states and "draining" not in logged_states


# -- Watch, without processes --------------------------------------------------------------


@shows("nexo-watch-01")
def test_a_new_time_or_the_same_content_is_not_a_change(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "a", "a")
    watcher = new_watch(tmp_path)
    os.utime(path)
    path.write_text(path.read_text())
    copy = path.with_suffix(".new")
    copy.write_text(path.read_text())
    copy.replace(path)
    (path.parent / "notes.txt").write_text("mine")
    assert watcher.look() == []


@shows("nexo-watch-01", "nexo-watch-02")
def test_new_changed_invalid_and_removed_are_reported_once(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "a", "a")
    watcher = new_watch(tmp_path)
    write_plugin(tmp_path / "b", "b")
    assert describe_changes(watcher.look()) == [("new", "b", "b")] and watcher.look() == []
    path.write_text(path.read_text() + "# more\n")
    [changed] = watcher.look()
    assert describe_changes([changed]) == [("changed", "a", "a")] and changed.spec is not None
    path.write_text(path.read_text() + "[colour]\n")
    [invalid] = watcher.look()
    assert describe_changes([invalid]) == [("invalid", "a", "a")] and invalid.spec is None
    assert "colour" in invalid.message
    path.unlink()
    assert describe_changes(watcher.look()) == [("removed", "a", "a")] and watcher.look() == []


@shows("nexo-watch-02")
def test_a_change_of_an_excluded_manifest_adds_no_extension(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "a", "a")
    nested = write_plugin(tmp_path / "a" / "inner", "inner")
    ignored = write_plugin(tmp_path / "target" / "t", "t")
    watcher = new_watch(tmp_path, disabled=("a",))
    for item in (path, nested, ignored):
        item.write_text(item.read_text() + "# more\n")
    changes = watcher.look()
    assert [item.kind for item in changes] == ["changed", "changed"]
    assert [item.spec for item in changes] == [None, None]


def test_a_renamed_extension_is_reported_with_its_old_id(tmp_path: Path) -> None:
    write_plugin(tmp_path / "a", "a")
    watcher = new_watch(tmp_path)
    write_plugin(tmp_path / "a", "b")
    [change] = watcher.look()
    assert (change.kind, change.extension, change.previous_id) == ("changed", "b", "a")


def test_without_watchfiles_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(ConfigError) as caught:
        new_watch(tmp_path)
    assert caught.value.code == "X0131" and "exthost[watch]" in caught.value.help


# -- with a host -----------------------------------------------------------------------------


class ManifestEvents:
    """The ManifestChanged events of a host, in order. `next` waits for the next one, and returns
    its change, its extension and its note."""

    def __init__(self, host: exthost.Host) -> None:
        self._queue: asyncio.Queue[ManifestChanged] = asyncio.Queue()
        host.events.subscribe(ManifestChanged, self._queue.put_nowait)

    async def next(self) -> tuple[str, str, str]:
        async with asyncio.timeout(25):
            event = await self._queue.get()
        return event.change, event.extension, event.note

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()


def config_with_watch(root: Path, *, reload: bool) -> Config:
    watch = {"enabled": True, "debounce_ms": 50, "reload": reload}
    # Longer than any test: a test that waits until a start that hangs has failed does not pass.
    overrides = {"a": {"limits": {"handshake": "1h"}}}
    discovery = {"search_paths": [str(root)], "watch": watch}
    return config_from_mapping({"discovery": discovery, "overrides": overrides})


@asynccontextmanager
async def open_host(
    root: Path, *, reload: bool
) -> AsyncIterator[tuple[exthost.Host, ManifestEvents]]:
    host = exthost.Host(config_with_watch(root, reload=reload))
    events = ManifestEvents(host)
    async with host:
        yield host, events


@pytest.mark.more
@shows("nexo-watch-01", "nexo-watch-02")
async def test_without_reload_changes_are_reported_and_nothing_else_happens(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "a", "a", behaviour=FIRST)
    async with open_host(tmp_path, reload=False) as (host, events):
        pid = host["a"].stats.pid
        os.utime(path)
        write_plugin(tmp_path / "a", "a", behaviour=SECOND)
        change, id, note = await events.next()
        assert (change, id) == ("changed", "a") and "restart" in note
        write_plugin(tmp_path / "b", "b")
        assert (await events.next())[:2] == ("new", "b")
        path.unlink()
        assert (await events.next())[:2] == ("removed", "a")
        assert events.is_empty and "b" not in host
        assert host["a"].stats.pid == pid and "ext_a_first" in host.tools


@shows("nexo-watch-03")
async def test_with_reload_a_changed_extension_is_replaced(tmp_path: Path) -> None:
    write_plugin(tmp_path / "a", "a", behaviour=FIRST)
    write_plugin(tmp_path / "z", "z")
    async with open_host(tmp_path, reload=True) as (host, events):
        before = host["a"].stats.pid
        write_plugin(tmp_path / "a", "a", behaviour=SECOND)
        assert await events.next() == ("changed", "a", "reloaded")
        assert host["a"].stats.pid != before and list(host) == ["a", "z"]
        assert "ext_a_second" in host.tools and "ext_a_first" not in host.tools
        assert (await host.call_tool("ext_a_echo", {"a": 1})).data == {"a": 1}
        write_plugin(tmp_path / "b", "b", behaviour=FIRST)
        assert await events.next() == ("new", "b", "reloaded")
        assert (await host.call_tool("ext_b_echo", {"a": 1})).data == {"a": 1}


@shows("nexo-watch-02", "nexo-watch-03")
async def test_the_old_extension_continues_if_the_new_manifest_is_invalid_or_fails(
    tmp_path: Path,
) -> None:
    path = write_plugin(tmp_path / "a", "a", behaviour=FIRST)
    async with open_host(tmp_path, reload=True) as (host, events):
        pid = host["a"].stats.pid
        rewrite(path, "[plugin]\nid = \n")
        change, id, note = await events.next()
        assert (change, id) == ("invalid", "a") and "line 2" in note
        write_plugin(tmp_path / "a", "a", behaviour={"exit": 3})  # the program exits at its start
        change, id, note = await events.next()
        assert (change, id) == ("changed", "a") and "not reloaded" in note
        write_plugin(tmp_path / "a", "a", more='[requires]\nbins = ["no-such-program"]')
        change, id, note = await events.next()
        assert "no-such-program" in note
        assert host["a"].stats.pid == pid
        assert (await host.call_tool("ext_a_first", {"a": 1})).data == {"a": 1}
        write_plugin(tmp_path / "a", "a", behaviour=SECOND)
        assert await events.next() == ("changed", "a", "reloaded")


def server(name: str, *arguments: str) -> str:
    args = json.dumps(["-S", "-E", str(MCP_CHILD), *arguments])
    return f"[mcp_servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"


@pytest.mark.more
@shows("nexo-watch-03", "nexo-manifest-09")
async def test_only_the_changed_servers_of_a_manifest_are_replaced(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "a", "a", more=server("same") + server("old"))
    async with open_host(tmp_path, reload=True) as (host, events):
        assert list(host) == ["a", "a.same", "a.old"]
        pid = host["a.same"].stats.pid
        write_plugin(tmp_path / "a", "a", more=server("same") + server("new"))
        assert await events.next() == ("changed", "a", "reloaded")
        assert sorted(host) == ["a", "a.new", "a.same"]
        assert host["a.new"].state == "ready" and host["a.same"].stats.pid == pid
        write_plugin(tmp_path / "a", "a", more=server("same", '{"other": 1}'))
        assert await events.next() == ("changed", "a", "reloaded")
        assert sorted(host) == ["a", "a.same"] and host["a.same"].stats.pid != pid


@pytest.mark.parametrize("is_fixed", [True, False])
async def test_an_invalid_new_manifest_blocks_calls_until_it_is_fixed_or_removed(
    tmp_path: Path, is_fixed: bool
) -> None:
    write_plugin(tmp_path / "a", "a", behaviour=FIRST)
    (tmp_path / "new").mkdir()
    path = tmp_path / "new" / "plugin.toml"
    async with open_host(tmp_path, reload=True) as (host, events):
        assert (await host.call_tool("ext_a_echo", {"a": 1})).data == {"a": 1}
        rewrite(path, "[plugin]\nid = \n")
        assert (await events.next())[0] == "invalid"
        error = await error_of(host.call_tool("ext_a_echo", {"a": 1}))
        # Nobody can read whether the new extension has a hook that should block this call.
        assert error.code == "X0333" and error.extension == "new"
        if is_fixed:
            write_plugin(path.parent, "b")
        else:
            path.unlink()
        assert (await events.next())[0] == ("changed" if is_fixed else "removed")
        assert (await host.call_tool("ext_a_echo", {"a": 1})).data == {"a": 1}
        assert "new" not in host and ("b" in host) == is_fixed


async def test_a_renamed_extension_replaces_the_old_one(tmp_path: Path) -> None:
    write_plugin(tmp_path / "a", "a", behaviour=FIRST)
    async with open_host(tmp_path, reload=True) as (host, events):
        write_plugin(tmp_path / "a", "b", behaviour=SECOND)
        assert await events.next() == ("changed", "b", "reloaded")
        assert list(host) == ["b"] and "ext_a_first" not in host.tools


async def test_a_folder_that_is_moved_in_or_out_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    write_plugin(tmp_path / "elsewhere" / "a", "a", behaviour=FIRST)
    async with open_host(tmp_path / "root", reload=True) as (host, events):
        (tmp_path / "elsewhere" / "a").rename(tmp_path / "root" / "a")
        assert await events.next() == ("new", "a", "reloaded")
        (tmp_path / "root" / "a").rename(tmp_path / "elsewhere" / "a")
        assert (await events.next())[:2] == ("removed", "a")
        assert (await host.call_tool("ext_a_echo", {})).data == {}


async def test_a_host_can_close_while_a_new_extension_starts(tmp_path: Path) -> None:
    write_plugin(tmp_path / "a", "a", behaviour=FIRST)
    async with open_host(tmp_path, reload=True) as (host, _):
        starting = asyncio.Event()
        host.events.subscribe(Spawned, lambda event: starting.set())
        write_plugin(tmp_path / "a", "a", behaviour={"hang": True})
        async with asyncio.timeout(25):
            await starting.wait()
        # The new extension never answers the handshake, whose limit is longer than the test.
        # Closing the host must return all the same; the fixture `nothing_left` in tests/conftest.py
        # fails the test if a process remains.


async def test_folders_whose_names_are_not_utf_8_do_not_end_the_watch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_RESTART_SECONDS", 0.05)
    unwatched = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    inner = Path(os.fsdecode(os.fsencode(tmp_path / "root") + b"/\xfe"))
    for path, id in ((unwatched, "a"), (inner, "b"), (tmp_path / "root" / "c", "c")):
        write_plugin(path, id)
    settings = {"enabled": True, "debounce_ms": 50, "reload": True}
    search_paths = [str(unwatched), str(tmp_path / "root")]
    discovery = {"search_paths": search_paths, "watch": settings}
    for _ in range(2):  # the second host reads what the first one has recorded
        async with exthost.Host.from_config({"discovery": discovery}) as host:
            assert list(host) == ["a", "b", "c"] and not host.diagnostics
            events = ManifestEvents(host)
            for path, id in ((inner, "b"), (tmp_path / "root" / "c", "c"), (inner, "b")):
                manifest = path / "plugin.toml"
                rewrite(manifest, manifest.read_text() + "# changed\n")
                assert await events.next() == ("changed", id, "reloaded")
    assert "is not watched: its path is not UTF-8" in caplog.text
    assert "no longer watched" not in caplog.text and "not remembered" not in caplog.text


async def test_a_missing_search_path_is_not_a_problem(tmp_path: Path) -> None:
    async with open_host(tmp_path / "no" / "such", reload=True) as (host, events):
        assert len(host) == 0 and events.is_empty


def test_a_blocking_host_with_a_watch_can_be_closed(tmp_path: Path) -> None:
    write_plugin(tmp_path / "a", "a", behaviour=FIRST)
    with exthost.SyncHost(config_with_watch(tmp_path, reload=True)) as host:
        assert host.call_tool("ext_a_first", {"a": 1}).data == {"a": 1}


def test_the_settings_of_a_watch_are_off_by_default() -> None:
    assert DiscoverySettings().watch == WatchSettings(enabled=False, debounce_ms=500, reload=False)
