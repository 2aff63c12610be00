"""`host.reload(config)`: calls in flight are answered, and every part of the new config applies.

Extensions that are new are started, those with other settings are replaced, and those that are no
longer in the config are stopped. The program is the hostile extension of the tests: `echo` returns
its argument, and `keep` is answered only after `release`.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import ConfigError, UsageError
from exthost.events import ManifestChanged, Spawned
from exthost.model.messages import Request
from tests.extensions.harness import hostile_command, wait_until
from tests.extensions.nexo_tree import rewrite, write_plugin


def entry(name: str, *flags: str) -> dict[str, Any]:
    program, *args = hostile_command(*flags)
    source = {"type": "process", "command": program, "args": args}
    return {"name": name, "dialect": "morphir", "source": source}


async def test_calls_in_flight_are_answered_by_their_process() -> None:
    before = {"extensions": [entry("kept"), entry("changed"), entry("removed")]}
    # The flag has no meaning; it makes the command of the extension another one.
    after = {"extensions": [entry("kept"), entry("changed", "x=1"), entry("added")]}
    async with exthost.Host.from_config(before) as host:
        old_extensions = {name: host[name] for name in host}
        calls = {
            name: asyncio.ensure_future(extension.call("keep"))
            for name, extension in old_extensions.items()
        }
        await wait_until(
            lambda: all(extension.stats.in_flight == 1 for extension in old_extensions.values())
        )
        reloading = asyncio.ensure_future(host.reload(after))
        await wait_until(
            lambda: host["changed"] is not old_extensions["changed"] and "added" in host
        )
        assert not any(call.done() for call in calls.values())
        # Replaced and removed extensions get no new calls, but answer their calls in flight.
        for name, extension in old_extensions.items():
            session = extension.internals.queue.live_sessions[0]
            session.internal.send(Request("release"))
            await calls[name]
        outcome = await reloading
        assert outcome.added == ("added",) and outcome.changed == ("changed",)
        assert outcome.removed == ("removed",)
        assert host["kept"] is old_extensions["kept"]
        await wait_until(
            lambda: old_extensions["changed"].state == old_extensions["removed"].state == "stopped"
        )


def audited_methods(file: Path) -> list[str]:
    return [json.loads(line)["method"] for line in file.read_text().splitlines()]


async def test_a_reload_changes_the_audit_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    extensions = [entry("a")]
    async with exthost.Host.from_config({"extensions": extensions}) as host:
        await host["a"].call("echo", 1)
        for file in (first, second):
            await host.reload({"extensions": extensions, "audit": {"path": str(file)}})
            await host["a"].call("echo", 1)
        assert audited_methods(first) == ["echo"] and audited_methods(second) == ["echo"]
        invalid_config = {"extensions": [], "audit": {"path": str(tmp_path / "no" / "such")}}
        with pytest.raises(ConfigError):
            await host.reload(invalid_config)
        assert "a" in host  # an invalid config changes nothing
        await host["a"].call("echo", 1)
        assert audited_methods(second) == ["echo", "echo"]
        await host.reload({"extensions": extensions})
        await host["a"].call("echo", 1)
    assert audited_methods(second) == ["echo", "echo"]


@pytest.mark.more
async def test_a_reload_starts_and_stops_the_watch_of_manifests(tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "one", "one")
    search = {"search_paths": [str(tmp_path)]}
    changes: list[ManifestChanged] = []
    async with exthost.Host.from_config({"discovery": search}) as host:
        host.events.subscribe(ManifestChanged, changes.append)
        watch = {"enabled": True, "debounce_ms": 50}
        await host.reload({"discovery": search | {"watch": watch}})
        rewrite(path, path.read_text() + "\n# changed\n")
        await wait_until(lambda: bool(changes))  # the watch has begun when `reload` returns
        assert changes[0].extension == "one"
        await host.reload({"discovery": search})
        assert host._services._reloader is None


async def test_a_guard_whose_manifest_became_invalid_continues(tmp_path: Path) -> None:
    """A guard is an extension whose hook can block calls. Without it, the calls that it blocks
    would pass after the reload."""
    hooks = 'hooks = ["before_tool_call"]'
    behaviour_of_guard = {"hooks": {"before_tool_call": {"abort": True, "reason": "no"}}}
    manifest = write_plugin(
        tmp_path / "guard", "guard", behaviour=behaviour_of_guard, capabilities=hooks
    )
    write_plugin(tmp_path / "work", "work")
    config = {"discovery": {"search_paths": [str(tmp_path)]}}
    async with exthost.Host.from_config(config) as host:
        guard = host["guard"]
        rewrite(manifest, manifest.read_text() + "unknown = 1\n")
        outcome = await host.reload(config)
        assert (outcome.removed, [error.extension for error in outcome.failed]) == ((), ["guard"])
        assert host["guard"] is guard and guard.state == "ready"
        manifest.unlink()
        outcome = await host.reload(config)
        assert (outcome.removed, outcome.failed) == (("guard",), ())


async def test_a_reload_with_an_empty_dict_removes_all_extensions() -> None:
    async with exthost.Host.from_config({"extensions": [entry("a")]}) as host:
        assert (await host.reload({})).removed == ("a",) and not list(host)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800"])
def test_a_path_of_a_config_that_cannot_exist_is_reported(path: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        exthost.Host.from_config(path)
    assert caught.value.code == "X0101"


@pytest.fixture
def watched_config(tmp_path: Path) -> dict[str, Any]:
    """A config with a watched search path, and with an extension that never makes a handshake."""
    write_plugin(tmp_path / "one", "one")
    watch = {"enabled": True, "debounce_ms": 50}
    silent = {"type": "process", "command": "sleep", "args": ["3600"]}
    return {
        "extensions": [entry("a"), entry("silent") | {"source": silent, "limits": {"start": "1h"}}],
        "discovery": {"search_paths": [str(tmp_path)], "watch": watch},
    }


async def test_concurrent_reloads_run_one_after_the_other(
    tmp_path: Path, watched_config: dict[str, Any]
) -> None:
    discovery = {"discovery": watched_config["discovery"]}
    first = {"extensions": [entry("a"), entry("b", "x=1")]} | discovery
    second = {"extensions": [entry("a"), entry("c"), entry("b", "x=2")]} | discovery
    async with exthost.Host.from_config(first) as host:
        outcomes = await asyncio.gather(*(host.reload(each) for each in (second, first, second)))
        assert [outcome.added for outcome in outcomes] == [("c",), (), ("c",)]
        assert [outcome.removed for outcome in outcomes] == [(), ("c",), ()]
        assert [outcome.changed for outcome in outcomes] == [("b",)] * 3
        assert set(host) == {"a", "b", "c", "one"}
        assert host["b"].spec.argv[-1] == "x=2"
        watches = [task for task in asyncio.all_tasks() if task.get_name() == "manifest watch"]
        assert len(watches) == 1


async def test_a_later_reload_removes_what_a_cancelled_one_has_added(
    watched_config: dict[str, Any],
) -> None:
    async with exthost.Host.from_config({}) as host:
        spawned: list[str] = []
        host.events.subscribe(Spawned, lambda event: spawned.append(event.extension))
        reloading = asyncio.ensure_future(host.reload(watched_config))
        await wait_until(lambda: "silent" in spawned)
        reloading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reloading
        assert set((await host.reload({})).removed) == {"a", "silent", "one"}
        assert not list(host)


@pytest.mark.parametrize("is_open", [True, False], ids=["reload", "open"])
@pytest.mark.parametrize("is_starting", [True, False], ids=["starting", "reading"])
async def test_closing_the_host_ends_an_open_or_a_reload_in_progress(
    watched_config: dict[str, Any], is_open: bool, is_starting: bool
) -> None:
    host = exthost.Host.from_config({} if is_open else watched_config)
    spawned: list[str] = []
    host.events.subscribe(Spawned, lambda event: spawned.append(event.extension))
    if is_open:
        await host.open()
    change = host.reload(watched_config) if is_open else host.open()
    changing = asyncio.ensure_future(change)
    await asyncio.sleep(0)  # it begins
    if is_starting:
        await wait_until(lambda: "silent" in spawned)
    await host.close()
    with pytest.raises(UsageError, match="not open"):
        await asyncio.wait_for(changing, 60)
    assert not list(host) and host._services._reloader is None
