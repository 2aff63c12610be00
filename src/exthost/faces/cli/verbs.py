"""The verbs (subcommands of `exthost`) with their one-line help, and two exit codes.

The exit code of an error is in `ExthostError.exit_code`.
"""

VERBS = {
    "inspect": "start an extension, shake hands, show what it offers, stop",
    "call": "call a tool, or any method, and print the result",
    "list": "the extensions of a config; starts nothing",
    "info": "everything that is known of one extension; starts nothing",
    "enable": "switch an extension on in the config",
    "disable": "switch an extension off in the config",
    "validate": "check manifests and the config, with file, line and key of each mistake",
    "schema": "print the JSON Schema of exthost.toml, for editors",
    "doctor": "find out what keeps extensions from running, and how to fix it",
    "tools": "the tools of a config's extensions; starts nothing unless asked to",
    "forget": "drop what an extension offered when it ran last",
    "run": "start everything and supervise it until Ctrl-C",
    "gateway": "offer all tools as one MCP server, on stdio or HTTP",
    "top": "the extensions of a running host, live, with keys to restart, stop and look",
    "status": "the states of the extensions of a running host",
    "start": "start an extension of a running host that is stopped, failed or idle",
    "stop": "stop an extension of a running host, until it is started again",
    "restart": "give an extension of a running host a fresh process",
    "reload": "have a running host read its config again, without losing a call",
    "up": "start a host; with -d in the background",
    "down": "end the running host of a config",
    "add": "add an extension to the config",
    "remove": "take an extension out of the config",
    "mcp": "import the MCP servers that editors and agents on this machine have",
    "install": "put an extension's folder, or a link to it, into the search path",
    "uninstall": "delete an extension's folder from the search path",
    "trace": "every message between a running host and its extensions, as it comes",
    "replay": "play a recorded session again, as the extension or as the host",
    "logs": "what an extension of a host wrote, even after it has ended",
    "unit": "print a systemd unit that runs a host",
    "completion": "print completions for a shell",
    "man": "print the manual page",
    "new": "make a new extension: program, manifest, test and README",
    "dev": "work on an extension: start it again on every save, show its messages, repeat the call",
    "check": "hold an extension to the rules of its dialect, and show how to fix what is wrong",
    "explain": "what an error code means and what to do about it",
}

# The exit code after Ctrl-C: 128 + SIGINT, as in shells.
INTERRUPTED = 130
# The exit code without any argument.
USAGE = 2
