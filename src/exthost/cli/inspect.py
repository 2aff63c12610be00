"""Start one extension, shake hands, show what it offers and what it was given, and stop it.

Where a host of this config runs, its extension is shown, and goes on; --standalone starts another.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from exthost.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    add_launch_options,
    add_sandbox_options,
    add_start_timeout_option,
    add_trace_option,
    escape_controls,
    in_line,
    say,
    show_json,
    show_table,
)
from exthost.cli.extension_summary import limit_words, missing_sandbox_warning, path_lines
from exthost.cli.running_host import add_standalone_option, is_path_of_another, running_host
from exthost.cli.started_extension import started
from exthost.cli.target_specs import find_spec
from exthost.cli.verb_loop import run_async
from exthost.control.description import describe_extension
from exthost.control.protocol import Request
from exthost.errors import NotFound, UsageError
from exthost.spec import Spec


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a name, a folder, a manifest")
    add_config_option(parser)
    add_dialect_option(parser)
    add_sandbox_options(parser)
    add_start_timeout_option(parser)
    add_launch_options(parser)
    add_standalone_option(parser)
    add_trace_option(parser)


def run(args: Args) -> int:
    with running_host(args) as host:
        if host is not None and args.target is not None:
            try:
                report = host.ask(Request("inspect", args.target), timeout=args.start_seconds)
            except NotFound as error:
                if not is_path_of_another(error, args.target):
                    raise
            else:
                return _print(args, report)
    spec = find_spec(args, args.target)
    if spec is None:
        raise UsageError(
            "X1316", "which extension?", help="exthost inspect NAME, or -- COMMAND ARGS…"
        )
    return run_async(_inspect(args, spec))


async def _inspect(args: Args, spec: Spec) -> int:
    async with started(args, spec) as extension:
        report = describe_extension(extension)
    return _print(args, report)


def _print(args: Args, report: dict[str, Any]) -> int:
    report["tried"] = [{"dialect": name, "answer": answer} for name, answer in args.tried]
    if args.json:
        show_json(report)
    else:
        _show(report)
    return 0


def _show(report: dict[str, Any]) -> None:
    version = f" {report['version']}" if report["version"] else ""
    for attempt in report["tried"]:
        say(f"  tried {attempt['dialect']}: {attempt['answer']}")
    say(escape_controls(f"{report['id']}{version} speaks {report['dialect']}"))
    if report["name"]:
        has = ", ".join(report["capabilities"])
        say(
            escape_controls(
                f"  it calls itself {report['name']}" + (f" and has {has}" if has else "")
            )
        )
    timings = report["timings_ms"]
    say(f"  spawned in {timings['spawn']:.1f} ms, shook hands in {timings['handshake']:.1f} ms")
    environment = report["environment"]
    held_back = ", ".join(environment["held_back"]) or "none"
    say(f"  variables: {len(environment['passed'])} passed; held back: {held_back}")
    for what, value_text in report["extra"].items():
        if isinstance(value_text, Mapping):
            value_text = [
                key if value == {} else f"{key}={in_line(value)}"
                for key, value in value_text.items()
            ]
        shown = (
            ", ".join(map(in_line, value_text))
            if isinstance(value_text, list | tuple)
            else in_line(value_text)
        )
        if shown:
            say(f"  {what}: {escape_controls(shown)}")
    held = {what: how for what, how in report["sandbox"].items() if isinstance(how, str)}
    say("  sandbox: " + ", ".join(f"{what} {how}" for what, how in held.items()))
    if limits := limit_words(report["sandbox"]):
        say(f"  limits: {limits}")
    for line in path_lines(report["sandbox"]):
        say(escape_controls(f"    {line}"))
    if warning := missing_sandbox_warning(report["sandbox"]):
        say(f"  {warning}")
    for warning in report["warnings"]:
        say(f"  warning: {escape_controls(warning)}")
    for what, times in report["noise"].items():
        say(f"  {times} {what}")
    rows = [(tool["tool"], tool["name"], tool["description"]) for tool in report["tools"]]
    show_table(rows, ("TOOL", "REGISTERED AS", "DESCRIPTION"))
    if not rows:
        say("  it offers no tools")
