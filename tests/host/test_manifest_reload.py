"""`ManifestReloader` with a watch that reports prepared changes, without files and processes.

A watch reports that manifests are new, changed, invalid or removed. The reloader then replaces or
unloads the extensions that they describe, and publishes an event with a note about what it did. A
manifest can bundle further extensions, MCP servers: those of the manifest of `a` have ids such as
`a.server`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exthost.config.discovery.watch import Change, Watch
from exthost.errors import NotFound, SpawnFailed
from exthost.events import Bus, ManifestChanged
from exthost.host.manifest_reload import CHANGES_LOG, ManifestReloader
from exthost.model.spec import Spec

PATH = "/plugins/a/plugin.toml"


def spec_of(id: str, **fields: Any) -> Spec:
    return Spec(id=id, argv=("program",), dialect="nexo", **fields)


async def reload(
    *changes: Change,
    bundled: tuple[Spec, ...] = (),
    config_ids: frozenset[str] = frozenset(),
    failing: str = "",
) -> tuple[list[str], list[str]]:
    """Handle the changes. Return the actions in order, and the notes of the events.

    `bundled` are the servers that the manifest had before, and `config_ids` the ids of extensions
    in the config. Replacing the extension `failing` fails, and so does unloading it.
    """
    actions: list[str] = []
    notes: list[str] = []
    is_done = asyncio.Event()

    async def report(stop: asyncio.Event) -> AsyncGenerator[list[Change], None]:
        yield list(changes)
        is_done.set()

    async def replace(spec: Spec, old_id: str) -> None:
        actions.append(f"replace {old_id or 'nothing'} by {spec.id}")
        if spec.id == failing:
            raise SpawnFailed("X0301", "it does not start")

    async def unload(id: str) -> None:
        actions.append(f"unload {id}")
        if id == failing:
            raise NotFound("X1301", "there is no such extension")

    async def update_guards() -> None:
        pass

    bus = Bus()
    bus.subscribe(ManifestChanged, lambda event: notes.append(event.note))
    watch = SimpleNamespace(changes=report, initial_additional_specs={PATH: bundled})
    reloader = ManifestReloader(
        cast(Watch, watch), bus, replace, unload, update_guards, config_ids=config_ids
    )
    async with asyncio.timeout(60):
        await is_done.wait()
    await reloader.close()
    return actions, notes


async def test_only_bundled_extensions_that_differ_are_replaced_or_unloaded() -> None:
    same, old, gone = spec_of("a.same"), spec_of("a.new", version="1"), spec_of("a.gone")
    new, unrunnable = spec_of("a.new", version="2"), spec_of("a.other", unrunnable="no program")
    change = Change(
        "changed", PATH, "a", "a", spec=spec_of("a"), additional_specs=(same, new, unrunnable)
    )
    actions, notes = await reload(change, bundled=(same, old, gone))
    assert actions == ["replace a by a", "replace nothing by a.new", "unload a.gone"]
    assert notes == ["reloaded"]


async def test_a_bundled_extension_that_fails_is_named_and_the_others_are_handled() -> None:
    first, second = spec_of("a.first"), spec_of("a.second")
    change = Change("new", PATH, "a", spec=spec_of("a"), additional_specs=(first, second))
    actions, notes = await reload(change, failing="a.first")
    assert actions == [
        "replace nothing by a",
        "replace nothing by a.first",
        "replace nothing by a.second",
    ]
    assert notes == ["reloaded; its server a.first is not: it does not start"]


async def test_a_bundled_extension_that_never_ran_is_forgotten_when_it_is_removed() -> None:
    change = Change("changed", PATH, "a", "a", spec=spec_of("a"))
    actions, notes = await reload(change, bundled=(spec_of("a.gone"),), failing="a.gone")
    assert actions == ["replace a by a", "unload a.gone"] and notes == ["reloaded"]


async def test_extensions_of_the_config_are_neither_replaced_nor_unloaded() -> None:
    own = frozenset({"a", "a.gone"})
    renamed = Change("changed", PATH, "b", "a", spec=spec_of("b"))  # from a to b
    actions, _ = await reload(renamed, bundled=(spec_of("a.gone"),), config_ids=own)
    assert actions == ["replace nothing by b"]
    taken = Change("changed", PATH, "a", "b", spec=spec_of("a"))
    actions, notes = await reload(taken, config_ids=own)
    assert actions == [] and "a is an entry of the config" in notes[0]


async def test_a_manifest_without_a_usable_extension_is_only_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, CHANGES_LOG)
    changes = (
        Change("changed", PATH, previous_id="a", message="it is disabled, nested or shadowed"),
        Change("invalid", PATH, "a", "a", message="line 3: unknown key"),
        Change("removed", PATH, previous_id="a"),
    )
    actions, notes = await reload(*changes)
    assert actions == []
    assert notes == [
        "it is disabled, nested or shadowed",
        "line 3: unknown key; the running process continues unchanged",
        "the running process continues unchanged",
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "WARNING"]
