"""The extensions of a config, with what is known of each without starting it; if a host runs for
that config, the state is what it says. TARGET is one of them, or a folder or manifest, which needs
no config."""

import argparse
from typing import Any

from exthost.cli.common import (
    Args,
    add_config_option,
    no_command,
    say,
    say_empty,
    show_json,
    show_table,
)
from exthost.cli.diagnostic_lines import (
    add_all_option,
    diagnostic_row,
    select_diagnostics,
    tell_diagnostics,
)
from exthost.cli.extension_summary import missing_sandbox_warning, row, running_states, secret_words
from exthost.cli.target_specs import read_targeted
from exthost.extension.lifecycle import State
from exthost.spec import Spec


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a name, a folder, a manifest")
    add_config_option(parser)
    add_all_option(parser)
    parser.add_argument("--disabled", action="store_true", help="only those that are switched off")


def run(args: Args) -> int:
    no_command(args)
    wanted = read_targeted(args)
    rows: list[dict[str, Any]] = []
    admitted: list[Spec] = []
    off = [spec for spec in wanted.disabled if args.target in (None, spec.id)]
    for spec in (*wanted.specs, *off):
        if args.disabled and spec.enabled:
            continue
        rows.append(row(wanted, spec, admitted))
        if rows[-1]["state"] == State.ADMITTED.value:
            admitted.append(spec)
    running = running_states(args)
    for shown_row in rows:
        shown_row |= running.get(shown_row["id"], {})
    diagnostics = select_diagnostics(wanted.diagnostics, every=args.all)
    if args.json:
        report = wanted.report
        counts = {"scanned": report.scanned, "disabled": report.disabled, "invalid": report.invalid}
        shown = [diagnostic_row(diagnostic) for diagnostic in diagnostics]
        show_json({"extensions": rows, "diagnostics": shown, "counts": counts})
        return 0
    table = [
        (
            shown_row["id"],
            shown_row["dialect"],
            shown_row["version"],
            shown_row["state"],
            shown_row["path"],
        )
        for shown_row in rows
    ]
    show_table(table, ("ID", "DIALECT", "VERSION", "STATE", "PATH"))
    if not rows and args.disabled:
        say("none are disabled")
    elif not rows and args.target is None:
        say_empty(args)
    for shown_row in rows:
        if shown_row["reason"]:
            say(f"{shown_row['id']}: {shown_row['reason']}")
        if warning := missing_sandbox_warning(shown_row["sandbox"]):
            say(f"{shown_row['id']}: {warning}")
        if shown_row["asks_for"]:
            say(f"{shown_row['id']}: {secret_words(shown_row['asks_for'])}")
    tell_diagnostics(diagnostics)
    return 0
