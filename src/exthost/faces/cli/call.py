"""Call a tool and print its result as JSON, or with --text as the text that a model reads.

  exthost call NAME [k=v …]                 NAME is a name that `exthost tools` lists
  exthost call TARGET NAME [k=v …]          a tool of TARGET, by its listed or its own name
  exthost call NAME [k=v …] -- COMMAND …    a tool of the extension that COMMAND starts

Write the arguments of the tool as k=v. If v is valid JSON, it is sent as that JSON value, otherwise
as a string; k='"5"' sends the string 5. --args JSON sets all arguments, and --args - reads them
from stdin.
With --method, NAME is a method of the extension's dialect instead of a tool. If the method streams
events, they are printed to stderr as they arrive, and progress is shown as a bar.
If a host with this config is running, it makes the call; --standalone starts a new process instead.
The hooks of the config's extensions judge the call of a tool; --no-hooks skips them, which the
audit records. They do not judge methods (--method), nor an extension after -- or at a path.
If a hook requests that a person confirms the call, you are asked on the terminal, and --yes agrees;
without a terminal the call is refused.
If the result is marked as an error, it is still printed, and the exit code is 1; without
--json, the error is also printed to stderr.
If the result contains files, --write DIR writes them, and never outside of DIR.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.config.discovery.configfile import read_config
from exthost.dialects.base import Dialect
from exthost.dialects.find import find_dialect
from exthost.dialects.streams import ProgressBar
from exthost.errors import CallFailed, ExthostError, NotFound, UsageError, escape_controls
from exthost.extension.extension import Extension
from exthost.extension.lifecycle import State
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    add_launch_options,
    add_sandbox_options,
    add_timeout_option,
    add_trace_option,
    list_names,
    print_error,
    require_config_path,
    say,
    show_json,
    show_text,
)
from exthost.faces.cli.confirm_prompt import choose_prompt
from exthost.faces.cli.dialect_options import (
    add_dialect_options,
    apply_dialect_options,
    parse_value,
)
from exthost.faces.cli.own_sdk import lend_sdk
from exthost.faces.cli.running_host import (
    add_standalone_option,
    is_unlisted_path,
    resume,
    running_host,
    show_event,
)
from exthost.faces.cli.start_note import start_note
from exthost.faces.cli.started_extension import (
    print_events,
    record_traffic,
    start_extension,
    with_start_limit,
)
from exthost.faces.cli.stream_display import StreamDisplay
from exthost.faces.cli.target_specs import find_spec, has_config, refuse_dialect, with_launch_flags
from exthost.faces.cli.verb_loop import run_once
from exthost.host.control.as_data import as_data
from exthost.host.control.call_requests import own_tool_name
from exthost.host.control.client import HostClient
from exthost.host.control.protocol import (
    ControlRequest,
    read_error,
    read_tool_error,
    read_tool_result,
)
from exthost.host.control.questions import read_question
from exthost.host.host import Host
from exthost.model.names import capability_fits
from exthost.model.spec import Spec
from exthost.tool_result import ErrorResult, ToolResult
from exthost.wire import jsontext
from exthost.wire.lines import BOM

# The exit code of the command if the extension returned a result that is marked as an error.
EXIT_ERROR_RESULT = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "exthost call [OPTIONS] [TARGET] NAME [k=v …] [-- COMMAND ARGS…]"
    parser.add_argument("positionals", nargs="+", metavar="NAME", help="see above")
    parser.add_argument("--args", metavar="JSON", help="all arguments as JSON; - reads stdin")
    parser.add_argument(
        "--method", action="store_true", help="NAME is a method of the dialect, sent unchanged"
    )
    parser.add_argument(
        "--capability",
        metavar="NS:VALUE",
        help="call only an extension that has it; * is any value",
    )
    parser.add_argument(
        "--context",
        metavar="K=V",
        action="append",
        default=[],
        help="a value for hooks, events and the dialect, such as agent_id or session_id",
    )
    parser.add_argument(
        "--no-hooks",
        action="store_true",
        help="call the tool without hooks; the audit log records this",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="agree if a hook requests that a person confirms the call",
    )
    add_dialect_options(parser)
    parser.add_argument("--write", metavar="DIR", help="write the files in the result into DIR")
    parser.add_argument(
        "--write-protected",
        metavar="PATH",
        action="append",
        default=[],
        help="with --write: allow PATH, a file that other programs run or obey (.git, .envrc, …)",
    )
    parser.add_argument(
        "--text", action="store_true", help="print the text of the result, as a model reads it"
    )
    add_timeout_option(parser)
    add_launch_options(parser)
    add_config_option(parser)
    add_dialect_option(parser)
    add_sandbox_options(parser)
    add_standalone_option(parser)
    add_trace_option(parser)


def run(args: Args) -> int:
    for argument in args.positionals:
        if argument.startswith("{"):
            raise UsageError(
                "X1316",
                f"{argument!r:.40} is neither a name nor k=v",
                help=f"write the arguments as k=v, or as --args {shlex.quote(argument)}",
            )
    names = [argument for argument in args.positionals if "=" not in argument]
    pairs = [argument for argument in args.positionals if "=" in argument]
    if not names or len(names) > (1 if args.command else 2):
        raise UsageError(
            "X1316",
            f"expected {'NAME' if args.command else '[TARGET] NAME'}, and got {len(names)} words",
            help="arguments are written k=v, or as --args JSON; a command stands after --",
        )
    if args.text and args.method:
        raise UsageError(
            "X1316",
            "--text is for tools, and --method calls a method",
            help="use only one of them",
        )
    arguments = read_arguments(pairs, args.args)
    args.context = _read_context(args)
    target = names[0] if len(names) == 2 else None
    try:
        return _call(args, target, names[-1], arguments)
    except UsageError as error:
        error.help = _suggest_quotes(error.message, pairs) or error.help
        raise
    except NotFound as error:
        # The first of two words may be the tool, and the second one an argument of it.
        if target is not None and not pairs and repr(target) in error.message:
            error.help = f"{error.help}; an argument of a tool is written k=v"
        raise


def _read_context(args: Args) -> dict[str, Any]:
    """Return the context of the call, from the options --context. Raises UsageError."""
    if args.context and args.method:
        raise UsageError(
            "X1316", "--context is for tools, and --method calls a method", help="use only one"
        )
    for pair in args.context:
        if "=" not in pair or pair.startswith("="):
            raise UsageError(
                "X1316", f"--context {pair!r} is not K=V", help="write --context session_id=s1"
            )
    # Values are always strings, even if they look like numbers: agent_id=7 is the agent "7".
    return dict(pair.split("=", 1) for pair in args.context)


def _suggest_quotes(message: str, pairs: Sequence[str]) -> str:
    """If an argument is refused because its value was read as JSON and the tool expects a string,
    return how to write it as a string. Otherwise return ""."""
    for key in (pair.partition("=")[0] for pair in pairs):
        if f'arguments.{key}: the value is not of type "string"' in message:
            return f"the value was read as JSON; to send it as a string, write {key}='\"…\"'"
    return ""


def _call(args: Args, target: str | None, name: str, arguments: Any) -> int:
    """Make the call in the running host if there is one, and otherwise in a new process."""
    # `args.begun` is a request that `quick_call`, a faster start of this command, has already sent
    # to the running host: the search for the tool, or, if `begun.tool` is set, the call itself.
    with running_host(args) if args.begun is None else resume(args.begun) as host:
        if host is not None:
            try:
                return _call_in_running_host(args, host, target, name, arguments)
            except NotFound as error:
                # An extension at a path that the running host does not list is started here.
                if not is_unlisted_path(error, target):
                    raise
    spec = find_spec(args, target)
    if spec is None and args.option:
        raise UsageError(
            "X1316",
            "--option needs a TARGET, or a command after --",
            help="name the extension before the tool, or set `options` in the config",
        )
    if spec is None:
        refuse_dialect(args)  # --dialect is for one extension
        return run_once(_call_tool_of_config(args, None, name, arguments))
    # A direct call starts only this extension, so no hooks of other extensions judge it.
    is_direct = args.method or not _is_in_config(args, spec)
    # The program may import the SDK of exthost without having it installed: it gets the copy that
    # comes with exthost.
    with lend_sdk(spec) as spec_with_sdk:
        call = _call_extension if is_direct else _call_tool_of_config
        return run_once(call(args, spec_with_sdk, name, arguments))


def _is_in_config(args: Args, spec: Spec) -> bool:
    """Return whether the config lists this extension. It does not list a command, or an extension
    at a path, which may have a config of its own."""
    if args.command or not has_config(args):
        return False
    return spec.config_file == str(Path(require_config_path(args)).absolute())


def _call_in_running_host(
    args: Args, host: HostClient, target: str | None, name: str, arguments: Any
) -> int:
    """Let the running host make the call, and print the result. Return the exit code."""
    if args.method and target is None:
        raise _no_target_error()
    begun = args.begun
    if begun is None:
        search = {"tool": name, "capability": args.capability}
        tool = host.ask(ControlRequest("find", target or "", search), on_event=show_event)
    else:
        tool = begun.tool or host.receive_reply(on_event=show_event)
    dialect = find_dialect(tool["dialect"])
    _check_supported(args, tool["extension"], dialect, tool["capabilities"])
    prompt = choose_prompt(args)
    with StreamDisplay(_render_stream_event) as display:

        def show(event: Mapping[str, Any]) -> None:
            if event["kind"] == "stream":
                display.show(event)
            else:
                show_event(event)

        def confirm(event: Mapping[str, Any]) -> bool:
            return prompt is not None and prompt(read_question(event), event["seconds"])

        if begun is not None and begun.tool is not None:  # `quick_call` has sent the call already
            answer = host.receive_reply(on_event=show, confirm=confirm)
        else:
            fields = _call_request_fields(
                args, name, tool, arguments, can_confirm=prompt is not None
            )
            request = ControlRequest("call", tool["extension"], fields)
            answer = host.ask(request, on_event=show, confirm=confirm)
    if "error_reply" in answer:
        raise read_error(answer["error_reply"])
    result = read_tool_result(answer, dialect.result_reader)
    code = _print_result(args, tool["extension"], dialect, result)
    if code == EXIT_ERROR_RESULT and not args.method:
        error = read_tool_error(answer, result, tool["tool"], tool["extension"])
        _print_error_result(args, error)
    return EXIT_ERROR_RESULT if answer.get("is_error") else code


def _call_request_fields(
    args: Args, name: str, tool: Mapping[str, Any], arguments: Any, *, can_confirm: bool
) -> dict[str, Any]:
    """Return the fields of the request to the running host that makes the call. `tool` is the
    host's description of the tool that it has found."""
    fields = {"arguments": arguments, "timeout": args.timeout, "progress": True, "log": True}
    if args.method:
        # "if_any": the host streams the events of the method if it is one that streams.
        return fields | {"method": name, "stream": "if_any"}
    fields |= {"tool": tool["tool"], "context": args.context, "hooks": not args.no_hooks}
    if can_confirm:
        fields["confirm"] = True
    return fields


