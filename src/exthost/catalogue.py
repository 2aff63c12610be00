"""What each error code means, for `exthost explain CODE`. Codes are stable: never reuse one.

A test holds this table against the source: every code that is raised stands here, and no other.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """One condition: what it is called, what it means, what to do."""

    kind: str
    title: str
    meaning: str
    fix: str


def _entry(kind: str, title: str, meaning: str, fix: str) -> Entry:
    return Entry(kind, title, meaning, fix)


CATALOGUE: dict[str, Entry] = {
    # -- what the operator wrote ------------------------------------------------------------------
    "X0101": _entry(
        "ConfigError",
        "the config cannot be read",
        "The file is not there or may not be read, or its text is not valid TOML, YAML or JSON.",
        "Name the file with --config, or mend the line that the message names.",
    ),
    "X0102": _entry(
        "ConfigError",
        "unknown key",
        "A key that does not exist at this place; often a misspelling.",
        "Use the key that the message suggests.",
    ),
    "X0103": _entry(
        "ConfigError",
        "wrong value",
        "A value has the wrong type, is not one of those allowed, or a required key is missing.",
        "Change it to what the message asks for.",
    ),
    "X0104": _entry(
        "ConfigError",
        "a name is used twice",
        "Two entries have the same name, and names are how extensions are told apart.",
        "Rename or remove one of the two places named.",
    ),
    "X0105": _entry(
        "ConfigError",
        "unsupported source or protocol",
        "Only child processes over stdin and stdout run here; the entry asks for something else.",
        "Wrap it in a program that speaks over stdio, or set enabled = false.",
    ),
    "X0106": _entry(
        "ConfigError",
        "bad duration or size",
        "A time or a size has no unit we know, or is negative or too large.",
        'Write durations like "500ms", "2s", "1m" and sizes like "256MB" or "256MiB".',
    ),
    "X0107": _entry(
        "ConfigError",
        "unknown dialect",
        "No dialect of this name is built in or installed.",
        "Use one of the names listed, or install the package that brings the dialect.",
    ),
    "X0109": _entry(
        "ConfigError",
        "an override without an extension",
        "[overrides.<id>] names an extension that was not found.",
        "Check the id and the search paths, or take the override out.",
    ),
    "X0112": _entry(
        "ConfigError",
        "a dialect cannot be loaded",
        "A package that is installed beside exthost offers this dialect. Importing it failed, or "
        "came to something that is not a dialect. The message names the package and the cause.",
        "Update or uninstall the package that the message names, or report it to its authors. If "
        "it names exthost, install exthost and what it needs again.",
    ),
    "X0110": _entry(
        "ConfigError",
        "the audit file cannot be written",
        "[audit] path names a file that cannot be opened for appending.",
        "Name another file, or create its folder.",
    ),
    "X0111": _entry(
        "ConfigError",
        "an option that its dialect cannot use",
        "One of the `options` of an extension has a value of the wrong kind, or a name that is "
        "nearly one of its dialect's.",
        "Write it as the dialect's page shows it.",
    ),
    "X0130": _entry(
        "ConfigError",
        "PyYAML is not installed",
        "The config is a YAML file, and reading YAML is an optional part of the installation.",
        "pip install 'exthost[yaml]', or write the same settings in exthost.toml.",
    ),
    "X0131": _entry(
        "ConfigError",
        "watchfiles is not installed",
        "The config wants manifests to be watched, which is an optional part of the installation.",
        "pip install 'exthost[watch]', or set watch.enabled = false.",
    ),
    "X0150": _entry(
        "ConfigError",
        "the store cannot be used",
        "The SQLite file in which the host keeps memory and settings cannot be opened, read "
        "or written: the disk is full, the folder is read-only, or the file is damaged.",
        "Make room or give access; EXTHOST_HOME names another folder.",
    ),
    "X0160": _entry(
        "ConfigError",
        "a JSON config without MCP servers",
        "A config that ends in .json is a file of MCP servers as other programs have it.",
        'Write {"mcpServers": {name: {command, args}}}, or use exthost.toml.',
    ),
    "X0161": _entry(
        "ConfigError",
        "a key of another program",
        "A file of MCP servers has a key that means nothing here; it was left alone.",
        "Nothing needs to be done. Limits, restarts and the like are set in exthost.toml.",
    ),
    "X0165": _entry(
        "ConfigError",
        "the gateway is not installed",
        "`exthost gateway` is built on the mcp package, which is an optional install.",
        "pip install 'exthost[gateway]'",
    ),
    "X0166": _entry(
        "ConfigError",
        "the gateway's token cannot be used",
        "The file of --token-file cannot be read or made, others can read it, or there is no token"
        " in it; or EXTHOST_GATEWAY_TOKEN holds something that no header can carry.",
        "chmod 600 the file and write one line into it, or leave it out: a token is made then.",
    ),
    # -- what the extension says about itself on disk ---------------------------------------------
    "X0201": _entry(
        "ManifestError",
        "the manifest cannot be read",
        "It is there, but it may not be read, is no regular file, or is over 1 MiB.",
        "Check the kind, the size and the rights of the file.",
    ),
    "X0202": _entry(
        "ManifestError",
        "the manifest is invalid",
        "It breaks a rule of its format.",
        "Mend the key and line named; --all shows every mistake.",
    ),
    "X0203": _entry(
        "ManifestError",
        "a link leads out of the search path",
        "Links are followed, but the real place lies outside the folder that is searched.",
        "Move the target below the search path, or add its folder to search_paths.",
    ),
    "X0204": _entry(
        "ManifestError",
        "a place cannot be searched",
        "A search path, a folder or an entry is missing, unreadable, or a link to nothing.",
        "Check that it is there and readable, or drop it from search_paths.",
    ),
    "X0205": _entry(
        "ManifestError",
        "the id is taken",
        "Two extensions that were found have one id; the first is used.",
        "Rename one, or take one out of the search paths.",
    ),
    "X0206": _entry(
        "ManifestError",
        "an allow-listed id is not there",
        "The allowlist names an extension that was not found, or that is disabled as well.",
        "Check the spelling and the search paths, or drop it from the list.",
    ),
    "X0207": _entry(
        "ManifestError",
        "a remark about a manifest",
        "The manifest can be used, but something beside it was left out.",
        "Mend the file that is named.",
    ),
    "X0208": _entry(
        "ManifestError",
        "the config goes before what was found",
        "An extension was found whose id the config names as well; the config's entry is used.",
        "Remove one of them if that is not what you want.",
    ),
    "X0240": _entry(
        "ManifestError",
        "the manifest cannot be used",
        "It is not valid TOML, or a key is missing or of the wrong type.",
        "Mend the key that the message names.",
    ),
    "X0241": _entry(
        "ManifestError",
        "the manifest's id is blank",
        "An extension is known by its id on the wire, and this one has none.",
        'Write id = "…" in the manifest.',
    ),
    "X0242": _entry(
        "ManifestError",
        "the manifest provides nothing",
        "Its list of services is empty, so nothing could ever be asked of it.",
        "Add a [[provides]] table.",
    ),
    "X0243": _entry(
        "ManifestError",
        "api_version is no requirement",
        "It must be a version requirement in Cargo's notation.",
        'Write it like "^0.1" or ">=0.1, <0.2".',
    ),
    "X0244": _entry(
        "ManifestError",
        "the API version does not fit",
        "The extension was written for another version of the extension API.",
        "Use a version of the extension that admits the one named.",
    ),
    "X0245": _entry(
        "ManifestError",
        "a tool provider is faulty",
        "It has no tools, a blank or repeated tool name, or parameters that are no object schema.",
        'Give each tool a name of its own and parameters with type = "object".',
    ),
    "X0246": _entry(
        "ManifestError",
        "nothing to run",
        "A manifest that was found must say how it is launched; this one does not.",
        "Add [launch], or name the manifest in a config entry that has a command.",
    ),
    "X0247": _entry(
        "ManifestError",
        "something is there twice",
        "A service, a tool name or a capability is repeated in the manifest.",
        "Remove or rename one of the two.",
    ),
    "X0248": _entry(
        "ManifestError",
        "no manifest belongs here",
        "The entry names a manifest, and extensions of its dialect have none that could be named.",
        "Take the key `manifest` out, or correct the dialect.",
    ),
    "X0250": _entry(
        "ManifestError",
        "the plugin.json cannot be read",
        "The file is not JSON, or a key under `extension` is missing or of the wrong type.",
        "Change the key that the message names.",
    ),
    "X0251": _entry(
        "ManifestError",
        "another protocol or runtime",
        "The plugin is written for another version of the protocol, or does not run as a process.",
        "Use a version of the plugin for protocol 1.",
    ),
    "X0252": _entry(
        "ManifestError",
        "no command",
        "The manifest's command is blank, so there is nothing to run.",
        "Name the program under `extension.command`.",
    ),
    "X0253": _entry(
        "ManifestError",
        "unknown or reserved permission",
        "The plugin asks for a permission that does not exist, or that nobody is granted.",
        "Use the permission that the message suggests, or take it out.",
    ),
    "X0254": _entry(
        "ManifestError",
        "a hook that cannot be had",
        "The hook does not exist, needs a permission that the manifest does not ask for, or "
        "has a tool filter though it is not about tools.",
        "Change the hook or the permissions, as the message says.",
    ),
    "X0255": _entry(
        "ManifestError",
        "nothing to do",
        "The plugin has no hook and may register nothing, so running it would serve nobody.",
        "Name a hook, or ask for tools.register or providers.register.",
    ),
    # -- what we will not run ---------------------------------------------------------------------
    "X0301": _entry(
        "Refused",
        "requirements are missing",
        "Programs that it requires are not on PATH, or variables are not set.",
        "Install what is named, or set the variables where the host is started.",
    ),
    "X0302": _entry(
        "Refused",
        "permissions that cannot be enforced",
        "A `permissions` table restricts the extension, and nothing here can hold it to that: "
        "bubblewrap is missing, user namespaces are forbidden, or the processor is not known.",
        'Do what the help says (exthost doctor tells more); sandbox = "best-effort" runs it all '
        "the same, with what can be had.",
    ),
    "X0320": _entry(
        "Refused",
        "a file outside the folder",
        "A file of an extension's result has a path that is absolute, has a .. in it, or "
        "leads out of the folder through a link. Nothing was written.",
        "Tell the author of the extension; write to the folder that the paths are meant for.",
    ),
    "X0330": _entry(
        "Refused",
        "the host is too old for it",
        "Its manifest asks for a later version of the host than this one gives itself.",
        "Update the host, or set options.host_version if you know that it is compatible.",
    ),
    "X0331": _entry(
        "Refused",
        "nothing to run",
        "It is well described, but reached over a network and not run as a child process.",
        "Start it where it belongs; here it is only listed.",
    ),
    "X0332": _entry(
        "Refused",
        "a hook said no",
        "A before_tool_call hook of an extension stopped this call; nothing was sent.",
        "The message says which extension, and its reason.",
    ),
    "X0340": _entry(
        "Refused",
        "another extension has it already",
        "An extension id, a service, a tool name or a capability may be there once in a host.",
        "Disable one of the two extensions named.",
    ),
    "X0350": _entry(
        "Refused",
        "a required setting has no value",
        "The extension cannot do without this setting, and neither a variable nor the store "
        "nor a default has it.",
        "Set one of the variables that the message names.",
    ),
    "X0351": _entry(
        "Refused",
        "a setting of the wrong type",
        "The setting is declared as a number or a truth value, and what was found is none.",
        "Change the variable or the stored value that the message names.",
    ),
    "X0375": _entry(
        "Refused",
        "no folder for the host's socket",
        "The folder of the socket of `exthost run` is another user's, or cannot be made.",
        "Set XDG_RUNTIME_DIR or EXTHOST_HOME to a folder of your own.",
    ),
    "X0376": _entry(
        "Refused",
        "another user's host",
        "A running host answers only processes of the user who started it.",
        "Ask as that user.",
    ),
    "X0380": _entry(
        "Refused",
        "its processes cannot be held together",
        'It was configured with lifetime = "tree": none of its processes may outlive it or the '
        "host. That needs a PID namespace, and a probe showed that none can be had here.",
        'Do what the help says, or set lifetime = "plain": then a process that leaves its group '
        "can survive.",
    ),
    "X0381": _entry(
        "Refused",
        "a path that is never granted",
        "permissions.filesystem names / or something in /proc, /sys or /dev: the machine itself, "
        "not files. A link that leads there counts the same.",
        "Name the folder that the extension really needs.",
    ),
    "X0382": _entry(
        "Refused",
        "a granted path that is not there",
        "permissions.filesystem names a path at which there is nothing. Whoever creates it later "
        "would decide what the extension sees.",
        "Create it, or take the entry out.",
    ),
    "X0383": _entry(
        "Refused",
        "a granted path that is a link",
        "permissions.filesystem names a path on the way of which there is a symbolic link. "
        "Whoever can change the link would decide what the extension sees.",
        "Write the real path, which the message names, if it is what you mean.",
    ),
    "X0385": _entry(
        "Refused",
        "limits that cannot be set",
        "Limits on processor time, open files, file sizes or processes were configured for an "
        "extension that nothing is wrapped around, and the program that sets them is missing.",
        'Install util-linux (prlimit), let it run with lifetime = "tree", or take the limits out.',
    ),
    "X0386": _entry(
        "Refused",
        "a file that is not the one pinned",
        "`sha256` pins a file of the extension (its program, a file among its words, or its "
        "manifest), and what is there now has another digest. Both are told.",
        "If you trust the change, pin the new digest; else put the file back.",
    ),
    "X0387": _entry(
        "Refused",
        "tools that are not those pinned",
        "The extension is pinned, and the names, descriptions or schemas of its tools are not what "
        "was pinned, or not what it offered when it was first started.",
        "Look at what changed with `exthost inspect`; then pin the new digest, or remove it.",
    ),
    "X0388": _entry(
        "Refused",
        "a variable of the host's that is not set",
        'The config gives it a variable by reference ({ from = "NAME" }), and the host was '
        "started without NAME.",
        "Set the variable where the host is started, or take the entry out of `env`.",
    ),
    "X0384": _entry(
        "Refused",
        "a path that leads elsewhere now",
        "A file or folder of the extension led somewhere else when it was admitted than now, "
        "before its start.",
        "If the change was yours, load the extension anew; else find out whose it was.",
    ),
    # -- starting ---------------------------------------------------------------------------------
    "X0401": _entry(
        "SpawnFailed",
        "no such program",
        "The command is not there: neither on PATH nor at the path given.",
        "Check the spelling and PATH, or give an absolute path.",
    ),
    "X0402": _entry(
        "SpawnFailed",
        "no such working folder",
        "The folder in which it should run is not there.",
        "Create it, or set `cwd`.",
    ),
    "X0403": _entry(
        "SpawnFailed",
        "the script's interpreter is missing",
        "The file exists, but its first line names an interpreter that does not.",
        "Install the interpreter, or correct the `#!` line.",
    ),
    "X0404": _entry(
        "SpawnFailed",
        "not executable",
        "The file exists, but the system will not run it as a program.",
        "chmod +x it; a script also needs a first line such as #!/usr/bin/env python3.",
    ),
    "X0405": _entry(
        "SpawnFailed",
        "no room for another process",
        "The machine or the user has run out of processes, descriptors or memory.",
        "Stop something, or raise the limit (ulimit -n, ulimit -u).",
    ),
    "X0406": _entry(
        "SpawnFailed",
        "could not be started",
        "The system refused to start it, for the reason that the message gives.",
        "See the reason.",
    ),
    # -- shaking hands ----------------------------------------------------------------------------
    "X0501": _entry(
        "HandshakeFailed",
        "gone before it shook hands",
        "The process started and ended, or closed its output, before it answered.",
        "Run its command by hand; what it wrote to stderr is in the evidence.",
    ),
    "X0502": _entry(
        "HandshakeFailed",
        "it refused the handshake",
        "The extension answered the handshake with an error of its own.",
        "Its message says what it is missing; often a part of its config.",
    ),
    "X0503": _entry(
        "HandshakeFailed",
        "its offer cannot be used",
        "What it answered in the handshake does not have the shape of its dialect.",
        "Correct the extension; the evidence shows what it sent.",
    ),
    "X0504": _entry(
        "HandshakeFailed",
        "no answer to the handshake",
        "The process runs, but did not answer in time.",
        "Does it speak this dialect? Does it flush its output? Else raise limits.handshake.",
    ),
    "X0505": _entry(
        "HandshakeFailed",
        "it broke the handshake",
        "What it wrote is not of its dialect, in a way that cannot be passed over.",
        "The evidence shows the bytes.",
    ),
    "X0506": _entry(
        "HandshakeFailed",
        "it speaks another dialect",
        "Its first bytes are framed as another dialect frames them.",
        "Choose the dialect that the message names, with --dialect or `dialect = …`.",
    ),
    "X0507": _entry(
        "HandshakeFailed",
        "not ready in time",
        "Spawning it and shaking hands together took longer than limits.start.",
        "Raise limits.start if it is merely slow.",
    ),
    "X0520": _entry(
        "HandshakeFailed",
        "another version of the protocol",
        "The plugin said another protocol than 1, or none, which is 0.",
        "Use a version of the plugin that speaks protocol 1.",
    ),
    "X0521": _entry(
        "HandshakeFailed",
        "a plugin without a name",
        "The plugin introduced itself without a name, by which it would be routed.",
        "Its author fills in PluginInfo.name.",
    ),
    "X0522": _entry(
        "HandshakeFailed",
        "a capability of the wrong form",
        "Capabilities are namespace:value, such as provider:github.",
        "Its author mends PluginInfo.capabilities.",
    ),
    "X0523": _entry(
        "HandshakeFailed",
        "the wanted capability is missing",
        "The plugin shook hands, and does not have the capability that was asked for.",
        "Ask for one that it has, or use another plugin; exthost inspect shows them.",
    ),
    "X0524": _entry(
        "HandshakeFailed",
        "two plugins of one name",
        "Two extensions of one host call themselves the same, and calls are routed by that name.",
        "Disable one of them.",
    ),
    "X0530": _entry(
        "HandshakeFailed",
        "its answer to initialize cannot be used",
        "What a nexo extension answered to `initialize` is not {server_version?, tools?, hooks?}.",
        "Correct the extension; the evidence shows what it sent.",
    ),
    "X0540": _entry(
        "HandshakeFailed",
        "no manifest",
        "An extension of this dialect is started against its manifest, and none was named.",
        "Name it in the config, or give its path in place of a command.",
    ),
    "X0541": _entry(
        "HandshakeFailed",
        "another protocol version",
        "The extension's echo names another version of the protocol than the host speaks.",
        "Use a version of the extension for the protocol named.",
    ),
    "X0542": _entry(
        "HandshakeFailed",
        "another id",
        "The extension calls itself otherwise than its manifest does.",
        "Mend the id in the manifest, or in the extension.",
    ),
    "X0543": _entry(
        "HandshakeFailed",
        "other services",
        "The services echoed are not those of the manifest: same order, same types, same tools.",
        "Let the extension echo what stands in its manifest.",
    ),
    "X0544": _entry(
        "HandshakeFailed",
        "another manifest",
        "The checksum echoed is not that of the manifest's bytes: the program has another.",
        "Install manifest and program of the same version.",
    ),
    "X0545": _entry(
        "HandshakeFailed",
        "no echo",
        "The answer to extension/initialize is not an object.",
        "Answer with protocolVersion, extensionId, services and manifestChecksum.",
    ),
    "X0550": _entry(
        "HandshakeFailed",
        "an unusable answer",
        "The answer to `initialize` lacks a member, or has one of the wrong type.",
        "The extension's author has to mend it; the message names the member.",
    ),
    "X0551": _entry(
        "HandshakeFailed",
        "another protocol version",
        "The plugin's answer names another version of the protocol than the host speaks.",
        "Use a version of the plugin for the protocol named.",
    ),
    "X0552": _entry(
        "HandshakeFailed",
        "a tool that cannot be registered",
        "A tool's name, description or schema breaks the rules, or a name is there twice.",
        "The extension's author has to mend it; nothing of it was registered.",
    ),
    "X0553": _entry(
        "HandshakeFailed",
        "a provider that cannot be registered",
        "A provider's id, names, models or config_schema break the rules.",
        "The extension's author has to mend it; nothing of it was registered.",
    ),
    "X0554": _entry(
        "HandshakeFailed",
        "a capability that cannot be registered",
        "A capability has no kind or name, or needs a permission that does not exist.",
        "The extension's author has to mend it; nothing of it was registered.",
    ),
    "X0555": _entry(
        "HandshakeFailed",
        "a permission is not granted",
        "The plugin registers something that its manifest does not ask permission for.",
        "Add the permission to its plugin.json, if you agree.",
    ),
    "X0560": _entry(
        "HandshakeFailed",
        "a revision of MCP that is not known",
        "The server speaks a revision of the protocol that this version does not.",
        "Update the server or exthost; the message names both sides.",
    ),
    "X0561": _entry(
        "HandshakeFailed",
        "not the answer of an MCP server",
        "Its answer to `initialize` names no protocolVersion, as every MCP server's does.",
        "Check the command; if it is an extension of another kind, say its dialect.",
    ),
    "X0562": _entry(
        "HandshakeFailed",
        "an MCP server that does not tell its tools",
        "It says that it has tools, and its tools/list is an error, is none, or does not end.",
        "Mend the server; its log may tell more.",
    ),
    # -- the peer broke the rules -----------------------------------------------------------------
    "X0601": _entry(
        "ProtocolViolation",
        "unreadable output",
        "After what it wrote nobody can tell where the next message begins.",
        "An extension must write nothing but its frames to stdout; logs belong on stderr.",
    ),
    "X0602": _entry(
        "ProtocolViolation",
        "not a message",
        "It wrote a frame that is no message, in a dialect where that is fatal.",
        "The evidence shows the bytes.",
    ),
    "X0603": _entry(
        "ProtocolViolation",
        "the answer is too long",
        "Its answer is longer than limits.max_message; it was let go without being kept.",
        "Raise limits.max_message for this extension, or ask for less.",
    ),
    "X0604": _entry(
        "ProtocolViolation",
        "the answer was not understood",
        "Our reading of what it wrote failed in a way nobody foresaw.",
        "If the extension is right this is a bug of ours: please report it.",
    ),
    "X0605": _entry(
        "ProtocolViolation",
        "another stream was acknowledged",
        "The answer to the opening of a stream names another one.",
        "The extension must answer with the id that it was given.",
    ),
    "X0620": _entry(
        "ProtocolViolation",
        "not the message that was expected",
        "The bytes of an answer are no message of the type that its question asks for. "
        "Without ids nothing can be saved, so the process was ended.",
        "Check that it speaks cigen's protocol 1 and writes nothing else to stdout.",
    ),
    "X0621": _entry(
        "ProtocolViolation",
        "an answer to nothing",
        "It answered although nothing was asked. It would be taken for the next answer, "
        "so the process was ended.",
        "A plugin answers each message with exactly one.",
    ),
    "X0630": _entry(
        "ProtocolViolation",
        "a list of tools that cannot be used",
        "What it answered to `tools/list` is not a list of tools.",
        'Answer with {"tools": [{"name": …}]} or with the list alone.',
    ),
    "X0631": _entry(
        "ProtocolViolation",
        "a hook's answer cannot be used",
        "What it answered to a hook is neither an object nor null.",
        "Answer with {abort?, reason?, override?, decision?} or null.",
    ),
    "X0640": _entry(
        "ProtocolViolation",
        "no tool result",
        "The answer to a tool call lacks its text or its error flag.",
        "The extension must answer with content, isError and data.",
    ),
    "X0641": _entry(
        "ProtocolViolation",
        "an answer of the wrong shape",
        "The answer to this method is not what its dialect says.",
        "Report it to the extension's author.",
    ),
    "X0650": _entry(
        "ProtocolViolation",
        "a body that is not JSON",
        "A Content-Length frame held something else than JSON; usually the length is counted "
        "in characters instead of bytes.",
        "Count the bytes of the encoded body.",
    ),
    "X0651": _entry(
        "ProtocolViolation",
        "a bad answer to a hook",
        "The answer has no known action, lacks its member, or is not allowed for this hook.",
        "The hook is passed over; its author has to mend it.",
    ),
    "X0652": _entry(
        "ProtocolViolation",
        "a bad answer",
        "The answer to a provider, info or sidecar request lacks what the protocol says.",
        "The extension's author has to mend it.",
    ),
    "X0653": _entry(
        "ProtocolViolation",
        "an empty completion",
        "A provider answered without any content.",
        "Look at the provider's own log.",
    ),
    "X0654": _entry(
        "ProtocolViolation",
        "a tool was asked for badly",
        "A tool_use block of a provider has no id or name, or its input is not an object.",
        "The provider's author has to mend it.",
    ),
    "X0660": _entry(
        "ProtocolViolation",
        "an answer to an MCP tool that is none",
        "The result of tools/call is an object with a list `content`.",
        "Mend the server; what it sent is in the evidence.",
    ),
    "X0661": _entry(
        "ProtocolViolation",
        "structured content against its own schema",
        "The tool has an outputSchema, and its structuredContent is missing or does not fit.",
        "Mend the tool or its schema; the message names what does not fit.",
    ),
    "X0662": _entry(
        "ProtocolViolation",
        "an MCP server that only asks back",
        "A request was answered with questions too many times, or with an empty one.",
        "Mend the server: after its answers it must come to a result.",
    ),
    "X0663": _entry(
        "ProtocolViolation",
        "an MCP list that cannot be read",
        "A page has no list, or the pages do not end: each names a next one.",
        "Mend the server: the last page has no nextCursor.",
    ),
    "X0665": _entry(
        "ProtocolViolation",
        "a result without text",
        "The extension's result is nested so deeply that it cannot be written as JSON again, for a"
        " model or for the gateway's client.",
        "Have the extension return something flatter; in Python, `data` and `raw` of the result "
        "still have all of it.",
    ),
    "X0675": _entry(
        "ProtocolViolation",
        "something else answers at the host's socket",
        "What was answered is no answer of a host of this version.",
        "Stop the host and run it again with the version of exthost that asks.",
    ),
    # -- calls ------------------------------------------------------------------------------------
    "X0701": _entry(
        "CallFailed",
        "the extension answered with an error",
        "The call arrived and the extension said no; its code, message and data are kept.",
        "Its message and its log tell why; the arguments are the first suspect.",
    ),
    "X0702": _entry(
        "CallFailed",
        "the tool failed",
        "The tool ran and marked its result as an error (isError in MCP and roder). The text of "
        "the result is in the message, the whole result in the error's data.",
        "Read the text: the arguments are the first suspect. In Python, check=False returns such "
        "a result instead of raising this error.",
    ),
    "X0720": _entry(
        "CallFailed",
        "an error among the diagnostics",
        "The extension answered with a diagnostic of level ERROR; all of them are attached.",
        "Follow the diagnostic's own hint.",
    ),
    "X0721": _entry(
        "CallFailed",
        "its files cannot be put together",
        "The pieces of a file in the result do not fit: no mapping to merge, neither YAML "
        "nor JSON, a file where a folder is needed.",
        "Look at the pieces without --write, and tell the author.",
    ),
    "X0750": _entry(
        "CallFailed",
        "the host could not store it",
        "An extension asked the host to keep or find something, and the store cannot be used.",
        "See the host's log; it names the file and what the system said.",
    ),
    "X0751": _entry(
        "CallFailed",
        "a bad parameter",
        "An extension asked the host something with a parameter that is missing, of the wrong "
        "type or too large.",
        "The extension was told which one; its author has to mend it.",
    ),
    "X0752": _entry(
        "CallFailed",
        "permission denied",
        "An extension asked the host for something that its manifest does not ask permission for.",
        "Add the permission to its plugin.json, if you agree.",
    ),
    "X0753": _entry(
        "CallFailed",
        "somebody else's memory",
        "An extension asked for the memory of another one; each has only its own.",
        "Its namespace is the extension's id.",
    ),
    "X0754": _entry(
        "CallFailed",
        "too many rounds of tools",
        "A model still asked for tools in the last round that it was allowed.",
        "Allow more rounds, or look at what its tools answer.",
    ),
    "X0760": _entry(
        "CallFailed",
        "an MCP server's question was not answered",
        "To go on it needs roots, a model's answer or a person's, and nobody here gives it.",
        'Register a handler for it: Host(handlers={"elicitation/create": …}).',
    ),
    "X0801": _entry(
        "CallTimeout",
        "no answer in time",
        "The call's time ran out while it waited for its turn, for a start, or for the answer.",
        "The message says which. Give it more time, or find out what the extension does.",
    ),
    "X0840": _entry(
        "CallTimeout",
        "a stream took too long",
        "Its last event did not come within its time limit; it was cancelled where possible.",
        "Give it more time, or look at what the extension is doing.",
    ),
    "X0841": _entry(
        "CallTimeout",
        "it does not read",
        "What was said before has not been read, so nothing more was said.",
        "The extension must read its stdin while it works.",
    ),
    "X0875": _entry(
        "CallTimeout",
        "the running host did not answer in time",
        "It is busy, stopped by a signal, or what was asked of it takes longer than that.",
        "Look with exthost status; wait longer with --timeout.",
    ),
    # -- gone -------------------------------------------------------------------------------------
    "X1001": _entry(
        "ExtensionGone",
        "its process ended",
        "The process exited or was killed while something was awaited of it.",
        "Exit status and stderr are in the evidence; a restart policy starts it again.",
    ),
    "X1002": _entry(
        "ExtensionGone",
        "it closed a pipe",
        "The process runs, but it closed its stdin or stdout, so nothing can be asked of it.",
        "An extension must keep both open for as long as it lives.",
    ),
    "X1003": _entry(
        "ExtensionGone",
        "ended with a call that was given up",
        "In dialects that answer by order, a late answer would be taken for the next one.",
        "Nothing is wrong with later calls: they get a fresh process.",
    ),
    "X1004": _entry(
        "ExtensionGone",
        "it does not read",
        "It took nothing from its stdin for the time of limits.write.",
        "The extension hangs, or waits for something that never comes.",
    ),
    "X1005": _entry(
        "ExtensionGone",
        "closed under a call",
        "The host closed the extension while the call was under way.",
        "Close an extension, or leave its `async with`, after the last call.",
    ),
    "X1006": _entry(
        "ExtensionGone",
        "stopped",
        "The extension was stopped, and nobody has started it since.",
        "Start it with restart(), or load it again.",
    ),
    "X1007": _entry(
        "ExtensionGone",
        "not ready",
        "It is not ready, and the caller did not want to wait.",
        "Call without wait=False, or wait until it is ready.",
    ),
    "X1020": _entry(
        "ExtensionGone",
        "ended to keep in step",
        "A call left the extension expecting a message that no other call begins with, such as "
        "a Generate after a cigen plan, so its process was ended.",
        "Nothing: the next call starts a fresh process.",
    ),
    # -- left alone -------------------------------------------------------------------------------
    "X1170": _entry(
        "BreakerOpen",
        "the breaker is open",
        "Too many calls in a row timed out or died with the process (breaker.failures), so none is "
        "sent for a while (breaker.open, doubling up to breaker.max_open). After that the first "
        "call is tried on a fresh process.",
        "Look at what the last failure says, mend the extension, and wait or restart() it.",
    ),
    "X1075": _entry(
        "ExtensionGone",
        "the running host ended before it answered",
        "The host was stopped or died while a command waited for its answer.",
        "Run it again with exthost run.",
    ),
    # -- not found --------------------------------------------------------------------------------
    "X1201": _entry(
        "NotFound",
        "no such tool",
        "No extension offers a tool of this name right now.",
        "See `exthost tools`; a tool whose extension failed is not listed.",
    ),
    "X1202": _entry(
        "NotFound",
        "the extension has no such tool",
        "The extension is there, but it does not offer this tool; nothing was sent.",
        "See `exthost inspect`; with --method you can send any method as it is.",
    ),
    "X1203": _entry(
        "NotFound",
        "the dialect has no such method",
        "The dialect has a fixed set of methods, and this is none of them.",
        "Use one of those listed.",
    ),
    "X1204": _entry(
        "NotFound",
        "more than one has it",
        "Several extensions have a tool of this name.",
        "Use one of the registered names listed.",
    ),
    "X1205": _entry(
        "NotFound",
        "no such extension",
        "The host has no extension of this name.",
        "See `exthost list`.",
    ),
    "X1206": _entry(
        "NotFound",
        "nothing is there",
        "The target is neither a name in the config nor a folder or manifest of an extension.",
        "Check the name, the path and --config; or give a command after `--`.",
    ),
    "X1207": _entry(
        "NotFound",
        "no such error code",
        "This version has no error of this code.",
        "`exthost explain` without a code lists them all.",
    ),
    "X1220": _entry(
        "NotFound",
        "no such tool with that capability",
        "Extensions have a tool of this name, but none of them has the capability asked for.",
        "Ask for a capability that exthost inspect shows.",
    ),
    "X1250": _entry(
        "NotFound",
        "no such model",
        "The extension has no model of this name, or several providers have one.",
        "Write provider:model, as the message lists them.",
    ),
    "X1275": _entry(
        "NotFound",
        "no host is running",
        "Status, start, stop and restart talk to a running host, and none runs for this config.",
        "Start one with exthost run, or name the config of the one that runs with --config.",
    ),
    "X1276": _entry(
        "NotFound",
        "no such extension, and no log of one",
        "The name is in neither the config nor the logs that were kept.",
        "Check the name with exthost list.",
    ),
    # -- usage ------------------------------------------------------------------------------------
    "X1301": _entry(
        "UsageError",
        "arguments against the schema",
        "The arguments do not fit the tool's own input schema; nothing was sent.",
        "See the schema with `exthost inspect`.",
    ),
    "X1302": _entry(
        "UsageError",
        "not JSON",
        "The value cannot be written as JSON, which is how the dialect sends it.",
        "Use dicts with string keys, lists, strings, numbers, booleans and None.",
    ),
    "X1303": _entry(
        "UsageError",
        "the message is too large to send",
        "It is over limits.max_message; nothing was written.",
        "Send less at a time, or raise limits.max_message.",
    ),
    "X1304": _entry(
        "UsageError",
        "the dialect cannot say this",
        "The dialect has no such kind of message.",
        "Use what it has: see its page in the docs.",
    ),
    "X1305": _entry(
        "UsageError",
        "two readers of one stream",
        "Two tasks read from the same stream at the same time.",
        "Read it in one task and hand the events on.",
    ),
    "X1306": _entry(
        "UsageError",
        "a stream was overrun",
        "Its events were not read, its queue was full, and other calls waited behind it.",
        "Read faster, or leave the stream when you have what you need.",
    ),
    "X1307": _entry(
        "UsageError",
        "not a stream",
        "The method does not answer in events in this dialect.",
        "Use call().",
    ),
    "X1308": _entry(
        "UsageError",
        "the dialect cannot do this",
        "The operation does not exist in the extension's dialect.",
        "See the dialect's page for what it can do.",
    ),
    "X1309": _entry(
        "UsageError",
        "no such facet",
        "The attribute is neither of every extension nor of this dialect.",
        "Use one of the facets listed.",
    ),
    "X1310": _entry(
        "UsageError",
        "a command is a list",
        "A command was given as one string; there is no shell that could take it apart.",
        'Write ["python3", "ext.py"].',
    ),
    "X1311": _entry(
        "UsageError",
        "the host is open",
        "A host was opened twice.",
        "Make a second host, or use the one that is open.",
    ),
    "X1312": _entry(
        "UsageError",
        "the name is taken",
        "The host has an extension of this name already.",
        "Unload it first, or choose another name.",
    ),
    "X1313": _entry(
        "UsageError",
        "the host's loop is blocked",
        "A listener or handler on the host's loop did not return.",
        "Keep listeners short; give handlers `async def` and let them wait.",
    ),
    "X1314": _entry(
        "UsageError",
        "a blocking call on the loop",
        "The blocking face was used from the host's own loop, where it could never return.",
        "Use Host there, or call from another thread.",
    ),
    "X1315": _entry(
        "UsageError",
        "the host is not open",
        "The host was used before `with`, or after it.",
        "Use it inside `async with Host… as host`, or `with SyncHost… as host`.",
    ),
    "X1316": _entry(
        "UsageError",
        "the command line was not understood",
        "An option, an argument or its value is not what the verb takes.",
        "`exthost VERB --help` shows what it takes.",
    ),
    "X1317": _entry(
        "UsageError",
        "the host of another process",
        "The program has forked, and the copy used the host that was open before: its extensions "
        "answer to the original alone.",
        "Open a host in the copy, or fork before you open one.",
    ),
    "X1318": _entry(
        "UsageError",
        "not a time limit",
        "A timeout was given that is no number of seconds.",
        "Give a number, or leave it out: the limits of the extension hold then.",
    ),
    "X1319": _entry(
        "UsageError",
        "the host of another loop",
        "A call was made in another event loop, or after `asyncio.run` again, than the host's own.",
        "Open a host in each loop, use SyncHost, or hand it over with run_coroutine_threadsafe.",
    ),
    "X1320": _entry(
        "UsageError",
        "the arguments are no such message",
        "The JSON does not fit the protobuf message of the method: an unknown field, a "
        "wrong type, an unknown enum name.",
        "Use the field that the message names; plugin.proto lists them all.",
    ),
    "X1321": _entry(
        "UsageError",
        "the plugin does not know this method",
        "detect, validate and preflight are sent only to plugins that announce them, "
        "since any bytes would be taken for something else.",
        "If it does know it, say so in its entry: options = { methods = [...] }.",
    ),
    "X1322": _entry(
        "UsageError",
        "a package is missing",
        "What was asked for needs an optional package.",
        "Install it as the help says.",
    ),
    "X1323": _entry(
        "UsageError",
        "the files cannot be written",
        "The system would not let the files of a result be written.",
        "Check the folder's rights and what is in the way.",
    ),
    "X1324": _entry(
        "UsageError",
        "the capability is missing",
        "The extension does not have the capability asked for, or its dialect knows none.",
        "Leave --capability out, or use another extension.",
    ),
    "X1325": _entry(
        "UsageError",
        "no files in results of this dialect",
        "--write was given for an extension whose dialect's results hold no files.",
        "Leave --write out.",
    ),
    "X1326": _entry(
        "UsageError",
        "it comes with another extension",
        "An MCP server that a manifest brings along is there for as long as that extension is.",
        "Enable or disable the extension that brings it, or take it out of the manifest.",
    ),
    "X1327": _entry(
        "UsageError",
        "the config cannot be changed from here",
        "The file cannot be written, or says what was to be changed in a way that is not "
        "understood well enough to be changed without harm. Nothing was written.",
        "Write it by hand: enabled = false in an entry, or the id in the list disabled.",
    ),
    "X1328": _entry(
        "UsageError",
        "a stream without a name",
        "The events of this method name the stream that they belong to; what it is opened with is "
        "no object, or its name is neither text nor a number.",
        "Leave the name out, and it is given one.",
    ),
    "X1340": _entry(
        "UsageError",
        "no such service",
        "The manifest has no service of this type, none of this id, or several to choose from.",
        "Name one of those listed.",
    ),
    "X1341": _entry(
        "UsageError",
        "no error results here",
        "In this dialect a result is never an error, so failures cannot be returned as one.",
        "Use call_tool(), which raises.",
    ),
    "X1350": _entry(
        "UsageError",
        "an answer too large",
        "A query of memory would return more than a message can hold.",
        "Ask for fewer records, by `limit` or by time.",
    ),
    "X1360": _entry(
        "UsageError",
        "no log level for a stateless MCP server",
        "Since 2026-07-28 the level is told with each request, not set once.",
        'Set options = { log_level = "debug" } for it in the config.',
    ),
    "X1365": _entry(
        "UsageError",
        "cannot listen there",
        "The port of `exthost gateway --http` is in use or not allowed, or the address of --host"
        " is none of this machine's.",
        "Choose another port (0 takes a free one) or address.",
    ),
    "X1366": _entry(
        "UsageError",
        "an option for HTTP without HTTP",
        "`exthost gateway` speaks on stdin and stdout unless --http is given; --host and"
        " --token-file mean nothing there.",
        "Add --http PORT, or leave them out.",
    ),
    "X1375": _entry(
        "UsageError",
        "a host runs for this config already",
        "Two hosts of one config would run each extension twice.",
        "Use the one that runs (exthost status), or end it first.",
    ),
    "X1376": _entry(
        "UsageError",
        "the host does not understand the request",
        "What was written to the host's socket is not a request, or is one of another version.",
        "Use the version of exthost that the host runs with.",
    ),
    "X1377": _entry(
        "UsageError",
        "too many clients",
        "So many commands are connected to this host that it takes no more.",
        "Try again when one of them has ended.",
    ),
    "X1379": _entry(
        "UsageError",
        "the output cannot be written",
        "Writing to stdout failed, for example because the disk is full.",
        "Make room, and ask again: what was asked may have been done all the same.",
    ),
    "X1378": _entry(
        "UsageError",
        "the host is ending",
        "It was told to stop and only says how it is; nothing is started any more.",
        "Run it again with exthost run.",
    ),
}
