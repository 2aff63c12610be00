"""Reads and writes `exthost.lock` for the subcommands that change it, and prints what changed.

The lock is a file beside the config. It has a record of each extension that was approved: its
program, its permissions, and its tools with their texts. A host compares each extension with its
record.

`lock`, `approve` and `verify` compare all or some extensions. `add`, `install`, `remove`,
`uninstall` and `enable` write the record of one extension, if there is a lock.
"""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.config import Config, lock_file
from exthost.config.discovery.configfile import ConfiguredExtensions, read_config
from exthost.config.discovery.lock_reader import read_lock
from exthost.config.lock_file import LOCK_NAME, Lock, LockProblem, format_lock
from exthost.errors import Evidence, NotFound, Refused
from exthost.faces.cli.colour import paint
from exthost.faces.cli.common import Args, config_path, say
from exthost.faces.cli.config_edit import replace_file
from exthost.faces.cli.config_lock import lock_config
from exthost.faces.cli.target_specs import read_extensions
from exthost.faces.cli.verb_loop import run_once
from exthost.host.lock_survey import Comparison, compare_with_lock, find_flags, merge_record
from exthost.model.change_text import describe_change
from exthost.model.lock_record import LockChange, LockRecord, Severity
from exthost.model.names import nearest
from exthost.model.spec import Spec


def lock_path(config: Config) -> Path:
    """Return the path of the lock of a config, which is beside the config."""
    assert config.folder is not None  # a config of the command line is a file
    return Path(config.folder, LOCK_NAME)


def read_existing_lock(config: Config) -> Lock | None:
    """Return the lock of a config; None if there is none. Raises Refused if it cannot be
    used."""
    path = lock_path(config)
    try:
        return read_lock(str(path.parent))
    except LockProblem as problem:
        raise Refused(
            "X1823",
            f"{LOCK_NAME} cannot be used: {problem}",
            help=problem.help,
            evidence=Evidence(path=str(path), line=problem.line),
        ) from None


def require_lock(config: Config) -> Lock:
    """Return the lock of a config. Raises Refused if there is none, or if it cannot be used."""
    lock = read_existing_lock(config)
    if lock is None:
        raise Refused(
            "X1829",
            f"there is no {LOCK_NAME} beside the config",
            help="write one: exthost lock",
            evidence=Evidence(path=str(lock_path(config))),
        )
    return lock


def select_specs(configured: ConfiguredExtensions, names: Sequence[str]) -> list[Spec]:
    """Return the enabled extensions of these names, or all of them without a name. Raises
    NotFound."""
    specs = {spec.id: spec for spec in configured.specs if spec.enabled}
    for name in names:
        if name not in specs:
            suggestion = nearest(name, specs)
            raise NotFound(
                "X1206",
                f"the config has no enabled extension {name!r}",
                help=f"did you mean {suggestion!r}?" if suggestion else "see: exthost list",
            )
    return [specs[name] for name in dict.fromkeys(names)] if names else list(specs.values())


def find_missing(
    configured: ConfiguredExtensions, records: Mapping[str, LockRecord]
) -> list[Comparison]:
    """Return the records whose extensions the config does not have. If a manifest cannot be read,
    it may be that of any of them, so they have its error, and are not gone."""
    known_ids = {spec.id for spec in (*configured.specs, *configured.disabled)}
    errors = {
        id: manifest.diagnostic.as_error()
        for manifest in configured.rejected
        for id in manifest.ids
    }
    first_error = next(iter(errors.values()), None)
    return [
        Comparison(id, record, None, (), errors.get(id, first_error))
        for id, record in records.items()
        if id not in known_ids
    ]


def write_records(
    args: Args,
    config: Config,
    change: Callable[[dict[str, LockRecord]], None],
    *,
    anew: bool = False,
) -> bool:
    """Change the records of the lock and write it. `change` edits a dict of the records by id. With
    `anew`, a lock that cannot be used is replaced; otherwise Refused is raised. Return whether the
    file has changed."""
    path, config_file = lock_path(config), Path(config_path(args))
    with lock_config(config_file):
        try:
            lock = read_existing_lock(config)
        except Refused:
            if not anew:
                raise
            lock = None
        records = dict(lock.records) if lock is not None else {}
        change(records)
        text = format_lock(records)
        if lock is not None and lock.text == text:
            return False
        if len(text.encode()) > lock_file.MAX_LOCK_BYTES:
            raise _too_large_error(records)
        # Not `resolve`: a link could lead out of the folder. Who can read the config can read the
        # lock, such as the user of a service that runs the host.
        replace_file(path, text, mode_of=config_file)
    return True


