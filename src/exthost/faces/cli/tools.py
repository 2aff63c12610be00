"""List the tools of a config's extensions. Starts nothing: shows the tools that manifests declare
and those that an extension offered when it ran last, marked with *. Names the extensions whose
tools are known only after a start; --start starts them.

If a host of this config is running, these are the tools that can be called there.
--format prints the `tools` field of a request to a model, as JSON.
"""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from exthost.config import Config
from exthost.config.discovery.configfile import read_config
from exthost.errors import NotFound, Refused
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    config_path,
    print_error,
    require_config_path,
    say,
    say_no_extensions,
    show_json,
    show_table,
)
from exthost.faces.cli.diagnostic_lines import print_diagnostics
from exthost.faces.cli.running_host import (
    add_standalone_option,
    is_unlisted_path,
    running_host,
)
from exthost.faces.cli.started_extension import detect_dialect
from exthost.faces.cli.target_specs import (
    find_spec,
    has_config,
    read_extensions,
    refuse_dialect,
)
from exthost.faces.cli.verb_loop import run_once
from exthost.host.control.description import describe_tools
from exthost.host.control.protocol import ControlRequest, read_error
from exthost.host.host import Host
from exthost.host.model_api.model_tools import FORMS, Form, model_tool, request_tools
from exthost.model.rules import NO_RULES, Rules
from exthost.model.spec import Spec


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="only this extension")
    parser.add_argument("--start", action="store_true", help="start the extensions first")
    parser.add_argument(
        "--all", action="store_true", help="also list the tools that cannot be called, and why"
    )
    parser.add_argument(
        "--format", choices=FORMS, help="print them in the form of this API; --start includes all"
    )
    add_config_option(parser)
    add_dialect_option(parser)
    add_standalone_option(parser)


def run(args: Args) -> int:
    with running_host(args) as host:
        if host is not None:
            request = ControlRequest(
                "tools", args.target or "", {"start": args.start, "all": args.all}
            )
            try:
                return _print_report(args, host.ask(request))
            except NotFound as error:
                if not is_unlisted_path(error, args.target):
                    raise
    spec = find_spec(args, args.target)
    rules = NO_RULES
    searched: Sequence[str] = ()
    if spec is not None:
        specs: tuple[Spec, ...] = (spec,)
    else:
        refuse_dialect(args)
        configured = read_extensions(args)
        specs, searched = configured.specs, configured.report.searched
        rules = configured.config.rules
        print_diagnostics(configured.diagnostics)
    if spec is not None and not args.command and has_config(args):
        rules = read_config(require_config_path(args)).rules
    enabled = [spec for spec in specs if spec.enabled]
    return run_once(_list_tools(args, enabled, searched, rules))


async def _list_tools(args: Args, specs: list[Spec], searched: Sequence[str], rules: Rules) -> int:
    if args.command and args.dialect is None and args.start:
        specs = [await detect_dialect(args, specs[0])]
    start = "eager" if args.start else "lazy"
    config = Config(specs=tuple(replace(spec, start=start) for spec in specs), rules=rules)
    host = Host(config)
    if not args.start and not args.command:  # list the tools that were offered at the last start
        host.remember_offers(path=config_path(args))
    async with host:
        report = describe_tools(host, with_hidden=args.all)
    code = _print_report(args, report)
    if not specs and not args.json and args.format is None:
        say_no_extensions(args, searched)
    return code


def _print_report(args: Args, report: dict[str, Any]) -> int:
    """Print the tools, and the extensions that failed. Return the exit code."""
    errors = [read_error(fields) for fields in report["failed"]]
    for error in errors:
        print_error(error, wants_json=False)
    # A refused extension is reported, but it does not make the verb fail, unless the user named it:
    # the config itself keeps it from starting.
    names_one_extension = bool(args.target or args.command)
    codes = [error.exit_code for error in errors]
    relevant_codes = [code for code in codes if names_one_extension or code != Refused.exit_code]
    code = relevant_codes[0] if relevant_codes and (args.start or names_one_extension) else 0
    if args.format is not None:
        _print_for_model(args.format, report["tools"])
    elif args.json:
        show_json(report)
        return code
    else:
        _print_table(report["tools"])
        if any(tool.get("remembered") for tool in report["tools"]):
            say("* from its last start (--start asks again, exthost forget NAME drops it)")
        _print_hidden(report.get("hidden", ()))
    for tool in report.get("quarantined", ()):
        for change in tool["changes"]:
            say(f"quarantined: {tool['name']}: {change}")
    if report.get("quarantined"):
        names = sorted({shlex.quote(tool["extension"]) for tool in report["quarantined"]})
        say(f"to approve what changed: exthost approve {' '.join(names)}")
    not_asked = report["not_asked"]
    if not_asked:
        say(f"not listed, because they do not run (use --start): {', '.join(not_asked)}")
    return code


def _print_for_model(form: Form, tools: list[dict[str, Any]]) -> None:
    """Print the tools as the API of a model expects them, with a warning for each change that this
    needs."""
    model_tools = [
        model_tool(form, tool["name"], tool["description"] or tool["tool"], tool["input_schema"])
        for tool in tools
    ]
    show_json(request_tools(form, model_tools), pretty=True)
    for tool in model_tools:
        for change in tool.changes:
            say(f"warning: {change}")


def _print_hidden(tools: Sequence[Mapping[str, Any]]) -> None:
    """Print the tools that cannot be called, after an empty line."""
    if tools:
        print()
        rows = [(tool["tool"], tool["extension"], tool["reason"]) for tool in tools]
        show_table(rows, ("HIDDEN", "EXTENSION", "REASON"))


def _print_table(tools: list[dict[str, Any]]) -> None:
    rows = [
        (
            f"{tool['name']}{' *' if tool.get('remembered') else ''}",
            tool["extension"],
            tool["description"],
        )
        for tool in tools
    ]
    show_table(rows, ("NAME", "EXTENSION", "DESCRIPTION"))
