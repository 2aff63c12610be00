"""The tools of a config's extensions. Starts nothing: shows what manifests declare and names the
extensions that would have to be started to tell; --start starts them and asks.

Where a host of this config runs, these are the tools that can be called there.
--format prints the `tools` of a request to a model, as JSON.
"""

import argparse
from dataclasses import replace
from typing import Any

from exthost.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    say,
    say_empty,
    show_json,
    show_table,
)
from exthost.cli.diagnostic_lines import tell_diagnostics
from exthost.cli.running_host import add_standalone_option, is_path_of_another, running_host
from exthost.cli.started_extension import detect_dialect
from exthost.cli.target_specs import find_spec, read_wanted
from exthost.cli.verb_loop import run_once
from exthost.config import Config
from exthost.control.description import describe_tools
from exthost.control.protocol import Request, read_error
from exthost.errors import NotFound, Refused
from exthost.host.host import Host
from exthost.host.model_tools import FORMS, Form, model_tool
from exthost.spec import Spec


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="only this extension")
    parser.add_argument("--start", action="store_true", help="start the extensions and ask them")
    parser.add_argument(
        "--format", choices=FORMS, help="print them as this API wants them; --start asks for all"
    )
    add_config_option(parser)
    add_dialect_option(parser)
    add_standalone_option(parser)


def run(args: Args) -> int:
    with running_host(args) as host:
        if host is not None:
            request = Request("tools", args.target or "", {"start": args.start})
            try:
                return _show(args, host.ask(request))
            except NotFound as error:
                if not is_path_of_another(error, args.target):
                    raise
    spec = find_spec(args, args.target)
    if spec is not None:
        specs: tuple[Spec, ...] = (spec,)
    else:
        wanted = read_wanted(args)
        specs = wanted.specs
        tell_diagnostics(wanted.diagnostics)
    return run_once(_tools(args, [spec for spec in specs if spec.enabled]))


async def _tools(args: Args, specs: list[Spec]) -> int:
    if args.command and args.dialect is None and args.start:
        specs = [await detect_dialect(args, specs[0])]
    start = "eager" if args.start else "lazy"
    config = Config(specs=tuple(replace(spec, start=start) for spec in specs))
    async with Host(config) as host:
        shown = describe_tools(host)
    code = _show(args, shown)
    if not specs and not args.json and args.format is None:
        say_empty(args)
    return code


def _show(args: Args, shown: dict[str, Any]) -> int:
    failed = shown["failed"]
    for cause in failed:
        say(f"error[{cause['code']}]: {cause['extension']}: {cause['message']}")
        if cause["help"]:
            say(f"  help:   {cause['help']}")
        say(f"  more:   exthost explain {cause['code']}")
    # What is refused was not going to start: that is reported, and is no failure of the others.
    is_one = bool(args.target or args.command)
    codes = [read_error(cause).exit_code for cause in failed]
    wrong = [code for code in codes if is_one or code != Refused.exit_code]
    code = wrong[0] if wrong and (args.start or is_one) else 0
    if args.format is not None:
        _show_in_form(args.format, shown["tools"])
    elif args.json:
        show_json(shown)
        return code
    else:
        _show_table(shown["tools"])
    silent = shown["not_asked"]
    if silent:
        say(f"not asked, since that means starting them (--start): {', '.join(silent)}")
    return code


def _show_in_form(form: Form, tools: list[dict[str, Any]]) -> None:
    converted = [
        model_tool(form, tool["name"], tool["description"] or tool["tool"], tool["input_schema"])
        for tool in tools
    ]
    show_json([tool.data for tool in converted], pretty=True)
    for tool in converted:
        for change in tool.changes:
            say(f"warning: {change}")


def _show_table(tools: list[dict[str, Any]]) -> None:
    rows = [(tool["name"], tool["extension"], tool["description"]) for tool in tools]
    show_table(rows, ("NAME", "EXTENSION", "DESCRIPTION"))
