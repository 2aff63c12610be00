"""Lists and calls the tools of any kind of host, for the integrations of agent frameworks.

A call never raises because the tool failed: its failure is a `ToolOutcome` that a model can read.

A source is a host (`Host`, `SyncHost`, `exthost.attach`, `sync_attach`), or a selection of its
tools (`host.tools.select(…)`). From a host, all tools that it has at the moment are used; from a
selection, those with the selected names. This module does not depend on any framework.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar

from exthost.dialects.meanings import OnProgress, Progress
from exthost.errors import ExthostError, NotFound, UsageError
from exthost.host.control.attached_host import AttachedHost
from exthost.host.host import Host
from exthost.host.model_api.media import KINDS, Media, model_text, result_parts
from exthost.host.model_api.model_tools import model_tool
from exthost.host.model_api.registered_tools import RegisteredTools, own_description
from exthost.host.registry import log_once
from exthost.host.sync.sync_attached_host import SyncAttachedHost
from exthost.host.sync.sync_host import SyncHost
from exthost.model.offer import RegisteredTool
from exthost.tool_result import ToolResult
from exthost.wire import jsontext

__all__ = ["CallSettings", "HostTool", "HostTools", "Media", "ToolOutcome", "Source", "framework"]

_log = logging.getLogger("exthost.tools")

_T = TypeVar("_T")

# How much of the error of a framework is logged.
_ERROR_CHARACTERS = 300

BlockingHost: TypeAlias = SyncHost | SyncAttachedHost
AnyHost: TypeAlias = Host | AttachedHost | BlockingHost
Source: TypeAlias = AnyHost | RegisteredTools


@contextmanager
def framework(extra: str) -> Iterator[None]:
    """Translate the ImportError of a framework that is imported in the `with` block. `extra` is the
    extra of exthost that installs the framework."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            "X1800",
            f"this needs a package that is not installed, or is too old: {error}",
            help=f"pip install 'exthost[{extra}]'",
        ) from error


class CallSettings(TypedDict, total=False):
    """The keyword arguments that every integration takes.

    timeout      the time limit of each call in seconds; None for the configured limit
    on_progress  called with the progress that tools report, on the thread of the host's event loop
    prefix       whether descriptions begin with `[ext:ID]`, the id of the extension; by default
                 they do
    """

    timeout: float | None
    on_progress: OnProgress | None
    prefix: bool


class HostTool(NamedTuple):
    """A tool in the form that frameworks need.

    name         its registered name, by which it is called
    description  its description; its own name if it has none
    schema       the JSON Schema of its arguments: of the type "object", with `properties`
    registered   the tool as the host has registered it
    """

    name: str
    description: str
    schema: dict[str, Any]
    registered: RegisteredTool

    def as_mcp(self) -> dict[str, Any]:
        """Return the tool as it is in the result of `tools/list`."""
        return {"name": self.name, "description": self.description, "inputSchema": self.schema}


