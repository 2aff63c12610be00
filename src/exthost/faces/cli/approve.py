"""Show what differs from `exthost.lock`, the worst first, ask, and record the present state.

A change of a text is shown by its words. Hidden parts of a text are flagged: invisible characters,
letters of other scripts that look Latin, HTML comments, terminal codes, very long lines, and the
names of other tools. Without a NAME all extensions are compared. --yes agrees without asking, for
scripts.
"""

import argparse
import getpass
import os
import sys
from collections.abc import Sequence
from typing import Any

from exthost.errors import Refused
from exthost.events import Bus
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    print_error,
    say,
    show_json,
    show_result,
)
from exthost.faces.cli.config_edit import suggest_reload
from exthost.faces.cli.lock_edit import (
    change_as_dict,
    find_missing,
    lock_path,
    print_comparison,
    require_lock,
    select_specs,
    write_records,
)
from exthost.faces.cli.started_extension import printing_bus
from exthost.faces.cli.target_specs import read_extensions
from exthost.faces.cli.terminal_question import ask_on_terminal
from exthost.faces.cli.verb_loop import run_once
from exthost.host.audit import record_approval
from exthost.host.lock_survey import Comparison, compare_with_lock, find_flags, merge_record
from exthost.model.change_text import describe_change
from exthost.model.lock_record import LockRecord


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these extensions")
    parser.add_argument("--yes", action="store_true", help="agree without asking")
    add_config_option(parser)


def run(args: Args) -> int:
    configured = read_extensions(args)
    lock = require_lock(configured.config)
    missing = [
        item
        for item in find_missing(configured, lock.records)
        if not args.names or item.id in args.names
    ]
    names = [name for name in args.names if name not in {item.id for item in missing}]
    specs = select_specs(configured, names) if names or not args.names else []
    bus = Bus() if args.json else printing_bus()
    comparisons: list[Comparison] = []

    async def compare() -> int:
        comparisons.extend(await compare_with_lock(specs, lock.records, bus=bus))
        return 0  # `run_once` expects an exit code

    run_once(compare())
    comparisons += missing
    errors = [item.error for item in comparisons if item.error is not None]
    differing = [item for item in comparisons if item.differs and item.error is None]
    # The worst severity is the smallest number. An extension without changes is one that is gone
    # from the config; it comes last.
    differing.sort(key=lambda item: item.changes[0].severity if item.changes else 9)
    new_records = {item.id: item.now for item in comparisons if item.now is not None}
    all_records = {**lock.records, **new_records}
    flags = {  # what the texts of an extension hide
        item.id: find_flags(item.id, item.now, all_records, item.offer)
        for item in differing
        if item.now is not None
    }
    if not args.json:
        for error in errors:
            print_error(error, wants_json=False)
        for item in differing:
            print_comparison(item, flags.get(item.id, ()))
    is_approved = bool(differing) and (args.yes or _ask(args, differing))
    if is_approved:
        shown_records = {item.id: item.locked for item in differing}

        def change(records: dict[str, LockRecord]) -> None:
            """Put the approved state into the records of the lock, which is read again here."""
            for item in differing:
                # The user has approved only the difference from the record that was shown.
                if records.get(item.id) != shown_records[item.id]:
                    raise _changed_error(item.id)
                if item.now is None:
                    del records[item.id]
                else:
                    records[item.id] = merge_record(item.locked, item.now)

        write_records(args, configured.config, change)
        _write_audit(configured.config.audit_path, differing)
    return _report(args, str(lock_path(configured.config)), differing, flags, errors, is_approved)


def _changed_error(id: str) -> Refused:
    return Refused(
        "X1830",
        f"the record of {id!r} was changed by another process in the meantime",
        extension=id,
        help="nothing was written: run exthost approve again",
    )


def _ask(args: Args, differing: Sequence[Comparison]) -> bool:
    """Ask at the terminal whether the shown differences are approved. With --json nothing was
    shown, so the answer is no."""
    ids = ", ".join(item.id for item in differing)
    if args.json:
        return False
    answer = ask_on_terminal(f"Approve {ids}? [y/N] ")
    if answer is None:
        raise Refused(
            "X1828",
            "approval needs a terminal, and this is not one",
            help="read the changes above, and agree with --yes",
        )
    return answer


def _write_audit(audit_path: str | None, differing: Sequence[Comparison]) -> None:
    """Write into the audit file which user approved which changes."""
    if audit_path is None:
        return
    for item in differing:
        changes = [describe_change(change) for change in item.changes] or ["it is gone"]
        record_approval(audit_path, item.id, _user(), changes)


def _user() -> str:
    """Return the name of the user; under `sudo`, followed by the name of the user who called it."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    sudo_user = os.environ.get("SUDO_USER", "")
    return f"{name} ({sudo_user})" if sudo_user and sudo_user != name else name


def _report(
    args: Args,
    path: str,
    differing: Sequence[Comparison],
    flags: dict[str, list[tuple[str, str]]],
    errors: Sequence[Any],
    is_approved: bool,
) -> int:
    """Print the outcome. Return the exit code."""
    if args.json:
        show_json(
            {
                "lock": path,
                "approved": is_approved,
                "extensions": [
                    {
                        "id": item.id,
                        "gone": item.now is None,
                        "changes": [change_as_dict(change) for change in item.changes],
                        "flags": [
                            {"key": key, "text": text} for key, text in flags.get(item.id, ())
                        ],
                    }
                    for item in differing
                ],
                "failed": [error.as_dict() for error in errors],
            }
        )
    elif not differing:
        if not errors:
            show_result("nothing differs from the lock")
    elif is_approved:
        show_result(f"{path}: written; approved: {', '.join(item.id for item in differing)}")
        suggest_reload(args)
    else:
        say("not approved: nothing was written")
    sys.stdout.flush()
    if errors:
        return int(errors[0].exit_code)
    return 0 if is_approved or not differing else Refused.exit_code
