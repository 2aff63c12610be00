"""Show which rule of the config decides about a tool call. Calls nothing.

  exthost rules test TOOL                        without arguments
  exthost rules test TOOL path=/etc/passwd       with these arguments, as `exthost call` has them
  exthost rules test TOOL --client claude-code   as a call of this client of the gateway

Exits with 0, whatever the rule says. The extension of the tool is started if its tools are not
known otherwise.
"""

import argparse
import os
from dataclasses import replace
from typing import Any

from exthost.config.discovery.configfile import read_config
from exthost.faces.cli.call import read_arguments
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    escape_message,
    require_config_path,
    show_json,
    show_result,
)
from exthost.faces.cli.running_host import add_standalone_option, running_host
from exthost.faces.cli.start_note import start_note
from exthost.faces.cli.verb_loop import run_once
from exthost.host.control.description import describe_rule
from exthost.host.control.protocol import ControlRequest
from exthost.host.host import Host


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("test",), help="what to do")
    parser.add_argument("tool", metavar="TOOL", help="a registered name, or extension:tool")
    parser.add_argument("pairs", nargs="*", metavar="k=v", help="arguments of the call")
    parser.add_argument("--args", metavar="JSON", help="the arguments as JSON; - reads stdin")
    parser.add_argument("--client", metavar="NAME", help="the name of a client of the gateway")
    add_config_option(parser)
    add_standalone_option(parser)


def run(args: Args) -> int:
    arguments = read_arguments(args.pairs, args.args)
    with running_host(args) as host:
        if host is not None:
            params = {"tool": args.tool, "arguments": arguments, "client": args.client}
            _show(args, host.ask(ControlRequest("rules", "", params)))
            return 0
    return run_once(_test(args, arguments))


async def _test(args: Args, arguments: Any) -> int:
    """Find the rule in a host of this process, and print it. Return the exit code."""
    config = read_config(require_config_path(args))
    if config.discovery is not None:  # one question needs no watch
        watch = replace(config.discovery.watch, enabled=False)
        config = replace(config, discovery=replace(config.discovery, watch=watch))
    host = Host(config, environ=dict(os.environ))
    host.change_specs(lambda spec: replace(spec, start="lazy"))
    async with host:
        with start_note("extensions, to find the tool"):
            report = await describe_rule(host, args.tool, arguments, args.client)
    _show(args, report)
    return 0


def _show(args: Args, report: dict[str, Any]) -> None:
    if args.json:
        show_json(report)
    elif report["rule"] is None:
        show_result(f"{report['tool']}: no rule fits, so the call is allowed")
    else:
        reason = f": {report['reason']}" if report["reason"] else ""
        text = f"{report['tool']}: rule {report['rule']} ({report['tools']}) says {report['do']}"
        show_result(escape_message(f"{text}{reason}"))
