"""The verbs (subcommands of `exthost`) with their one-line help, and two exit codes.

The exit code of an error is in `ExthostError.exit_code`.
"""

# What people do → the verbs for it, each with its one-line help.
VERB_GROUPS = {
    "run": {
        "run": "start everything and supervise it until Ctrl-C",
        "up": "start a host; with -d in the background",
        "down": "end the running host of a config",
        "start": "start an extension of a running host that is stopped, failed or idle",
        "stop": "stop an extension of a running host, until it is started again",
        "restart": "give an extension of a running host a fresh process",
        "reload": "have a running host read its config again, without losing a call",
        "call": "call a tool, or any method, and print the result",
        "gateway": "offer all tools as one MCP server, on stdio or HTTP",
        "unit": "print a systemd unit that runs a host",
    },
    "look": {
        "list": "the extensions of a config; starts nothing",
        "tools": "list the tools of a config's extensions; starts them only with --start",
        "status": "the states of the extensions of a running host",
        "top": "the extensions of a running host, live, with keys to restart, stop and look",
        "logs": "show the log of an extension, even after it has ended",
        "trace": "every message between a running host and its extensions, as it comes",
        "inspect": "start an extension, show its offer, and stop it",
        "explain": "explain an error code, and how to fix its cause",
        "completion": "print completions for a shell",
        "man": "print the manual page",
    },
    "change": {
        "add": "add an extension to the config",
        "remove": "take an extension out of the config",
        "enable": "switch an extension on in the config",
        "disable": "switch an extension off in the config",
        "install": "put an extension's folder, or a link to it, into the search path",
        "uninstall": "delete an extension's folder from the search path",
        "mcp": "import the MCP servers that editors and agents on this machine have",
        "forget": "delete the stored offer of an extension",
        "schema": "print the JSON Schema of exthost.toml, for editors",
    },
    "write": {
        "new": "make a new extension: program, manifest, test and README",
        "dev": "work on an extension: restart it on every save, show its messages, repeat the call",
        "check": "check an extension against the rules of its dialect, and show how to fix faults",
        "replay": "play a recorded session again, as the extension or as the host",
    },
    "trust": {
        "info": "everything that is known of one extension; starts nothing",
        "validate": "check manifests and the config, with file, line and key of each mistake",
        "doctor": "find problems that keep extensions from running, and how to fix them",
    },
}

VERBS = {verb: summary for group in VERB_GROUPS.values() for verb, summary in group.items()}

# The verbs that take a command after `--` in place of an extension.
COMMAND_VERBS = frozenset({"add", "call", "check", "dev", "inspect", "replay", "tools"})

# What `exthost help` shows.
COMMON_VERBS = (
    "new",
    "inspect",
    "call",
    "add",
    "list",
    "run",
    "status",
    "logs",
    "doctor",
    "explain",
)

# The exit code after Ctrl-C: 128 + SIGINT, as in shells.
INTERRUPTED = 130
# The exit code without any argument.
USAGE = 2