def _render_stream_event(event: Mapping[str, Any]) -> ProgressBar | str | None:
    """Return an event of a stream as the host has rendered it, for the `StreamDisplay`."""
    rendered = event["shown"]
    return ProgressBar(**rendered) if isinstance(rendered, dict) else rendered


def _no_target_error() -> UsageError:
    return UsageError("X1316", "--method needs a TARGET", help="exthost call TARGET METHOD")


def read_arguments(pairs: Sequence[str], text: str | None) -> Any:
    """Return the arguments of a call: those in `text`, which is JSON, or "-" to read JSON from
    stdin. If `text` is None, return those in the k=v pairs. Raises UsageError."""
    if text is not None:
        if pairs:
            raise UsageError("X1316", "give arguments as k=v or as --args, not both")
        data = sys.stdin.buffer.read() if text == "-" else text.encode(errors="surrogateescape")
        try:
            return jsontext.decode(data.removeprefix(BOM))
        except jsontext.NotJson as error:
            _decode_utf_8(data, "--args")  # raises the more exact error if it is not UTF-8
            raise UsageError(
                "X1316",
                f"--args cannot be used: {error}",
                help="""write it as JSON, and quote it: --args '{"a": 1}'""",
            ) from None
    arguments = {}
    for pair in pairs:
        # Bytes that the locale cannot decode are surrogates here, which no dialect can send.
        key, _, value = _decode_utf_8(os.fsencode(pair), pair.partition("=")[0]).partition("=")
        arguments[key] = parse_value(value)
    return arguments


