"""Write `exthost.lock`, which records each extension of the config: what is run, what it may do,
and what it offers. From then on an extension that differs is not started, and a tool that differs
cannot be called. Put the file under version control, and review its changes.

Each extension is started once, as the config says, to see what it offers. With a NAME only these
records are written. Extensions that are no longer in the config lose their records.
"""

import argparse
from dataclasses import replace
from typing import Any

from exthost.config.lock_file import LOCK_NAME
from exthost.errors import Refused
from exthost.events import Bus
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    plural,
    print_error,
    say,
    show_json,
    show_result,
)
from exthost.faces.cli.config_edit import suggest_reload
from exthost.faces.cli.diagnostic_lines import print_diagnostics
from exthost.faces.cli.lock_edit import (
    change_as_dict,
    find_missing,
    lock_path,
    print_comparison,
    read_existing_lock,
    select_specs,
    write_records,
)
from exthost.faces.cli.started_extension import printing_bus
from exthost.faces.cli.target_specs import read_extensions
from exthost.faces.cli.verb_loop import run_once
from exthost.host.lock_survey import (
    Comparison,
    compare_with_lock,
    find_flags,
    merge_record,
)
from exthost.model.lock_record import LockRecord


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these extensions")
    add_config_option(parser)


def run(args: Args) -> int:
    configured = read_extensions(args)
    specs = select_specs(configured, args.names)
    # X1823 is about a lock that cannot be used, which is handled below.
    print_diagnostics([item for item in configured.diagnostics if item.code != "X1823"])
    try:
        lock = read_existing_lock(configured.config)
    except Refused as error:
        if args.names:
            raise
        say(f"the old lock is replaced: {error.message}")
        lock = None
    records = dict(lock.records) if lock is not None else {}
    bus = Bus() if args.json else printing_bus()
    comparisons: list[Comparison] = []

    async def compare() -> int:
        comparisons.extend(await compare_with_lock(specs, records, bus=bus))
        return 0  # `run_once` expects an exit code

    run_once(compare())
    # Those of the lock as it was when the config was read: another process may add an extension.
    missing = [] if args.names else find_missing(configured, records)
    comparisons += [item for item in missing if item.error is not None]
    gone = [item.id for item in missing if item.error is None]

    def change(records: dict[str, LockRecord]) -> None:
        """Put the new records into the records of the lock, and remove those of extensions that are
        no longer in the config."""
        for comparison in comparisons:
            if comparison.now is not None:
                locked = records.get(comparison.id)
                records[comparison.id] = merge_record(locked, comparison.now)
        for id in gone:
            records.pop(id, None)

    # `write_records` reads the lock again, because another process may have changed it. `records`
    # are those that were read before the comparison; they are changed as well, for the report.
    is_written = write_records(args, configured.config, change, anew=not args.names)
    change(records)
    for id in gone:
        say(f"{id}: its record is removed from {LOCK_NAME}, since the config does not have it")
    return _report(args, str(lock_path(configured.config)), comparisons, records, is_written)


def _report(
    args: Args,
    path: str,
    comparisons: list[Comparison],
    records: dict[str, LockRecord],
    is_written: bool,
) -> int:
    """Print the outcome. Return the exit code."""
    rows: list[dict[str, Any]] = []
    for comparison in comparisons:
        flags = []
        if comparison.now is not None:
            flags = find_flags(comparison.id, comparison.now, records, comparison.offer)
        rows.append(
            {
                "id": comparison.id,
                "locked": comparison.now is not None,
                "changes": [change_as_dict(change) for change in comparison.changes],
                "flags": [{"key": key, "text": flag} for key, flag in flags],
                "error": comparison.error.as_dict() if comparison.error is not None else None,
            }
        )
        if args.json:
            continue
        if comparison.error is not None:
            print_error(comparison.error, wants_json=False)
        elif comparison.locked is None:
            print_comparison(replace(comparison, changes=()), flags)
        else:
            print_comparison(comparison, flags)
        if comparison.now is not None:
            tools = plural(len(comparison.now.tools), "tool")
            show_result(f"{comparison.id}: locked, {tools}")
    if args.json:
        show_json({"lock": path, "written": is_written, "extensions": rows})
    else:
        show_result(f"{path}: {'written' if is_written else 'unchanged'}")
        if is_written:
            suggest_reload(args)
    errors = [item.error for item in comparisons if item.error is not None]
    return errors[0].exit_code if errors else 0
