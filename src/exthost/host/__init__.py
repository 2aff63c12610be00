"""The host: runs the extensions of a config, finds their tools, and calls them with their hooks.

In reading order:

    host                   the public object
    host_settings          the keyword arguments of the host
    extension_set          the extensions by their ids: adds, replaces, removes and ends them
    extension_factory      creates an extension from its spec
    config_reload          loads the extensions that the config lists, and applies its changes
    registry               finds tools by their names
    tool_finder            finds a tool by name, starting extensions if needed
    person                 asks a person: the caller of a call, or else the host's `confirm`
    hook_policy            pure: whether a call is refused when a hook fails
    private_extensions     extensions beside the listed ones, for one client of a gateway
    known_offers           remembers what extensions offered last, to list it before they run
    known_hooks            remembers which hooks extensions had, and makes refused guards of those
                           whose manifests are rejected
    hook_index             pure: which extensions have which hooks
    observer_queues        keeps what observers miss while they start
    hooks                  calls the hooks of extensions, before and after an event
    hooked_call            runs one tool call with its hooks
    ruled_calls            applies the rules of the config to tool calls, and asks a person
    guarded_calls          runs rules and hooks around every tool call of the host
    session_texts          keeps the texts that extensions inject at the start of a session
    tool_loop              runs the tools that a model requests, until it answers without a request
    event_sinks            forwards events to the extensions that subscribe to them
    background             opens and closes the services below, with the host
    manifest_reload        watches manifests and reloads extensions
    audit                  appends a JSON line per call to a file
    extension_logs         writes the log files of extensions
    file_merge             pure: merges the file fragments of a tool result into files
    protected_files        recognises files that other programs run or obey
    file_writer            writes those files into a folder, all or none
    api/                   the requests that extensions may send to the host: memory and settings
    control/               the local socket of a running host, both ends, and `exthost.attach`
    model_api/             the tools in the forms of the APIs of models
    lock_survey            compares the extensions of a config with its lock
    connection             one extension without a config: what `connect` returns
    detection              finds the dialect of a command by trying handshakes
    connect_function       `exthost.connect`
    sync/                  the blocking API: `SyncHost`, `sync_connect`
    event_loop             runs a program on uvloop if it is installed
"""
