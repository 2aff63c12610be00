"""Start every extension of a config and supervise them until Ctrl-C: once drains, twice kills.

On a terminal a live table shows their states; elsewhere each event is a line on stderr, and with
--json a line of JSON on stdout. `exthost status`, `start`, `stop`, `restart` and `logs` work from
any other terminal meanwhile. SIGTERM, and closing the terminal (unless under nohup), do the same as
one Ctrl-C. Any other SIGHUP makes it read the config again.

  exthost run --http 8765               also an MCP server: http://127.0.0.1:8765/mcp, with a token
  exthost run --web 8766                also a page in the browser, at the address that it prints
  exthost run --mcp-stdio               also an MCP server on stdin and stdout, until stdin ends
"""

import argparse
from collections.abc import Sequence

from exthost.config import Config
from exthost.config.discovery.configfile import read_config
from exthost.errors import UsageError
from exthost.faces.cli.background_service import BackgroundService
from exthost.faces.cli.common import Args, add_config_option, require_config_path
from exthost.faces.cli.displays import Display, choose_display
from exthost.faces.cli.first_use import ask_about_new, say_lock
from exthost.faces.cli.host_process import HostProcess, host_lock
from exthost.faces.cli.mcp_service import add_http_options, check_http_options, mcp_services
from exthost.faces.cli.otel_export import add_otel_options, otel_services
from exthost.faces.cli.verb_loop import run_long_lived
from exthost.faces.cli.web_service import add_web_options, web_services
from exthost.host.control.host_lock import HostLock
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mcp-stdio", action="store_true", help="serve MCP on stdin and stdout, until stdin ends"
    )
    parser.add_argument("--quiet", action="store_true", help="show no events, only messages")
    add_http_options(parser)
    add_web_options(parser)
    add_otel_options(parser)
    add_config_option(parser)


def run(args: Args) -> int:
    check_http_options(args)
    if args.mcp_stdio and args.json:
        raise UsageError(
            "X1316",
            "--json prints events to stdout, and --mcp-stdio serves MCP there",
            help="use only one of them; exthost status --json works beside a running host",
        )
    path = require_config_path(args)
    config = read_config(path)
    say_lock(config)
    ask_about_new(args, config)
    with (
        host_lock(path) as lock,
        mcp_services(args, on_stdio=args.mcp_stdio) as services,
        web_services(args) as page_services,
    ):
        all_services = [*services, *page_services, *otel_services(args)]
        return run_long_lived(_supervise(args, path, config, all_services, lock))


async def _supervise(
    args: Args,
    path: str,
    config: Config,
    services: Sequence[BackgroundService],
    lock: HostLock | None,
) -> int:
    """Run the host with these services until it ends. Return the exit code."""

    def make_display(host: Host, report: StatusReport) -> Display:
        return choose_display(args, host, report)

    process = HostProcess(
        path, config, make_display, services, plain_names=args.plain_names, lock=lock
    )
    async with process:
        return await process.run()
