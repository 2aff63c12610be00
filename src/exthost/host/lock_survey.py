"""Compares the extensions of a config with its lock, for `exthost lock`, `approve` and `verify`.

The lock (`exthost.lock`) has a record of what a person has approved of each extension: its code,
its permissions and what it offers, such as tools. To see what an extension offers, it is started,
with its settings and in its sandbox, and ended. Its files are read before the start and again after
it. If they have changed, as when npx installs a package at its first start, the extension is
started once more.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from exthost.config.discovery.locked_specs import without_lock
from exthost.dialects import find
from exthost.errors import ExthostError, Refused
from exthost.events import Bus
from exthost.host.connection import Connection
from exthost.launch.locked_code import StartState, platform_name, read_start_state
from exthost.launch.plan import prepare
from exthost.model.lock_record import (
    LockChange,
    LockRecord,
    compare_records,
    compare_start,
    has_same_code,
    with_offer,
)
from exthost.model.offer import Offer
from exthost.model.spec import Spec
from exthost.model.text_review import find_hidden_parts

# How many extensions are started at a time.
_PARALLEL_STARTS = 4

# How often an extension is started at most, if each start changes its files.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """One extension compared with its record.

    locked   its record in the lock; None if there is none
    now      its present state; None if the extension is gone, or `error` is set
    changes  how the present state differs from the record, the worst change first
    error    why the present state is not known
    offer    what it offers now; None if it was not started
    """

    id: str
    locked: LockRecord | None
    now: LockRecord | None
    changes: tuple[LockChange, ...] = ()
    error: ExthostError | None = None
    offer: Offer | None = None

    @property
    def differs(self) -> bool:
        return bool(self.changes) or self.locked is None or self.now is None


async def compare_with_lock(
    specs: Iterable[Spec],
    records: Mapping[str, LockRecord],
    *,
    offline: bool = False,
    bus: Bus | None = None,
) -> list[Comparison]:
    """Compare these extensions with their records, in this order. With `offline`, nothing is
    started, and what they offer is not compared."""
    start_limit = asyncio.Semaphore(_PARALLEL_STARTS)

    async def compare(spec: Spec) -> Comparison:
        locked = records.get(spec.id)
        async with start_limit:
            try:
                state, now, offer = await _read_present(without_lock(spec), offline, bus)
            except ExthostError as error:
                return Comparison(spec.id, locked, None, (), error)
        if locked is None:
            return Comparison(spec.id, None, now, tuple(_everything_new(now)), offer=offer)
        find_changes = compare_start if offline else compare_records
        changes = state.explain(find_changes(locked, now, platform_name()))
        return Comparison(spec.id, locked, now, tuple(changes), offer=offer)

    return list(await asyncio.gather(*map(compare, specs)))


def _everything_new(now: LockRecord) -> list[LockChange]:
    """Return the changes from an empty record to this one. `unknown_code` is left out, because
    `find_flags` reports it."""
    return [
        change
        for change in compare_records(LockRecord(), now, platform_name())
        if change.path[0] != "unknown_code"
    ]


async def _read_present(
    spec: Spec, offline: bool, bus: Bus | None
) -> tuple[StartState, LockRecord, Offer | None]:
    """Return an extension as it is now, its record, and what it offers, which the record has as
    well. With `offline` it is not started. Raises ExthostError."""
    environ = dict(os.environ)
    before = await asyncio.to_thread(_read_state, spec, environ)
    if offline:
        return before, before.record, None
    for _ in range(_ATTEMPTS):
        async with Connection(spec, environ=environ, events=bus) as extension:
            offer = extension.offer
        now = await asyncio.to_thread(_read_state, spec, environ)
        if now.record == before.record:
            return now, with_offer(now.record, offer), offer
        before = now
    raise Refused(
        "X1826",
        "its files change whenever it is started, so there is nothing to lock",
        extension=spec.id,
        help="let it write to its state folder or to a folder that is granted with :rw, and not "
        "beside its code",
    )


def _read_state(spec: Spec, environ: Mapping[str, str]) -> StartState:
    """Return what a start of this extension would run. Blocks: files are read."""
    plan = prepare(spec, find.find_dialect_of(spec), environ).plan
    return read_start_state(spec, plan, environ)


def merge_record(locked: LockRecord | None, now: LockRecord) -> LockRecord:
    """Return the record to write to the lock for the present state `now`. If the code has not
    changed, keep what cannot be found out here: the digests of the compiled files of other
    platforms, and the registry's digest if it is no longer known."""
    if locked is None or (locked.program, locked.package) != (now.program, now.package):
        return now
    others = {name: text for name, text in locked.compiled.items() if name != platform_name()}
    integrity = now.integrity or (locked.integrity if has_same_code(locked, now) else "")
    return replace(now, compiled={**others, **now.compiled}, integrity=integrity)


def find_flags(
    id: str,
    record: LockRecord,
    records: Mapping[str, LockRecord],
    offer: Offer | None = None,
) -> list[tuple[str, str]]:
    """Return what a person should know about the texts of a record, such as invisible characters or
    the name of a tool of another extension, as pairs of a key and a finding. `records` are all
    records of the config. The record has the schemas of tools as digests only, so their texts are
    taken from the `offer`. If it is not known which code runs, that is the first finding."""
    # A set, since it is compared with the words of each text.
    other_tools = {tool for other, item in records.items() if other != id for tool in item.tools}
    texts: list[tuple[str, str]] = [("instructions", record.instructions)]
    for name, tool in sorted(record.tools.items()):
        texts.append((f"tools.{name}.description", tool.description))
        texts.append((f"tools.{name}.annotations", tool.annotations))
    texts += [(f"tools.{name}", name) for name in sorted(record.tools)]
    for announced in offer.tools if offer is not None else ():
        key = f"tools.{announced.name}.schema"
        texts += [(key, text) for text in _find_texts(announced.input_schema)]
        texts += [(key, text) for text in _find_texts(announced.output_schema)]
    found = ((key, flag) for key, text in texts for flag in find_hidden_parts(text, other_tools))
    flags = list(dict.fromkeys(found))
    if record.unknown_code:
        flags.insert(0, ("unknown_code", f"its code is not covered: {record.unknown_code}"))
    return flags


def _find_texts(schema: Any) -> Iterator[str]:
    """Yield the texts in a schema, such as the descriptions of parameters, and the names."""
    values = [schema]
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            values += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            values += value
