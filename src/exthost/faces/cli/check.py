"""Check an extension against the rules of its dialect: manifest, messages, calls, start and end.

  exthost check TARGET                          a name, a folder, a manifest
  exthost check --dialect D -- COMMAND …        a bare command

Every finding names the rule that is broken, the bytes that both sides sent, and a fix. By default,
tools are called only with invalid arguments, which they must refuse; --call 'NAME k=v …', or
--call 'NAME {"k": 1}', makes a valid call and checks the result against the tool's schema. A
tool that fails then is a fault of its own (tool-failure), not one of the protocol.
A cigen plugin is asked to generate for a schema of one job, because that has no effect.
The first handshake may take as long as in a host; if it takes more than 3 s, stderr says what it
waits for. A --reply-timeout below 10s shortens it, too.
PYTHONUNBUFFERED is not passed on from the shell, because it hides that a program does not flush its
output; -e PYTHONUNBUFFERED=1 sets it.
The first line is the verdict: passes, passes with warnings, or fails.
The exit code is 0 if there is no fault, 1 if there is one, and 2 if nothing could be checked.
"""

import argparse
import errno
import logging
import os
import shlex
from pathlib import Path

from exthost.authoring.check.findings import Report
from exthost.authoring.check.junit import junit_text
from exthost.authoring.check.manifest_check import check_manifest, make_failed_report
from exthost.authoring.check.report_text import report_lines
from exthost.authoring.check.run import run_checks
from exthost.authoring.check.settings import CHECK_SECONDS, REPLY_SECONDS, Settings
from exthost.dialects.conformance import Conformance
from exthost.dialects.find import find_conformance
from exthost.dialects.rules import all_rules
from exthost.errors import ConfigError, ManifestError, UsageError
from exthost.faces.cli.call import read_arguments
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    add_launch_options,
    add_sandbox_options,
    parse_time_limit,
    say,
    show_json,
    show_table,
    show_text,
    write_help,
)
from exthost.faces.cli.dialect_options import add_dialect_options, apply_dialect_options
from exthost.faces.cli.own_sdk import lend_sdk
from exthost.faces.cli.start_note import delayed_note
from exthost.faces.cli.started_extension import detect_dialect
from exthost.faces.cli.target_specs import check_dialect_option, find_unlocked_spec
from exthost.faces.cli.verb_loop import run_async
from exthost.host.detection import SEARCH_SECONDS
from exthost.model.spec import Spec
from exthost.wire import jsontext

# The exit code if a check has found a fault.
FAULT = 1

_CALL_HELP = "write --call 'TOOL k=v …', or --call 'TOOL {\"k\": 1}'"

# A detection of the dialect that takes longer is announced.
DETECTION_NOTE_SECONDS = 3.0


class CheckArgs(Args):
    """The parsed arguments of `check`.

    junit          the path of the JUnit XML file to write; None to write none
    verbose        whether rules that were not checked are printed, too
    rules          whether the rules are listed, and nothing is checked
    reply_timeout  how long one reply or an exit may take, in seconds
    call           the tools to call, each as `NAME k=v …` or `NAME JSON`
    """

    junit: str | None
    verbose: bool
    rules: bool
    reply_timeout: float
    call: list[str]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a name, a folder, a manifest")
    parser.add_argument("--junit", metavar="FILE", help="also write the report as JUnit XML")
    parser.add_argument("--verbose", action="store_true", help="show skipped checks, and why")
    parser.add_argument("--rules", action="store_true", help="list the rules, and check nothing")
    parser.add_argument(
        "--call",
        metavar="TOOL",
        action="append",
        default=[],
        help="call this tool, with arguments k=v or as JSON after its name; may be repeated",
    )
    parser.add_argument(
        "--timeout",
        metavar="T",
        type=parse_time_limit,
        default=CHECK_SECONDS,
        help=f"how long all checks may take (default: {CHECK_SECONDS:g}s)",
    )
    parser.add_argument(
        "--reply-timeout",
        metavar="T",
        type=parse_time_limit,
        default=REPLY_SECONDS,
        help=f"how long one reply, or an exit, may take (default: {REPLY_SECONDS:g}s)",
    )
    add_dialect_options(parser)
    add_launch_options(parser)
    add_config_option(parser)
    add_dialect_option(parser)
    add_sandbox_options(parser)