def _too_large_error(records: Mapping[str, LockRecord]) -> Refused:
    largest = max(records, key=lambda id: len(format_lock({id: records[id]})))
    return Refused(
        "X1831",
        f"the lock would have more than {lock_file.MAX_LOCK_BYTES >> 20} MiB, and could not be "
        f"read; the largest record is that of {largest!r}",
        extension=largest,
        help="nothing was written; `exthost inspect NAME --standalone` shows what it offers",
    )


def record_extensions(args: Args, names: Collection[str], *, replaces: bool = True) -> None:
    """Write the records of extensions that were just added, installed or enabled, if the config has
    a lock. Without `replaces`, an existing record stays, because it was approved. An extension that
    does not start gets no record, and a message says so."""
    configured = read_extensions(args)
    config = configured.config
    if config.trust.lock == "off" or (lock := read_existing_lock(config)) is None:
        return
    # The extensions of these names, and all extensions of the packages of these names.
    specs = [
        spec
        for spec in configured.specs
        if spec.enabled
        and (spec.id in names or (spec.package is not None and spec.package.owner in names))
        and (replaces or spec.id not in lock.records)
    ]
    comparisons: list[Comparison] = []

    async def compare() -> int:
        comparisons.extend(await compare_with_lock(specs, lock.records))
        return 0  # `run_once` expects an exit code

    if specs:
        run_once(compare())
    for item in comparisons:
        if item.error is not None:
            reason = item.error.message
            say(f"{item.id}: its record was not written: {reason}; later: exthost lock {item.id}")
            continue
        assert item.now is not None
        all_records = {**lock.records, item.id: item.now}
        flags = find_flags(item.id, item.now, all_records, item.offer)
        print_comparison(item if item.locked is not None else replace(item, changes=()), flags)
        new_record = merge_record(item.locked, item.now)

        # The defaults bind the values of this iteration.
        def change(
            records: dict[str, LockRecord], id: str = item.id, record: LockRecord = new_record
        ) -> None:
            records[id] = record

        write_records(args, config, change)
        say(f"{item.id}: recorded in {LOCK_NAME}")


def package_ids(configured: ConfiguredExtensions, name: str) -> list[str]:
    """Return the id of an extension, and those of the further ones of the same package."""
    specs = (*configured.specs, *configured.disabled)
    owned = [spec.id for spec in specs if spec.package is not None and spec.package.owner == name]
    return [name, *owned]


def drop_records(args: Args, names: Sequence[str]) -> None:
    """Remove the records of extensions that were just removed, if the config has a lock."""
    config = read_config(config_path(args))
    if config.trust.lock == "off" or read_existing_lock(config) is None:
        return

    dropped: list[str] = []

    def change(records: dict[str, LockRecord]) -> None:
        dropped.extend(name for name in names if records.pop(name, None) is not None)

    write_records(args, config, change)
    for name in dropped:
        say(f"{name}: its record is removed from {LOCK_NAME}")


# -- texts -----------------------------------------------------------------------------------------

_STYLES = {Severity.PERMISSION: "error", Severity.VARIABLE: "error", Severity.PROGRAM: "error"}


def print_comparison(comparison: Comparison, flags: Sequence[tuple[str, str]] = ()) -> None:
    """Print the changes of one extension to stderr, a line each. Print also the `flags`, which are
    findings about what its texts hide: pairs of the key of a text and the finding."""
    if comparison.error is not None:
        return
    if comparison.now is None:
        say(f"{comparison.id}: it is gone from the config")
        return
    title = "is new" if comparison.locked is None else "has changed"
    if not comparison.changes and comparison.locked is not None:
        title = "is unchanged"
    if comparison.changes or flags:
        say(f"{comparison.id} {title}:")
    for change in comparison.changes:
        style = _STYLES.get(change.severity, "warning")
        # The worst severity is the smallest.
        mark = paint("!" if change.severity <= Severity.PROGRAM else "~", style, sys.stderr)
        sys.stderr.write(f"  {mark} ")
        say(describe_change(change))
    for key, flag in flags:
        sys.stderr.write(f"  {paint('?', 'error', sys.stderr)} ")
        say(f"{key} has {flag}" if key != "unknown_code" else flag)


def change_as_dict(change: LockChange) -> dict[str, Any]:
    """Return a change as data."""
    return {
        "key": change.key,
        "kind": change.kind,
        "severity": change.severity.name.lower(),
        "before": change.before,
        "after": change.after,
        "text": describe_change(change),
    }