def _decode_utf_8(data: bytes, name: str) -> str:
    """Return the text of an argument. Raises UsageError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(
            "X1316",
            f"the value of {escape_controls(name)} is not UTF-8 text",
            help="convert it to UTF-8; send binary data as base64, if the tool accepts it",
        ) from None


async def _call_extension(args: Args, spec: Spec, name: str, arguments: Any) -> int:
    """Start this extension, and call its tool or method. Return the exit code."""
    spec = _with_target_options(args, spec)
    error: CallFailed | None = None
    async with start_extension(args, spec) as extension:
        _check_supported(args, extension.id, extension.dialect, extension.offer.capabilities)
        if args.method and name in extension.dialect.streams:
            result = await _call_stream(extension, name, arguments, args.timeout)
        elif args.method:
            result = await extension.call(name, arguments, timeout=args.timeout)
        else:
            tool_name = own_tool_name(extension, name)
            result, error = await _call_tool(args, extension, tool_name, arguments)
        code = _print_result(
            args,
            extension.id,
            extension.dialect,
            ToolResult(result, extension.dialect.result_reader),
        )
    _print_error_result(args, error)
    return code


async def _call_tool(
    args: Args, extension: Extension, name: str, arguments: Any
) -> tuple[Any, CallFailed | None]:
    """Call a tool of a started extension. Return the data of the result, and the error if it is
    marked as an error. The caller prints the error after the extension has ended, because lines
    that it wrote to stderr earlier may still wait to be printed."""
    try:
        result = await extension.call_tool(
            name,
            arguments,
            timeout=args.timeout,
            context=args.context,
            hooks=not args.no_hooks,
        )
    except ErrorResult as error:
        return error.data, error
    return result.raw, None


def _print_error_result(args: Args, error: CallFailed | None) -> None:
    """Print the error of a result that is marked as an error to stderr. With --json nothing is
    printed here, because the printed result itself contains the mark."""
    if error is not None and not args.json:
        sys.stdout.flush()
        print_error(error, wants_json=False)


async def _call_stream(
    extension: Extension, method: str, arguments: Any, timeout: float | None
) -> Any:
    """Call a method that streams, show its events as they arrive, and return its result."""
    with StreamDisplay(extension.dialect.render_event) as display:
        async with extension.stream(method, arguments, timeout=timeout) as events:
            async for event in events:
                display.show(event)
    return events.result


async def _call_tool_of_config(args: Args, target: Spec | None, name: str, arguments: Any) -> int:
    """Start a host with the extensions of the config, find the tool by its name, and call it.
    `target` is the extension that has the tool; None to search for it.

    Extensions start lazily. Only these start: the one that has the tool, those whose tools are
    unknown before the handshake and could have it (see `ToolFinder`), and those whose hooks judge
    the call.
    """
    config = read_config(require_config_path(args))
    if args.method:
        raise _no_target_error()
    if config.discovery is not None:  # one call need not watch for new extensions
        watch = replace(config.discovery.watch, enabled=False)
        config = replace(config, discovery=replace(config.discovery, watch=watch))
    host = Host(config, environ=dict(os.environ), confirm=choose_prompt(args))

    def change(spec: Spec) -> Spec:
        """Apply the options of the command line, and let the extension start lazily."""
        if target is None:
            spec = with_launch_flags(args, spec)
        elif spec.id == target.id:
            spec = _with_target_options(args, target)
        return replace(spec, start="lazy")

    host.change_specs(change)
    print_events(host.events)
    with record_traffic(args, host.traffic):
        return await _find_and_call(args, host, target, name, arguments)


def _with_target_options(args: Args, spec: Spec) -> Spec:
    """Return the extension of the target with the options of the command line."""
    if args.capability:
        # A dialect that has this option fails the handshake of an extension without the capability.
        # Other dialects ignore the option; for them `_check_supported` checks it.
        spec = replace(spec, options={**spec.options, "capability": args.capability})
    return with_start_limit(args, apply_dialect_options(args, spec))


async def _find_and_call(
    args: Args, host: Host, target: Spec | None, name: str, arguments: Any
) -> int:
    """Open the host, find the tool, call it and print its result. Return the exit code."""
    async with host:
        if target is not None:
            extension = host[target.id]
            with start_note(target.id):
                await extension.start()
            tool_name = own_tool_name(extension, name)
        else:
            try:
                with start_note("extensions, to find the tool"):
                    capability = args.capability or ""
                    tool = await host.find_tool(name, capability=capability, ask_all=True)
            except NotFound as not_found:
                failed = [id for id in host if host[id].state == State.FAILED.value]
                if failed:
                    not_found.help = (
                        f"{list_names(failed)} failed to start, and may have it: "
                        f"exthost inspect {shlex.quote(failed[0])} shows why"
                    )
                raise
            extension, tool_name = host[tool.extension], tool.tool
        _check_supported(args, extension.id, extension.dialect, extension.offer.capabilities)
        data, error = await _call_tool(args, extension, tool_name, arguments)
        result = ToolResult(data, extension.dialect.result_reader)
        code = _print_result(args, extension.id, extension.dialect, result)
    _print_error_result(args, error)
    return code


def _check_supported(
    args: Args, extension: str, dialect: Dialect, capabilities: Sequence[str]
) -> None:
    """Raise UsageError if the extension does not have the capability of `--capability`, or if its
    dialect has no files in results and `--write` is set."""
    if args.capability and not any(
        capability_fits(args.capability, capability) for capability in capabilities
    ):
        raise UsageError(
            "X1324",
            f"it does not have the capability {args.capability}",
            extension=extension,
            help=f"it speaks {dialect.name} and has: {', '.join(capabilities) or 'none'}",
        )
    if args.write and dialect.files is None:
        raise UsageError(
            "X1325",
            f"results of the {dialect.name} dialect contain no files to write",
            extension=extension,
            help="remove --write, and use the printed result",
        )


def _print_result(args: Args, extension: str, dialect: Dialect, result: ToolResult) -> int:
    """Print a result, and with `--write` write its files. Return the exit code."""
    files = dialect.files
    if args.write and files is not None:
        from exthost.faces.cli.write_protection import find_protected_paths
        from exthost.host.file_writer import write_files

        try:
            paths = write_files(
                files(result.raw),
                args.write,
                allowed_paths=args.write_protected,
                protected_paths=find_protected_paths(args),
            )
        except ExthostError as error:
            error.extension = extension
            raise
        for path in paths:
            say(f"wrote {path}")
    if args.text:
        show_text(result.text)
    else:
        show_json(as_data(result.raw), pretty=not args.json)
    return EXIT_ERROR_RESULT if result.is_error else 0