class ToolOutcome(NamedTuple):
    """The outcome of a call.

    parts     the texts, images, sounds and documents of the result, or the text of an error
    is_error  whether the call failed
    result    the result of the tool; None if there is none, such as after a timeout
    """

    parts: list[str | Media]
    is_error: bool
    result: ToolResult | None = None

    @property
    def text(self) -> str:
        """The texts, without the media."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def marked_text(self) -> str:
        """The text. If the call failed, it begins with "Error: "."""
        return f"Error: {self.text}" if self.is_error else self.text

    @property
    def has_media(self) -> bool:
        return any(isinstance(part, Media) for part in self.parts)

    @property
    def data(self) -> Any:
        """The structured value; None if there is only text, or if the tool failed."""
        return None if self.result is None or self.is_error else self.result.data

    @property
    def value(self) -> Any:
        """The structured value if there is one, otherwise the text."""
        return self.marked_text if self.data is None else self.data

    def as_mcp(self) -> dict[str, Any]:
        """Return the result of `tools/call`."""
        mcp: dict[str, Any] = {"content": list(map(_mcp_block, self.parts))}
        if isinstance(self.data, dict):
            mcp["structuredContent"] = self.data
        return mcp | {"isError": self.is_error}


def _mcp_block(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.kind == "document":
        blob = {"uri": "resource://document", "mimeType": part.media_type, "blob": part.data}
        return {"type": "resource", "resource": blob}
    return {"type": part.kind, "data": part.data, "mimeType": part.media_type}


class HostTools:
    """The tools of a source."""

    def __init__(
        self,
        source: Source,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        prefix: bool = True,
    ) -> None:
        is_selection = isinstance(source, RegisteredTools)
        self._names = frozenset(source) if is_selection else None
        self._timeout = timeout
        self._on_progress = on_progress
        self._prefix = prefix
        self._logged_warnings: set[str] = set()
        host = source.host if isinstance(source, RegisteredTools) else source
        if not isinstance(host, AnyHost):
            raise UsageError(
                "X1801",
                f"this is not a host: {type(host).__name__}",
                help="pass an open Host, SyncHost or attached host, or a selection of host.tools",
            )
        self._host: AnyHost = host

    @property
    def is_blocking(self) -> bool:
        """Whether calls can wait without an event loop."""
        return isinstance(self._host, BlockingHost)

    def listed(self) -> list[HostTool]:
        """Return the tools that can be called now. Raises UsageError if the host is not open: an
        agent would get no tools, without a reason."""
        tools = self._host.tools.values()
        if not tools:
            # Any access raises UsageError if the host is not open, and NotFound if it is.
            with suppress(NotFound):
                self._host["any"]
        return [
            HostTool(
                tool.name,
                (tool.description if self._prefix else own_description(tool)) or tool.tool,
                model_tool("mcp", tool.name, "", tool.input_schema).data["inputSchema"],
                tool,
            )
            for tool in tools
            if self._names is None or tool.name in self._names
        ]

    def converted(self, convert: Callable[[HostTool], _T]) -> list[_T]:
        """Return the tools that can be called now, in the form of a framework, to which `convert`
        converts one tool. A tool that the framework does not accept, for example because of its
        schema, is left out with a warning, so that the agent has the others. If it accepts none,
        its first error is raised."""
        converted: list[_T] = []
        first_error: Exception | None = None
        for tool in self.listed():
            try:
                converted.append(convert(tool))
            except Exception as error:
                first_error = first_error or error
                reason = " ".join(str(error).split())[:_ERROR_CHARACTERS]
                warning = f"{tool.name} is left out: the framework does not accept it: {reason}"
                log_once(_log, self._logged_warnings, warning)
        if first_error is not None and not converted:
            raise first_error
        return converted

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str = "",
        on_progress: OnProgress | None = None,
    ) -> ToolOutcome:
        """Call a tool. If the task is cancelled, the call is cancelled, too. This also works with a
        blocking host, whose event loop runs on another thread."""
        host, options = self._host, self._options(call_id, on_progress)
        try:
            if not isinstance(host, BlockingHost):
                return _outcome(await host.call_tool(name, arguments, **options))
            call = _call_tool(host._target, name, arguments, options)
            future = asyncio.run_coroutine_threadsafe(call, host._loop_thread.loop)
            return _outcome(await asyncio.wrap_future(future))
        except ExthostError as error:
            return ToolOutcome([model_text(error.message)], is_error=True)

    async def call_json(self, name: str, arguments: str, *, call_id: str = "") -> ToolOutcome:
        """Call a tool with arguments as JSON text, as a model wrote it."""
        try:
            decoded = jsontext.decode(arguments.encode("utf-8", "replace")) if arguments else {}
        except jsontext.NotJson as error:
            return ToolOutcome([f"its arguments are not JSON: {error}"], is_error=True)
        return await self.call(name, decoded, call_id=call_id)

    def call_blocking(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a tool from a program without an event loop. Raises UsageError for a host that
        belongs to an event loop."""
        if not isinstance(self._host, BlockingHost):
            raise self.needs_blocking_error()
        try:
            return _outcome(self._host.call_tool(name, arguments, **self._options("", None)))
        except ExthostError as error:
            return ToolOutcome([model_text(error.message)], is_error=True)

    def needs_blocking_error(self) -> UsageError:
        """Return the error for a blocking use of an asynchronous host."""
        return UsageError(
            "X1802",
            f"{type(self._host).__name__} belongs to an event loop, and this call would block it",
            help="use exthost.SyncHost or exthost.sync_attach; or async methods of the framework, "
            "if it has them",
        )

    def _options(self, call_id: str, on_progress: OnProgress | None) -> dict[str, Any]:
        return {
            "timeout": self._timeout,
            "on_progress": _combine(self._on_progress, on_progress),
            "context": {"call_id": call_id} if call_id else {},
            "check": False,
        }


def _combine(first: OnProgress | None, second: OnProgress | None) -> OnProgress | None:
    """Return a callback that calls both callbacks; None if both are None."""
    if first is None or second is None:
        return first or second

    def report(progress: Progress) -> None:
        first(progress)
        second(progress)

    return report


async def _call_tool(
    host: Host | AttachedHost, name: str, arguments: Mapping[str, Any], options: Mapping[str, Any]
) -> ToolResult:
    """Call a tool on the thread of the host, which is not the caller's."""
    return await host.call_tool(name, arguments, **options)


def _outcome(result: ToolResult) -> ToolOutcome:
    return ToolOutcome(result_parts(result, KINDS), result.is_error, result)
