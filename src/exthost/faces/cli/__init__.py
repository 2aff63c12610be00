"""The command line: data goes to stdout, messages to stderr, and the exit code is the outcome.

A verb is the first argument, such as `call` in `exthost call`. Each verb is a module of its name
(`verbs.py` lists them) with the same two functions: `add_options(parser)` and `run(args) -> int`,
which returns the exit code. The docstring of the module is the verb's help. Only the module of the
verb that is run is imported. `exthost --help` imports none of them, because asyncio alone takes
longer to import than everything that the help needs. What verbs share, in reading order:

    verbs, common        the table of verbs; common options, output, printed errors
    verb_runner          parses the arguments of a verb and runs it; errors as exit codes
    target_specs         finds the extensions that the arguments name; starts nothing
    started_extension    starts one extension: dialect detection, log, trace
    start_note           a message on the terminal if the start takes long
    verb_loop            runs the coroutine of a verb
    dialect_options      --option, an option of the dialect of one extension
    running_host         connects to the running host of the config, for verbs that can use it
    unapplied_settings   settings that were edited in the config, and that the running host lacks
    write_protection     what the config runs, which `call --write` must not overwrite
    extension_summary    describes an extension without starting it
    diagnostic_lines     prints the diagnostics of manifests and configs
    excerpt              the line of a config or manifest that has a mistake
    event_lines          events of a host as lines of text; traffic_lines: records of a trace
    quick_call           `call`: a plain call in the running host, with few imports
    confirm_prompt       `call`: asks the person at the terminal if a hook requests that
    stream_display       the events of a stream on stderr, as they arrive
    log_handler          prints the warnings that the host logs
    nonblocking_writer   writes to stdout and stderr without blocking the event loop
    colour               colours text for a terminal; key_reader: reads single keys from it
    text_width           the columns that a text takes on a terminal
    source_watch         `dev`: finds the source files that have changed
    own_sdk              `inspect`, `check`, `dev`, `pack`: lends a program the SDK of exthost
    optional_import      imports modules that need packages of an optional extra
    config_edit          `add`, `remove`, `mcp import`; toggle_verbs: `enable`, `disable`;
                         config_lock: one edit at a time
    terminal_question    asks a question at the terminal
    security_findings    `doctor --security`: what is weak in a config
    first_use            asks about new extensions; says how the lock applies
    lock_edit            `lock`, `approve`, `verify`: writes the lock, and shows what changed
    doctor_fix           `doctor --fix`: installs an AppArmor profile for bubblewrap
    known_policy         `add`, `mcp`: proposes the permissions of servers that exthost knows
    learn_run            `learn`: one run of an extension with some calls, and how they ended
    package_folders      `install`, `uninstall`; folder_copy: copies a folder that is not trusted
    python_command       the command that runs exthost in another process
    control_verbs        `start`, `stop`, `restart`
    chosen_names         the names that such a verb is given, or --all
    client_host          the process of a host that was started in the background for its clients
    client_service       the MCP clients that have joined a host, and how long it stays
    host_process         `run`, `up`, `gateway`: one host with its services (background_service,
                         mcp_service, web_service, otel_export; their options are in http_options)
    process_gateway      the gateway of such a process; who answers the requests of MCP servers
    displays, live_table the output of `run`; live_controls: the keys of its table
    top_layout           the table of `run` and `top`; top_rates, table_selection, terminal
    server_files         MCP servers in the files of other programs; server_import: which of them
                         are imported, and how
    package_sources      `add --from`: the entry of a package; package_inputs: the values that it
                         needs; bundle_files: unpacks an MCP bundle that is not trusted
    client_configs       `gateway install`: the config files of MCP clients
    placeholder_warnings `${NAME}` in commands, for `validate` and `doctor`
    verb_table           the verbs as data, for `completion` and `man`
"""

import io
import os
import sys

