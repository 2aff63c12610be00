"""Play a recorded session again, and compare.

  exthost replay FILE                  as the extension, on stdin and stdout: a host can start this
                                       in the place of the program that was recorded
  exthost replay FILE -- COMMAND …     as the host: COMMAND is sent the recorded messages, and its
                                       replies are compared, up to the first difference

Exits with 0 only if messages were compared and there is no difference. Ids may differ, and so may
values that were hidden in the recording. Recordings are made by `exthost trace --save FILE`, and by
--trace FILE of `exthost call` and `exthost inspect`.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from exthost.authoring.replay.pipe_replay import play_extension, play_host
from exthost.authoring.replay.script import Script, find_script
from exthost.errors import Evidence, UsageError
from exthost.faces.cli.common import (
    Args,
    add_timeout_option,
    escape_controls,
    parse_count,
    parse_size_limit,
    plural,
    say,
    show_json,
)
from exthost.session.trace.trace_format import read_recording

# The exit code if there is a difference, or nothing was compared.
DIFFERS = 1

# The largest recording that is read by default. It takes several times as much memory.
MAX_RECORDING_BYTES = 128 * 2**20

# The default time limit for each message. A recorded extension may have taken as long.
WAIT_SECONDS = 30.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "exthost replay [OPTIONS] FILE [-- COMMAND ARGS…]"
    parser.add_argument("file", metavar="FILE", help="the recording; - reads it from stdin")
    parser.add_argument(
        "--name", default="", metavar="NAME", help="which extension, if it has several"
    )
    parser.add_argument(
        "--process",
        type=parse_count,
        default=0,
        metavar="PID",
        help="which process, as it was recorded (default: the last that began in the recording)",
    )
    parser.add_argument(
        "--ignore",
        metavar="KEY",
        action="append",
        default=[],
        help="a member that may differ, wherever it is, or params, result or error as a whole; "
        "may be repeated",
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=parse_size_limit,
        default=MAX_RECORDING_BYTES,
        help="the largest recording that is read (default: 128MiB)",
    )
    add_timeout_option(parser)


def run(args: Args) -> int:
    script = find_script(read_recording(_read_lines(args), args.file), args.name, args.process)
    return _replay_host(args, script) if args.command else _replay_extension(args, script)


def _read_lines(args: Args) -> Iterator[bytes]:
    """Yield the lines of the recording. Raises UsageError if it cannot be read, or is too large."""
    if args.file == "-":
        if not args.command:
            raise UsageError(
                "X1316",
                "the recording cannot be read from stdin: the host writes there",
                help="name a file, or give a command after --",
            )
        yield from _limit_size(sys.stdin.buffer, args)
        return
    try:
        with Path(args.file).open("rb") as file:
            yield from _limit_size(file, args)
    except OSError as error:
        raise UsageError(
            "X1389",
            f"the recording cannot be read: {error.strerror}",
            help="record one with exthost trace --save FILE",
            evidence=Evidence(path=args.file),
        ) from None


def _limit_size(file: BinaryIO, args: Args) -> Iterator[bytes]:
    """Yield the lines of a file. A line may be as long as the whole recording."""
    remaining_bytes = args.max_size
    while line := file.readline(remaining_bytes + 1):
        remaining_bytes -= len(line)
        if remaining_bytes < 0:
            raise UsageError(
                "X1389",
                f"the recording has more than {args.max_size:,} bytes",
                help="--max-size SIZE reads more, such as 1GiB; or record less at a time",
                evidence=Evidence(path=args.file),
            )
        yield line


def _replay_extension(args: Args, script: Script) -> int:
    """Play the part of the extension. Return the exit code."""
    role = play_extension(script, ignored=args.ignore)
    # Only the first difference is printed, because later differences usually follow from it.
    for difference in role.differences[:1]:
        for line in difference.lines():
            say(f"replay: {line}")
    if role.differences:
        return DIFFERS
    if role.expects_messages and not role.compared:
        say("replay: nothing was compared: the host sent no message")
        return DIFFERS
    return 0


def _replay_host(args: Args, script: Script) -> int:
    """Play the part of the host, with the command as the extension. Return the exit code."""
    seconds = WAIT_SECONDS if args.timeout is None else args.timeout
    outcome = play_host(script, args.command, seconds=seconds, ignored=args.ignore)
    difference = outcome.difference
    if args.json:
        data = {"difference": difference and difference.as_dict(), "compared": outcome.compared}
        show_json(data)
    elif difference is None and not outcome.compared:
        print("nothing was compared: the recording has no message of the extension")
    elif difference is None:
        print(f"no difference in {plural(outcome.compared, 'message')}")
    else:
        for line in difference.lines():
            print(escape_controls(line))
    return 0 if difference is None and outcome.compared else DIFFERS
