"""Offer every tool of every extension of a config as one MCP server, on stdio or HTTP.

  exthost gateway                       for an mcpServers file: speaks on stdin and stdout
  exthost gateway --http 8765           http://127.0.0.1:8765/mcp, with a bearer token

It is `exthost run` with an MCP service: `exthost status`, `restart`, `logs` and `call` work on it.
Where another host of the same config runs, it starts processes of its own and has no socket.

The token is that of --token-file (made if it is not there), else $EXTHOST_GATEWAY_TOKEN, else a
new one, shown on stderr. Ctrl-C or the end of stdin ends it: once drains, twice kills.
"""

import argparse
from collections.abc import Sequence

from exthost.cli.background_service import BackgroundService
from exthost.cli.common import Args, add_config_option, refuse_command, require_config_path
from exthost.cli.displays import Display, LineDisplay
from exthost.cli.host_process import HostProcess
from exthost.cli.http_options import DEFAULT_HOST
from exthost.cli.mcp_service import add_http_options, check_http_options, mcp_services
from exthost.cli.verb_loop import run_long_lived
from exthost.config import Config
from exthost.control.status_report import StatusReport
from exthost.discovery.configfile import read_config
from exthost.host.host import Host


def add_options(parser: argparse.ArgumentParser) -> None:
    add_http_options(parser)
    parser.add_argument(
        "--host", metavar="ADDRESS", help=f"with --http: listen here (default: {DEFAULT_HOST})"
    )
    add_config_option(parser)


def run(args: Args) -> int:
    refuse_command(args)
    check_http_options(args, args.host)
    path = require_config_path(args)
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
