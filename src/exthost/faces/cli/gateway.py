"""Serve the tools of all extensions of a config as one MCP server, on stdio or HTTP.

  exthost gateway                       on stdin and stdout, for the mcpServers of an MCP client
  exthost gateway --http 8765           http://127.0.0.1:8765/mcp, with a bearer token

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
from collections.abc import Sequence

from exthost.config import Config
from exthost.config.discovery.configfile import read_config
from exthost.faces.cli.background_service import BackgroundService
from exthost.faces.cli.common import Args, add_config_option, require_config_path
from exthost.faces.cli.displays import Display, LineDisplay
from exthost.faces.cli.host_process import HostProcess
from exthost.faces.cli.http_options import DEFAULT_HOST
from exthost.faces.cli.mcp_service import add_http_options, check_http_options, mcp_services
from exthost.faces.cli.verb_loop import run_long_lived
from exthost.faces.relay.command import run_relay
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host


def add_options(parser: argparse.ArgumentParser) -> None:
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
    check_http_options(args, args.host)
    path = require_config_path(args)
    if args.http is None and not args.own:
        code = run_relay(path, args.plain_names)
        if code is not None:
            return code
    config = read_config(path)
    with mcp_services(args, on_stdio=args.http is None, host=args.host) as services:
        return run_long_lived(_serve(path, config, services, args.plain_names))


async def _serve(
    path: str, config: Config, services: Sequence[BackgroundService], plain_names: bool
) -> int:
    def make_display(host: Host, _: StatusReport) -> Display:
        return LineDisplay(host)

    # Several MCP clients may each start a gateway of one config: none of them is refused.
    process = HostProcess(
        path, config, make_display, services, may_be_second=True, plain_names=plain_names
    )
    async with process:
        return await process.run()
