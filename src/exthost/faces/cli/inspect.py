"""Start one extension, show what it offers after the handshake and what it was given, and stop it.

If a host with this config is running, the extension in that host is shown, and keeps running;
--standalone starts a new process instead.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from exthost.config.discovery.configfile import read_config
from exthost.errors import NotFound, UsageError
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    add_launch_options,
    add_sandbox_options,
    add_start_timeout_option,
    add_trace_option,
    escape_controls,
    inline_text,
    require_config_path,
    say,
    show_json,
    show_table,
)
from exthost.faces.cli.dialect_options import add_dialect_options, apply_dialect_options
from exthost.faces.cli.extension_summary import (
    describe_limits,
    format_paths,
    format_protected_paths,
    missing_sandbox_warning,
)
from exthost.faces.cli.first_use import ask_about_new
from exthost.faces.cli.learn import add_learn_options, learn
from exthost.faces.cli.own_sdk import lend_sdk
from exthost.faces.cli.running_host import (
    add_standalone_option,
    is_unlisted_path,
    running_host,
)
from exthost.faces.cli.started_extension import abridged_log, start_extension
from exthost.faces.cli.target_specs import find_spec, find_unlocked_spec, has_config
from exthost.faces.cli.verb_loop import run_async
from exthost.host.control.description import describe_extension
from exthost.host.control.protocol import ControlRequest
from exthost.model.spec import Spec


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a name, a folder, a manifest")
    add_config_option(parser)
    add_dialect_option(parser)
    add_dialect_options(parser)
    add_sandbox_options(parser)
    add_start_timeout_option(parser)
    add_launch_options(parser)
    add_standalone_option(parser)
    add_trace_option(parser)
    parser.add_argument(
        "--learn", action="store_true", help="propose its permissions, as exthost learn does"
    )
    add_learn_options(parser)


def run(args: Args) -> int:
    if args.learn:
        return _learn(args)
    with running_host(args) as host:
        if host is not None and args.target is not None:
            try:
                report = host.ask(
                    ControlRequest("inspect", args.target), timeout=args.start_seconds
                )
            except NotFound as error:
                if not is_unlisted_path(error, args.target):
                    raise
            else:
                return _print_report(args, report)
    if args.target is not None and has_config(args):
        ask_about_new(args, read_config(require_config_path(args)), args.target)
    spec = find_spec(args, args.target)
    if spec is None:
        raise UsageError(
            "X1316", "which extension?", help="exthost inspect NAME, or -- COMMAND ARGS…"
        )
    # A program that imports the SDK of exthost without having it installed gets that of exthost.
    with lend_sdk(spec) as spec_with_sdk:
        return run_async(_inspect(args, spec_with_sdk))


def _learn(args: Args) -> int:
    spec = find_unlocked_spec(args, args.target)
    if spec is None:
        raise UsageError(
            "X1316", "which extension?", help="exthost inspect --learn -- COMMAND ARGS…"
        )
    return learn(args, spec)


async def _inspect(args: Args, spec: Spec) -> int:
    with abridged_log() as bus:
        async with start_extension(args, apply_dialect_options(args, spec), bus) as extension:
            report = describe_extension(extension)
    return _print_report(args, report)


def _print_report(args: Args, report: dict[str, Any]) -> int:
    report["tried"] = [{"dialect": name, "answer": answer} for name, answer in args.failed_attempts]
    if args.json:
        show_json(report)
    else:
        _print_text(report)
    return 0


def _print_text(report: dict[str, Any]) -> None:
    """Print the report for a person: the tools to stdout, and everything else to stderr."""
    version = f" {report['version']}" if report["version"] else ""
    for attempt in report["tried"]:
        say(f"  tried {attempt['dialect']}: {attempt['answer']}")
    say(escape_controls(f"{report['id']}{version} speaks {report['dialect']}"))
    phrases = [f"calls itself {report['name']}"] if report["name"] else []
    if report["capabilities"]:
        phrases.append(f"has {', '.join(report['capabilities'])}")
    if phrases:
        say(escape_controls(f"  it {' and '.join(phrases)}"))
    timings = report["timings_ms"]
    say(f"  spawned in {timings['spawn']:.1f} ms, handshake in {timings['handshake']:.1f} ms")
    environment = report["environment"]
    held_back = ", ".join(environment["held_back"]) or "none"
    say(f"  variables: {len(environment['passed'])} passed; held back: {held_back}")
    for name, value in report["extra"].items():
        extra_text = _format_extra(value)
        if extra_text:
            say(f"  {name}: {escape_controls(extra_text)}")
    sandbox = {name: value for name, value in report["sandbox"].items() if isinstance(value, str)}
    say("  sandbox: " + ", ".join(f"{name} {value}" for name, value in sandbox.items()))
    if limits := describe_limits(report["sandbox"]):
        say(f"  limits: {limits}")
    for line in format_paths(report["sandbox"]):
        say(escape_controls(f"    {line}"))
    if protected := format_protected_paths(report["sandbox"]):
        say("  read-only in its writable folders:")
        for line in protected:
            say(escape_controls(f"    {line}"))
    for line in report["sandbox"].get("weaker", ()):
        say(f"  weaker than a strict sandbox: {line}")
    if warning := missing_sandbox_warning(report["sandbox"]):
        say(f"  {warning}")
    for warning in report["warnings"]:
        say(f"  warning: {escape_controls(warning)}")
    if report.get("lock"):
        say(f"  lock: {report['lock']}")
    for tool in report.get("quarantined", ()):
        for change in tool["changes"]:
            say(f"  quarantined: {change}")
    for name, times in report["noise"].items():
        say(f"  {times} {name}")
    if report["hooks"]:
        say(f"  hooks: {escape_controls(', '.join(report['hooks']))}")
    rows = [(tool["tool"], tool["name"], tool["description"]) for tool in report["tools"]]
    show_table(rows, ("TOOL", "REGISTERED AS", "DESCRIPTION"))
    if not rows:
        say("  it offers no tools")


def _format_extra(value: Any) -> str:
    """Return a value that only some dialects report, such as the capabilities of an MCP server
    (`{"tools": {}, "logging": {}}`), as text in one line ("tools, logging")."""
    if isinstance(value, Mapping):
        value = [
            key if setting == {} else f"{key}={inline_text(setting)}"
            for key, setting in value.items()
        ]
    if isinstance(value, list | tuple):
        return ", ".join(map(inline_text, value))
    return inline_text(value)