from exthost._version import __version__
from exthost.faces.cli.verbs import COMMON_VERBS, INTERRUPTED, USAGE, VERB_GROUPS, VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def main(arguments: list[str] | None = None) -> int:
    """Run the command line with these arguments (default: those of the process). Return the exit
    code."""
    try:
        _open_closed_streams()
        _escape_unencodable_text()
        code = _main(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:  # while something was still being imported
        return INTERRUPTED
    except OSError as error:
        if error.filename is not None:  # not an error of writing to stdout
            raise
        from exthost.faces.cli.verb_runner import report_write_error

        return report_write_error(error)


def _main(arguments: list[str]) -> int:
    """Print the help or the version, or run a verb. Return the exit code.

    `gateway` and `call` first try to do their work through the running host of the config, with few
    imports. Only if they cannot, the module of the verb is imported and its arguments are parsed.
    """
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [arguments[1], "--help"]
    if arguments == ["help"]:
        sys.stdout.write(_short_help())
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(_help())
        return 0 if arguments else USAGE
    if arguments[0] in ("-V", "--version"):
        sys.stdout.write(f"exthost {__version__}\n")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if os.name == "nt":  # before the modules that need Unix are imported
        sys.stderr.write("error: exthost does not run on Windows: install and run it in WSL2\n")
        return USAGE
    # First, and for every verb: an extension could read the memory of a verb that asks its host.
    from exthost.process.host_protection import harden

    harden()
    if verb == "_host":  # `host.control.host_start.HOST_VERB`, which is not imported here
        from exthost.faces.cli.client_host import main as run_client_host

        return run_client_host(rest)
    if verb == "gateway":
        # Without the parser of arguments, which takes longer to import than the relay to start.
        from exthost.faces.relay.command import read_plain_options, run_relay

        options = read_plain_options(rest)
        if options is not None:
            code = run_relay(*options)
            if code is not None:
                return code
            rest = [*rest, "--own"]
    begun = None
    if verb == "call":  # for the same reason
        from exthost.faces.cli.quick_call import start_call

        # An exit code if the call was made; otherwise a call to continue with, or None.
        outcome = start_call(rest)
        if isinstance(outcome, int):
            return outcome
        begun = outcome
    from exthost.faces.cli.verb_runner import report_unknown_verb, run_verb

    return run_verb(verb, rest, begun) if verb in VERBS else report_unknown_verb(verb, rest)


def _open_closed_streams() -> None:
    """Open /dev/null as each of stdin, stdout and stderr that is closed. Otherwise a pipe to an
    extension could get its file descriptor, and a print would be sent to the extension."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # `open` takes the lowest free file descriptor. That is `number`, because those below it
            # are open by now.
            file = open(os.devnull, "r" if number == 0 else "w", encoding="utf-8")  # noqa: PTH123, SIM115
            setattr(sys, name, file)


def _escape_unencodable_text() -> None:
    """Make stdout write characters that its encoding lacks as escapes, as stderr does. Otherwise
    they would raise UnicodeEncodeError."""
    # A stdout with another error handler can write them; one that a caller of `main` has put in
    # place can be of another type.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _short_help() -> str:
    return (
        "usage: exthost VERB [OPTIONS] [-- COMMAND ARGS…]\n\n"
        "exthost runs extensions as child processes, and calls their tools.\n\n"
        f"{_verb_lines(COMMON_VERBS)}\n\n"
        f"  exthost --help          all {len(VERBS)} verbs\n"
        "  exthost VERB --help     the options of a verb\n"
    )


def _verb_lines(verbs: "Iterable[str]") -> str:
    width = max(map(len, VERBS))
    return "\n".join(f"  {verb:<{width}}  {VERBS[verb]}" for verb in verbs)


def _help() -> str:
    verbs = "\n\n".join(f"{name}:\n{_verb_lines(group)}" for name, group in VERB_GROUPS.items())
    return (
        "usage: exthost VERB [OPTIONS] [-- COMMAND ARGS…]\n\n"
        "Run extensions as child processes, and call their tools. An extension is a program that\n"
        "speaks MCP or another supported protocol (dialect).\n\n"
        f"{verbs}\n\n"
        "  exthost VERB --help     the options of a verb\n"
        "  exthost --version\n\n"
        "examples:\n"
        "  exthost inspect --dialect morphir -- python3 ext.py\n"
        "  exthost call shout text=hello --dialect morphir -- python3 ext.py\n"
        "  exthost call ext_weather_forecast city=Lima --config exthost.toml\n"
    )
