"""Call a tool and print its result as JSON, or with --text as a model reads it.

  exthost call NAME [k=v …]                 NAME as `exthost tools` shows it
  exthost call TARGET NAME [k=v …]          NAME may be the tool's own
  exthost call NAME [k=v …] -- COMMAND …    the same, for a bare command

Arguments are k=v (v is JSON if it parses, else a string), or --args JSON, or --args - for stdin.
With --method, NAME is a method of the dialect's own; the events of one that streams are shown on
stderr as they come, progress as a bar.
A result that holds files is printed like any other; --write DIR also writes them, inside DIR only.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from exthost.cli.common import (
    Args,
    config_option,
    dialect_option,
    sandbox_options,
    say,
    show_json,
    show_text,
    timeout_option,
)
from exthost.cli.stream_display import StreamDisplay
from exthost.cli.target import (
    find_spec,
    print_events,
    read_wanted,
    run_once,
    started,
    with_sandbox_flags,
)
from exthost.errors import ExthostError, UsageError
from exthost.extension.extension import Extension
from exthost.host.host import Host
from exthost.model import Spec
from exthost.names import capability_fits
from exthost.tool_result import ToolResult
from exthost.wire import jsontext
from exthost.wire.lines import BOM

ERROR_RESULT = 1


def options(parser: argparse.ArgumentParser) -> None:
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
        "--text", action="store_true", help="print the text of the result, as a model reads it"
    )
    timeout_option(parser)
    config_option(parser)
    dialect_option(parser)
    sandbox_options(parser)


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
    arguments = _arguments(pairs, args.args)
    target = names[0] if len(names) == 2 else None
    spec = find_spec(args, target)
    if spec is None and args.option:
        raise UsageError(
            "X1316",
            "--option needs a TARGET, or a command after --",
            help="name the extension before the tool, or set `options` in the config",
        )
    if spec is not None:
        return run_once(_call_one(args, spec, names[-1], arguments))
    return run_once(_call_any(args, names[-1], arguments))


def _arguments(pairs: Sequence[str], text: str | None) -> Any:
    if text is not None:
        if pairs:
            raise UsageError("X1316", "give arguments as k=v or as --args, not both")
        said = sys.stdin.buffer.read() if text == "-" else text.encode(errors="surrogateescape")
        try:
            return jsontext.decode(said.removeprefix(BOM))
        except jsontext.NotJson as error:
            raise UsageError(
                "X1316",
                f"--args cannot be used: {error}",
                help="""write it as JSON, and quote it: --args '{"a": 1}'""",
            ) from None
    return {key: _value(value) for key, _, value in (pair.partition("=") for pair in pairs)}


def _value(text: str) -> Any:
    try:
        return jsontext.decode(text.encode())
    except ValueError:  # no JSON, or no UTF-8 even
        return text


async def _call_one(args: Args, spec: Spec, name: str, arguments: Any) -> int:
    if args.capability:
        spec = replace(spec, options={**spec.options, "capability": args.capability})
    if args.option:
        given = _arguments([word if "=" in word else f"{word}=true" for word in args.option], None)
        spec = replace(spec, options={**spec.options, **given})
    async with started(args, spec) as extension:
        _check_asked(args, extension)
        if args.method and name in extension.dialect.streams:
            result = await _follow(extension, name, arguments, args.timeout)
        elif args.method:
            result = await extension.call(name, arguments, timeout=args.timeout)
        else:
            own = tool_name(extension, name)
            return await _call_tool(args, extension, own, arguments)
        return _finish(args, extension, ToolResult(result, extension.dialect.result_reader))


async def _call_tool(args: Args, extension: Extension, name: str, arguments: Any) -> int:
    result = await extension.call_tool(name, arguments, timeout=args.timeout, check=False)
    if result.error_reply is not None:
        raise result.error_reply
    return _finish(args, extension, result)


async def _follow(extension: Extension, method: str, arguments: Any, timeout: float | None) -> Any:
    """The result of a method that answers in events, which are shown as they come."""
    with StreamDisplay(extension.dialect.render_event) as display:
        async with extension.stream(method, arguments, timeout=timeout) as events:
            async for event in events:
                display.show(event)
    return events.result


async def _call_any(args: Args, name: str, arguments: Any) -> int:
    """Call a tool of the config, starting no more extensions than it takes to find it."""
    found = read_wanted(args)
    if args.method:
        raise UsageError("X1316", "--method needs a TARGET", help="exthost call TARGET METHOD")
    host = Host(replace(found.config, discovery=None, specs=()))
    print_events(host.events)
    async with host:
        for spec in found.specs:
            if spec.enabled:
                await host.load(replace(with_sandbox_flags(args, spec), start="lazy"))
        tool = await host.find_tool(name, capability=args.capability or "", ask_all=True)
        extension = host[tool.extension]
        _check_asked(args, extension)
        return await _call_tool(args, extension, tool.tool, arguments)


def tool_name(extension: Extension, name: str) -> str:
    """A tool's own name, also when it was given by its registered one."""
    if name in extension.tools:
        return name
    for tool in extension.tools:
        if name in (extension.registered_name(tool), f"{extension.id}:{tool}"):
            return tool
    return name


def _check_asked(args: Args, extension: Extension) -> None:
    """Raise for an option that this extension's dialect has no meaning for, before it is called."""
    offered = extension.offer.capabilities
    if args.capability and not any(capability_fits(args.capability, one) for one in offered):
        raise UsageError(
            "X1324",
            f"it does not have the capability {args.capability}",
            extension=extension.id,
            help=f"it speaks {extension.dialect.name} and has: {', '.join(offered) or 'none'}",
        )
    if args.write and extension.dialect.files is None:
        raise UsageError(
            "X1325",
            f"results of the {extension.dialect.name} dialect hold no files to write",
            extension=extension.id,
            help="leave --write out, and use what is printed",
        )


def _finish(args: Args, extension: Extension, result: ToolResult) -> int:
    files = extension.dialect.files
    if args.write and files is not None:
        from exthost.host.file_writer import write_files

        try:
            paths = write_files(files(result.raw), args.write)
        except ExthostError as error:
            error.extension = extension.id
            raise
        for path in paths:
            say(f"wrote {path}")
    if args.text:
        show_text(result.text)
    else:
        show_json(_as_data(result.raw), pretty=not args.json)
    return ERROR_RESULT if result.is_error else 0


def _as_data(result: Any) -> Any:
    """A result as JSON has it: one that the dialect has a type for, with all that came along."""
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        held = {one.name: getattr(result, one.name) for one in dataclasses.fields(result)}
        more = held.pop("extra", {})
        return {name: _as_data(item) for name, item in {**held, **more}.items()}
    if isinstance(result, Mapping):
        return {str(key): _as_data(item) for key, item in result.items()}
    return [_as_data(item) for item in result] if isinstance(result, list | tuple) else result
