"""Serve the tools of all extensions of a config as one MCP server, on stdio or HTTP.

  exthost gateway                       on stdin and stdout, for the mcpServers of an MCP client
  exthost gateway --http 8765           http://127.0.0.1:8765/mcp, with a bearer token
  exthost gateway install CLIENT        adds the gateway to the config of an MCP client
  exthost gateway install CLIENT --remove    takes it out again

CLIENT is claude-desktop, claude-code, vscode, cursor, zed, codex or gemini. The rest of its config
stays as it is, with comments, and a copy is kept beside it. --print shows what would be written.

On stdio it joins the running host of the config, or starts one in the background, and relays the
lines of its client: any number of clients share one process for each extension. A host that was
started in this way ends when its last client has been gone for `[gateway] linger`. Where joining is
impossible, the reason is on stderr, and the gateway runs a host of its own, as with --own.

With --http or --own it is `exthost run` with an MCP service, so `exthost status`, `restart`, `logs`
and `call` work with it. If another host of the same config is already running, it starts its own
processes and has no control socket: these subcommands then reach only the other host.

The bearer token is read from --token-file (the file is created if it does not exist), otherwise
from $EXTHOST_GATEWAY_TOKEN; otherwise a new token is printed to stderr. Ctrl-C, or the end of
stdin, ends the gateway after the calls in flight are done; a second Ctrl-C kills the extensions.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exthost.config import Config
from exthost.config.discovery.configfile import read_config
from exthost.errors import UsageError
from exthost.faces.cli.background_service import BackgroundService
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    require_config_path,
    show_json,
    show_result,
)
from exthost.faces.cli.displays import Display, LineDisplay
from exthost.faces.cli.host_process import HostProcess
from exthost.faces.cli.http_options import DEFAULT_HOST
from exthost.faces.cli.mcp_service import add_http_options, check_http_options, mcp_services
from exthost.faces.cli.verb_loop import run_long_lived
from exthost.faces.relay.command import run_relay
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host
from exthost.process.own_process import host_environ

CLIENT_NAMES = ("claude-desktop", "claude-code", "vscode", "cursor", "zed", "codex", "gemini")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("install",), help="see above")
    parser.add_argument("client", metavar="CLIENT", nargs="?", choices=CLIENT_NAMES)
    parser.add_argument("--remove", action="store_true", help="with install: take it out")
    parser.add_argument("--print", action="store_true", help="with install: change nothing")
    parser.add_argument(
        "--name", default="exthost", help="with install: the name of the entry (default: exthost)"
    )
    parser.add_argument(
        "--own", action="store_true", help="on stdio: run a host for this client alone"
    )
    add_http_options(parser)
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        help=f"with --http: the address to listen on (default: {DEFAULT_HOST})",
    )
    add_config_option(parser)


def run(args: Args) -> int:
    if args.action == "install":
        return _install(args)
    if args.remove or args.print:
        raise UsageError("X1316", "--remove and --print are options of gateway install")
    check_http_options(args, args.host)
    path = require_config_path(args)
    if args.http is None and not args.own:
        code = run_relay(path, args.plain_names)
        if code is not None:
            return code
    config = read_config(path)
    with mcp_services(args, on_stdio=args.http is None, host=args.host) as services:
        return run_long_lived(_serve(path, config, services, args.plain_names))


def _install(args: Args) -> int:
    """Add the gateway to the config of an MCP client, or take it out. Return the exit code."""
    from exthost.faces.cli.client_configs import ClientConfig

    if not args.client:
        raise UsageError(
            "X1316",
            "gateway install needs the name of an MCP client",
            help=f"exthost gateway install {'|'.join(CLIENT_NAMES)}",
        )
    file = ClientConfig(args.client, host_environ())
    outcome: dict[str, Any] = {"client": args.client, "path": str(file.path), "name": args.name}
    # With --print, `is_changed` is whether the file would be changed.
    if args.remove:
        is_changed = file.has_gateway(args.name) if args.print else file.remove(args.name)
        outcome_text = "removed" if is_changed else "not there"
    else:
        entry = file.entry(Path(require_config_path(args)))
        outcome["entry"] = entry
        if args.print:
            file.check_name(args.name)
            is_changed = file.find(args.name) != entry
        else:
            is_changed = file.install(args.name, entry)
        outcome_text = "installed" if is_changed else "there already"
    if args.json:
        show_json({**outcome, "changed": is_changed and not args.print})
    elif args.print:
        outcome_text = f"would be {outcome_text}" if is_changed else outcome_text
        show_result(f"{args.name}: {outcome_text} in {file.path}")
        if "entry" in outcome:
            show_result(json.dumps({args.name: outcome["entry"]}, indent=2, ensure_ascii=False))
    else:
        show_result(f"{args.name}: {outcome_text} in {file.path}")
    return 0


async def _serve(
    path: str, config: Config, services: Sequence[BackgroundService], plain_names: bool
) -> int:
    """Run a host with these services until it ends. Return the exit code."""

    def make_display(host: Host, _: StatusReport) -> Display:
        return LineDisplay(host)

    # Several MCP clients may each start a gateway of one config: none of them is refused.
    process = HostProcess(
        path, config, make_display, services, may_be_second=True, plain_names=plain_names
    )
    async with process:
        return await process.run()
