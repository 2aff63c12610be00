"""The command line: stdout is data, stderr is talk, exit codes tell the truth.

One verb a file, each with the same two functions: `options(parser)` and `run(args) -> int`. Only
the verb that was asked for is imported; `exthost --help` imports none of them, since asyncio alone
costs more than everything that help needs.
"""

import os
import sys

from exthost._version import __version__
from exthost.cli.verbs import INTERRUPTED, USAGE, VERBS


def main(words: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        _open_what_is_closed()
        return _main(sys.argv[1:] if words is None else words)
    except KeyboardInterrupt:  # while something was still being imported
        return INTERRUPTED


def _main(words: list[str]) -> int:
    if words[:1] == ["help"] and words[1:2] and words[1] in VERBS:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0 if words else USAGE
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"exthost {__version__}\n")
        return 0
    verb, rest = words[0], words[1:]
    from exthost.cli.common import no_verb, run_verb

    return run_verb(verb, rest) if verb in VERBS else no_verb(verb, rest)


def _open_what_is_closed() -> None:
    """Started with stdin, stdout or stderr closed: a pipe to a child must not get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest free number is the one that is closed, since those below were seen to.
            file = open(os.devnull, "r" if number == 0 else "w", encoding="utf-8")  # noqa: PTH123, SIM115
            setattr(sys, name, file)


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {summary}" for verb, summary in VERBS.items())
    return (
        "usage: exthost VERB [OPTIONS] [-- COMMAND ARGS…]\n\n"
        "One host for extensions that run as child processes, whichever dialect they speak.\n\n"
        f"{verbs}\n\n"
        "  exthost VERB --help     the options of a verb\n"
        "  exthost --version\n\n"
        "examples:\n"
        "  exthost inspect --dialect morphir -- python3 ext.py\n"
        "  exthost call transform --args '{\"ir\": {}}' -- python3 ext.py\n"
        "  exthost call ext_weather_forecast city=Lima --config exthost.toml\n"
    )
