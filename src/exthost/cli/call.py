"""Call a tool and print its result as JSON, or with --text as a model reads it.

  exthost call NAME [k=v …]                 NAME as `exthost tools` shows it
  exthost call TARGET NAME [k=v …]          NAME may be the tool's own
  exthost call NAME [k=v …] -- COMMAND …    the same, for a bare command

Arguments are k=v (v is JSON if it parses, else a string; k='"5"' is a string, too), or --args JSON,
or --args - for stdin.
With --method, NAME is a method of the dialect's own; the events of one that streams are shown on
stderr as they come, progress as a bar.
Where a host of this config runs, it makes the call; --standalone starts a process for it.
A result that is marked as an error is printed like any other; without --json, stderr has the error.
A result that holds files is printed like any other; --write DIR also writes them, inside DIR only.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from exthost.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    add_launch_options,
    add_sandbox_options,
    add_timeout_option,
    add_trace_option,
    print_error,
    say,
    show_json,
    show_text,
)
from exthost.cli.running_host import (
    add_standalone_option,
    is_path_unknown_to_host,
    running_host,
    show_event,
)
from exthost.cli.start_note import start_note
from exthost.cli.started_extension import print_events, record_traffic, start_extension
from exthost.cli.stream_display import StreamDisplay
from exthost.cli.target_specs import find_spec, read_extensions, with_launch_flags
from exthost.cli.verb_loop import run_once
from exthost.control.as_data import as_data
from exthost.control.client import HostClient
from exthost.control.protocol import Request, read_error
from exthost.control.requests import own_tool_name
from exthost.dialects.base import Dialect
from exthost.dialects.find import find_dialect
from exthost.dialects.streams import ProgressBar
from exthost.errors import CallFailed, ExthostError, NotFound, UsageError
from exthost.extension.extension import Extension
from exthost.host.host import Host
from exthost.names import capability_fits
from exthost.spec import Spec
from exthost.tool_result import ToolResult, tool_error
from exthost.wire import jsontext
from exthost.wire.lines import BOM

# The exit code if the extension returned a result that is marked as an error.
ERROR_RESULT = 1

# The error of a result that is marked as an error, in contrast to an error reply.
ERROR_RESULT_CODE = "X0702"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "exthost call [OPTIONS] [TARGET] NAME [k=v …] [-- COMMAND ARGS…]"
    parser.add_argument("words", nargs="+", metavar="NAME", help="see above")
    parser.add_argument("--args", metavar="JSON", help="all arguments as JSON; - reads stdin")
    parser.add_argument(
        "--method", action="store_true", help="NAME is a method of the dialect, sent as it is"
    )
    parser.add_argument(
        "--capability", metavar="NS:VALUE", help="only of an extension that has it; * is any"
    )
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of its dialect, as under `options` in a config; may be repeated",
    )
    parser.add_argument("--write", metavar="DIR", help="write the files in the result into DIR")
    parser.add_argument(
        "--write-protected",
        metavar="PATH",
        action="append",
        default=[],
        help="with --write: PATH may be written, though other programs obey it (.git, .envrc)",
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
    names = [word for word in args.words if "=" not in word]
    pairs = [word for word in args.words if "=" in word]
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
            help="leave one of them out",
        )
    arguments = read_arguments(pairs, args.args)
    target = names[0] if len(names) == 2 else None
    try:
        return _call(args, target, names[-1], arguments)
    except UsageError as error:
        error.help = _hint_at_quotes(error.message, pairs) or error.help
        raise


def _hint_at_quotes(message: str, pairs: Sequence[str]) -> str:
    """Return how to write a text that was read as other JSON, if that is the complaint."""
    for key in (pair.partition("=")[0] for pair in pairs):
        if f'arguments.{key}: the value is not of type "string"' in message:
            return f"what can be read as JSON is: as a string, write {key}='\"…\"', in quotes"
    return ""


def _call(args: Args, target: str | None, name: str, arguments: Any) -> int:
    with running_host(args) as host:
        if host is not None:
            try:
                return _call_in_running_host(args, host, target, name, arguments)
            except NotFound as error:
                if not is_path_unknown_to_host(error, target):
                    raise
    spec = find_spec(args, target)
    if spec is None and args.option:
        raise UsageError(
            "X1316",
            "--option needs a TARGET, or a command after --",
            help="name the extension before the tool, or set `options` in the config",
        )
    if spec is not None:
        return run_once(_call_extension(args, spec, name, arguments))
    return run_once(_call_tool_of_config(args, name, arguments))


def _call_in_running_host(
    args: Args, host: HostClient, target: str | None, name: str, arguments: Any
) -> int:
    """Let the running host make the call, and print the result. Return the exit code."""
    if args.method and target is None:
        raise _no_target_error()
    search = {"tool": name, "capability": args.capability}
    tool = host.ask(Request("find", target or "", search), on_event=show_event)
    dialect = find_dialect(tool["dialect"])
    _check_options(args, tool["extension"], dialect, tool["capabilities"])
    called = {"method": name, "stream": "if_any"} if args.method else {"tool": tool["tool"]}
    call_settings = {"arguments": arguments, "timeout": args.timeout, "progress": True, "log": True}
    with StreamDisplay(_render_stream_event) as display:

        def show(event: Mapping[str, Any]) -> None:
            if event["kind"] == "stream":
                display.show(event)
            else:
                show_event(event)

        answer = host.ask(Request("call", tool["extension"], called | call_settings), on_event=show)
    if "error_reply" in answer:
        raise read_error(answer["error_reply"])
    result = ToolResult(answer["raw"], dialect.result_reader)
    code = _print_result(args, tool["extension"], dialect, result)
    if code == ERROR_RESULT and not args.method:
        _print_failure(args, tool_error(result, tool["tool"], extension=tool["extension"]))
    return ERROR_RESULT if answer.get("is_error") else code


def _render_stream_event(event: Mapping[str, Any]) -> ProgressBar | str | None:
    rendered = event["shown"]
    return ProgressBar(**rendered) if isinstance(rendered, dict) else rendered


def _no_target_error() -> UsageError:
    return UsageError("X1316", "--method needs a TARGET", help="exthost call TARGET METHOD")


def read_arguments(pairs: Sequence[str], text: str | None) -> Any:
    """Return the arguments in k=v pairs, or in JSON text if it is given ("-" reads it from stdin).
    Raises UsageError."""
    if text is not None:
        if pairs:
            raise UsageError("X1316", "give arguments as k=v or as --args, not both")
        data = sys.stdin.buffer.read() if text == "-" else text.encode(errors="surrogateescape")
        try:
            return jsontext.decode(data.removeprefix(BOM))
        except jsontext.NotJson as error:
            raise UsageError(
                "X1316",
                f"--args cannot be used: {error}",
                help="""write it as JSON, and quote it: --args '{"a": 1}'""",
            ) from None
    return {key: _parse_value(value) for key, _, value in (pair.partition("=") for pair in pairs)}


def _parse_value(text: str) -> Any:
    try:
        return jsontext.decode(text.encode())
    except ValueError:  # not JSON, or not even UTF-8: the value is the text itself
        return text


async def _call_extension(args: Args, spec: Spec, name: str, arguments: Any) -> int:
    if args.capability:
        spec = replace(spec, options={**spec.options, "capability": args.capability})
    if args.option:
        dialect_options = read_arguments(
            [word if "=" in word else f"{word}=true" for word in args.option], None
        )
        spec = replace(spec, options={**spec.options, **dialect_options})
    async with start_extension(args, spec) as extension:
        _check_options(args, extension.id, extension.dialect, extension.offer.capabilities)
        if args.method and name in extension.dialect.streams:
            result = await _call_stream(extension, name, arguments, args.timeout)
        elif args.method:
            result = await extension.call(name, arguments, timeout=args.timeout)
        else:
            tool_name = own_tool_name(extension, name)
            return await _call_tool(args, extension, tool_name, arguments)
        return _print_result(
            args,
            extension.id,
            extension.dialect,
            ToolResult(result, extension.dialect.result_reader),
        )


async def _call_tool(args: Args, extension: Extension, name: str, arguments: Any) -> int:
    try:
        result = await extension.call_tool(name, arguments, timeout=args.timeout)
    except CallFailed as error:
        if error.code != ERROR_RESULT_CODE:
            raise
        result = ToolResult(error.data, extension.dialect.result_reader)
        code = _print_result(args, extension.id, extension.dialect, result)
        _print_failure(args, error)
        return code
    return _print_result(args, extension.id, extension.dialect, result)


def _print_failure(args: Args, error: CallFailed) -> None:
    """Print the error of a result that is marked as one to stderr. With --json the printed result
    itself has the mark, so nothing more is printed."""
    if not args.json:
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


async def _call_tool_of_config(args: Args, name: str, arguments: Any) -> int:
    """Find the extension of the config that has this tool, and call the tool. Extensions are
    started only until the tool is found."""
    configured = read_extensions(args)
    if args.method:
        raise _no_target_error()
    host = Host(replace(configured.config, discovery=None, specs=()))
    print_events(host.events)
    with record_traffic(args, host.traffic):
        return await _find_and_call(args, host, configured.specs, name, arguments)


async def _find_and_call(
    args: Args, host: Host, specs: Sequence[Spec], name: str, arguments: Any
) -> int:
    async with host:
        for spec in specs:
            if spec.enabled:
                await host.load(replace(with_launch_flags(args, spec), start="lazy"))
        with start_note("extensions, to find the tool"):
            tool = await host.find_tool(name, capability=args.capability or "", ask_all=True)
        extension = host[tool.extension]
        _check_options(args, extension.id, extension.dialect, extension.offer.capabilities)
        return await _call_tool(args, extension, tool.tool, arguments)


def _check_options(
    args: Args, extension: str, dialect: Dialect, capabilities: Sequence[str]
) -> None:
    """Raise UsageError for an option that this extension or its dialect does not support."""
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
            f"results of the {dialect.name} dialect hold no files to write",
            extension=extension,
            help="leave --write out, and use what is printed",
        )


def _print_result(args: Args, extension: str, dialect: Dialect, result: ToolResult) -> int:
    files = dialect.files
    if args.write and files is not None:
        from exthost.host.file_writer import write_files

        try:
            paths = write_files(files(result.raw), args.write, named=args.write_protected)
        except ExthostError as error:
            error.extension = extension
            raise
        for path in paths:
            say(f"wrote {path}")
    if args.text:
        show_text(result.text)
    else:
        show_json(as_data(result.raw), pretty=not args.json)
    return ERROR_RESULT if result.is_error else 0
