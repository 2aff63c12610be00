"""List the extensions of a config, with what is known of each without starting it. If a host of
this config is running, the states are those in the running host. TARGET is the name of one
extension, or a folder or manifest, which needs no config."""

import argparse
from typing import Any

from exthost.extension.lifecycle import State
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    say,
    say_no_extensions,
    show_json,
    show_table,
)
from exthost.faces.cli.diagnostic_lines import (
    add_all_option,
    diagnostic_as_dict,
    print_diagnostics,
    select_diagnostics,
)
from exthost.faces.cli.extension_summary import (
    describe_secrets,
    fetch_running_states,
    missing_sandbox_warning,
    summary_row,
)
from exthost.faces.cli.target_specs import read_target_extensions
from exthost.launch.prerequisites import NameOwners


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a name, a folder, a manifest")
    add_config_option(parser)
    add_all_option(parser)
    parser.add_argument("--disabled", action="store_true", help="show only disabled extensions")


def run(args: Args) -> int:
    configured = read_target_extensions(args)
    rows: list[dict[str, Any]] = []
    admitted = NameOwners()
    disabled_specs = [spec for spec in configured.disabled if args.target in (None, spec.id)]
    for spec in (*configured.specs, *disabled_specs):
        if args.disabled and spec.enabled:
            continue
        # An extension is refused if its names conflict with the names of an earlier extension, so
        # each row depends on the rows before it.
        rows.append(summary_row(configured, spec, admitted, with_sandbox=args.json))
        if rows[-1]["state"] == State.ADMITTED.value:
            admitted.add(spec)
    running_states = fetch_running_states(args)
    for row in rows:
        row |= running_states.get(row["id"], {})
    diagnostics = select_diagnostics(configured.diagnostics, include_all=args.all)
    if args.json:
        report = configured.report
        counts = {
            "scanned": report.scanned,
            "disabled": report.disabled_count,
            "invalid": report.invalid,
        }
        diagnostic_rows = [diagnostic_as_dict(diagnostic) for diagnostic in diagnostics]
        show_json({"extensions": rows, "diagnostics": diagnostic_rows, "counts": counts})
        return 0
    table = [(row["id"], row["dialect"], row["version"], row["state"], row["path"]) for row in rows]
    show_table(table, ("ID", "DIALECT", "VERSION", "STATE", "PATH"))
    if not rows and args.disabled:
        say("none are disabled")
    elif not rows and args.target is None:
        say_no_extensions(args, configured.report.searched)
    for row in rows:
        if row["reason"]:
            say(f"{row['id']}: {row['reason']}")
        if warning := missing_sandbox_warning(row["sandbox"]):
            say(f"{row['id']}: {warning}")
        if row["asks_for"]:
            say(f"{row['id']}: {describe_secrets(row['asks_for'])}")
    print_diagnostics(diagnostics)
    return 0