def run(args: CheckArgs) -> int:
    if args.rules:
        return _list_rules(args)
    calls = tuple(parse_call(text) for text in args.call)
    if args.junit is not None:  # before the checks, which take long
        _check_writable(args.junit)
    try:
        spec = find_unlocked_spec(args, args.target)
    except (ManifestError, ConfigError) as error:
        return _write_report(args, make_failed_report(error, args.target or "", args.dialect or ""))
    if spec is None:
        raise UsageError(
            "X1316", "which extension?", help="exthost check TARGET, or -- COMMAND ARGS…"
        )
    spec = apply_dialect_options(args, spec)
    assert args.timeout is not None
    args.start_seconds = min(args.timeout, SEARCH_SECONDS)
    settings = Settings(seconds=args.timeout, reply_seconds=args.reply_timeout, calls=calls)
    # A program that imports the SDK of exthost without having it installed gets that of exthost.
    with lend_sdk(spec) as spec_with_sdk:
        return run_async(_check(args, spec_with_sdk, settings))


async def _check(args: CheckArgs, spec: Spec, settings: Settings) -> int:
    """Run all checks and print the report. Return the exit code."""
    if args.command and args.dialect is None:
        note = (
            f"waiting for {spec.id} to answer in any dialect, for at most "
            f"{args.start_seconds or SEARCH_SECONDS:g} s; does it flush stdout after each "
            "message? --dialect D skips the detection"
        )
        with delayed_note(note, DETECTION_NOTE_SECONDS):
            spec = await detect_dialect(args, spec)
    manifest_findings = check_manifest(spec)
    if not args.verbose:
        # A finding names the exception. Its traceback is for the author of the dialect.
        logging.getLogger("exthost.session").addFilter(_drop_traceback)
    report = await run_checks(spec, dict(os.environ), settings, announce=say)
    return _write_report(args, manifest_findings.add_to(report))


def _drop_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback from a record of the log, as a filter of a logger."""
    record.exc_info = None
    return True


def _write_report(args: CheckArgs, report: Report) -> int:
    """Print the report, and with --junit also write it to a file. Return the exit code."""
    if args.junit is not None:
        try:
            Path(args.junit).write_text(junit_text(report), encoding="utf-8")
        except OSError as error:
            raise _unwritable_error(args.junit, error) from None
    if args.json:
        show_json(report.as_dict())
    else:
        *lines, summary = report_lines(report, every=args.verbose)
        for line in lines:
            show_text(line)
        say(summary)
    return 0 if report.ok else FAULT


def _check_writable(path: str) -> None:
    """Raise UsageError if a file cannot be written. It is not opened: a pipe has one reader."""
    target = path if os.path.lexists(path) else os.path.dirname(path) or "."  # noqa: PTH120
    if os.path.isdir(path):  # noqa: PTH112
        number = errno.EISDIR
    elif not os.path.exists(target):  # noqa: PTH110
        number = errno.ENOENT
    elif target != path and not os.path.isdir(target):  # noqa: PTH112
        number = errno.ENOTDIR
    elif not os.access(target, os.W_OK):
        number = errno.EACCES
    else:
        return
    raise _unwritable_error(path, OSError(number, os.strerror(number), path))


def _unwritable_error(path: str, error: OSError) -> UsageError:
    return UsageError(
        "X1316", f"{path} cannot be written: {error.strerror}", help=write_help(error)
    )


def parse_call(text: str) -> tuple[str, object]:
    """Return the tool and the arguments of the option --call: `NAME k=v …`, with quotes as in a
    shell, or `NAME JSON`. Raises UsageError."""
    name, _, arguments = text.strip().partition(" ")
    try:
        if arguments.lstrip().startswith("{"):
            # Bytes of the command line that are not UTF-8 are surrogates.
            return name, jsontext.decode(arguments.encode(errors="surrogateescape"))
        words = shlex.split(arguments)
    except (jsontext.NotJson, ValueError) as error:
        raise UsageError("X1316", f"--call {text!r}: {error}", help=_CALL_HELP) from None
    if not name or name.startswith("{") or any("=" not in word for word in words):
        raise UsageError(
            "X1316", f"--call {text!r} is not a tool with arguments k=v", help=_CALL_HELP
        )
    return name, read_arguments(words, None)


def _list_rules(args: CheckArgs) -> int:
    check_dialect_option(args)
    conformance = find_conformance(args.dialect) if args.dialect else Conformance()
    rules = all_rules(conformance)
    if args.json:
        show_json([rule._asdict() for rule in rules])
    else:
        rows = [(rule.name, rule.id, rule.severity, rule.text) for rule in rules]
        show_table(rows, ("CHECK", "RULE", "SEVERITY", "REQUIRES"))
    return 0
