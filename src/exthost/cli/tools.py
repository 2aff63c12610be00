"""The tools of a config's extensions. Starts nothing: shows what manifests declare and names the
extensions that would have to be started to tell; --start starts them and asks."""

import argparse
from dataclasses import replace
from typing import Any

from exthost.cli.common import (
    Args,
    config_option,
    dialect_option,
    say,
    say_empty,
    show_json,
    show_table,
)
from exthost.cli.list import tell_diagnostics
from exthost.cli.target import detect_dialect, find_spec, read_wanted, run_once
from exthost.config import Config
from exthost.host.host import Host
from exthost.model import Spec


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="only this extension")
    parser.add_argument("--start", action="store_true", help="start the extensions and ask them")
    config_option(parser)
    dialect_option(parser)


def run(args: Args) -> int:
    spec = find_spec(args, args.target)
    if spec is not None:
        specs: tuple[Spec, ...] = (spec,)
    else:
        found = read_wanted(args)
        specs = found.specs
        tell_diagnostics(found.diagnostics)
    return run_once(_tools(args, [one for one in specs if one.enabled]))


async def _tools(args: Args, specs: list[Spec]) -> int:
    if args.command and args.dialect is None and args.start:
        specs = [await detect_dialect(args, specs[0])]
    start = "eager" if args.start else "lazy"
    config = Config(specs=tuple(replace(spec, start=start) for spec in specs))
    async with Host(config) as host:
        tools = [
            {
                "name": tool.name,
                "tool": tool.tool,
                "extension": tool.extension,
                "description": tool.description,
                "input_schema": tool.input_schema,
            }
            for tool in host.tools.values()
        ]
        silent = [ext.id for ext in host.extensions if ext.is_silent]
        failed = [ext.cause for ext in host.extensions if ext.cause is not None]
    for cause in failed:
        say(f"error[{cause.code}]: {cause.extension}: {cause.message}")
    # What is refused is told, and is no failure of the others: it was not going to start.
    wrong = [cause for cause in failed if args.target or args.command or cause.exit_code != 4]
    code = wrong[0].exit_code if wrong and args.start else 0
    if args.json:
        shown: dict[str, Any] = {"tools": tools, "not_asked": silent}
        show_json(shown | {"failed": [cause.as_dict() for cause in failed]})
        return code
    rows = [(one["name"], one["extension"], one["description"]) for one in tools]
    show_table(rows, ("NAME", "EXTENSION", "DESCRIPTION"))
    if silent:
        say(f"not asked, since that means starting them (--start): {', '.join(silent)}")
    if not specs:
        say_empty(args)
    return code
