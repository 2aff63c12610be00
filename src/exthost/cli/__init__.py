"""The command line: stdout is data, stderr is talk, exit codes tell the truth.

One verb a file, each with the same two functions: `options(parser)` and `run(asked) -> int`. Only
the verb that was asked for is imported; `exthost --help` imports none of them, since asyncio alone
costs more than everything that help needs.
"""

import sys

from exthost._version import __version__

VERBS = {
    "inspect": "start an extension, shake hands, show what it offers, stop",
    "call": "call a tool, or any method, and print the result",
    "list": "the extensions of a config; starts nothing",
    "info": "everything that is known of one extension; starts nothing",
    "enable": "switch an extension on in the config",
    "disable": "switch an extension off in the config",
    "validate": "check manifests and the config, with file, line and key of each mistake",
    "doctor": "find out what keeps extensions from running, and how to mend it",
    "tools": "the tools of a config's extensions; starts nothing unless asked to",
    "run": "start everything and supervise it until Ctrl-C",
    "gateway": "offer all tools as one MCP server, on stdio or HTTP",
    "status": "how the extensions of a running host are",
    "start": "start an extension of a running host that is stopped, failed or idle",
    "stop": "stop an extension of a running host, until it is started again",
    "restart": "give an extension of a running host a fresh process",
    "logs": "what an extension of a host said, also when it is dead",
    "explain": "what an error code means and what to do about it",
}

INTERRUPTED = 130
USAGE = 2


def main(words: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0 if words else USAGE
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"exthost {__version__}\n")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        from exthost.names import nearest

        near = nearest(verb, VERBS)
        hint = f"did you mean {near}?" if near else "see exthost --help"
        sys.stderr.write(f"exthost: there is no verb {verb!r}; {hint}\n")
        return USAGE
    from exthost.cli.frame import run_verb

    return run_verb(verb, rest)


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
