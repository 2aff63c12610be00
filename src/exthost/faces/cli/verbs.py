"""The verbs (subcommands of `exthost`) with their one-line help, and the exit codes.

Each verb is the module of its name in this package. The exit code of an error is in
`ExthostError.exit_code`.
"""

# The groups of verbs in the help, each verb with its one-line help.
VERB_GROUPS = {
    "run": {
        "run": "start all extensions of a config, and supervise them until Ctrl-C",
        "up": "start a host like run does; with -d in the background",
        "down": "stop the running host of a config",
        "start": "start a stopped, failed or idle extension of a running host",
        "stop": "stop an extension of a running host, until you start it again",
        "restart": "restart an extension of a running host",
        "reload": "make a running host read its config again; no call is lost",
        "call": "call a tool, or any method, and print the result",
        "gateway": "offer all tools as one MCP server, on stdio or HTTP",
        "bridge": "connect to a remote MCP server, on stdin and stdout",
        "unit": "print a systemd unit that runs a host",
        "cluster": "make the certificates of a cluster, or show its nodes",
    },
    "look": {
        "list": "list the extensions of a config, without starting them",
        "tools": "list the tools of a config's extensions; --start starts them first",
        "status": "show the states of the extensions of a running host",
        "top": "show a running host live, with keys to restart, stop and inspect",
        "logs": "show the log of an extension, even after it has ended",
        "trace": "show the messages between a running host and its extensions",
        "inspect": "start an extension, show its tools and capabilities, and stop it",
        "explain": "explain an error code, and how to fix its cause",
        "completion": "print completions for a shell",
        "man": "print the manual page",
    },
    "change": {
        "add": "add an extension to the config",
        "remove": "remove an extension from the config",
        "enable": "enable an extension in the config",
        "disable": "disable an extension in the config",
        "install": "copy or link an extension's folder into the search path",
        "uninstall": "delete an extension's folder from the search path",
        "mcp": "import the MCP servers that are configured in editors and agents here",
        "forget": "delete the stored offer of an extension",
        "schema": "print the JSON Schema of exthost.toml, for editors",
    },
    "write": {
        "new": "create a new extension: program, manifest, test and README",
        "dev": "restart an extension on every save, show its messages, repeat the last call",
        "check": "check an extension against the rules of its dialect, and show how to fix faults",
        "pack": "write the bundle and the registry entry of an MCP server",
        "replay": "replay a recorded session, in place of the extension or of the host",
    },
    "trust": {
        "info": "show everything known about an extension, without starting it",
        "validate": "check manifests and the config; show file, line and key of each mistake",
        "rules": "show which rule of the config decides about a tool call",
        "learn": "propose the smallest permissions of an extension, by observing it",
        "lock": "record the code, permissions and tools of each extension in exthost.lock",
        "approve": "show what differs from exthost.lock, ask, and record it",
        "verify": "check that nothing differs from exthost.lock, for CI",
        "doctor": "find problems that prevent extensions from running, and suggest fixes",
    },
}

VERBS = {verb: summary for group in VERB_GROUPS.values() for verb, summary in group.items()}

# The verbs that take a command after `--` in place of an extension.
COMMAND_VERBS = frozenset({"add", "call", "check", "dev", "inspect", "learn", "replay", "tools"})

# What `exthost help` shows.
COMMON_VERBS = (
    *("new", "inspect", "call", "add", "list"),
    *("run", "status", "logs", "doctor", "explain"),
)

# The exit codes and their meanings, as the manual page and the documents list them.
EXIT_CODES = {
    0: "success",
    1: "the extension returned an error",
    2: "wrong usage, an unknown name, or invalid arguments",
    3: "invalid config or manifest",
    4: "refused, for example by a permission, the sandbox or the lock",
    5: "the extension did not start, or its handshake failed",
    6: "a call timed out",
    7: "the extension died or broke the protocol, or its circuit breaker is open",
    130: "Ctrl-C",
    141: "the reader of the output has closed it, as head does",
}
# The exit code after Ctrl-C: 128 + SIGINT, as in shells.
INTERRUPTED = 130
# The exit code after the reader of stdout has closed it: 128 + SIGPIPE, as in shells.
BROKEN_PIPE = 141
# The exit code without any argument.
USAGE = 2
