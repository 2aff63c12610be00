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
from exthost.errors import ConfigError
from exthost.events import ManifestChanged
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
