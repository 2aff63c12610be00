"""Lets a program use a host that runs in another process: `exthost.attach()`.

    async with exthost.attach("exthost.toml") as host:
        await host.call_tool("ext_weather_forecast", {"city": "Lima"})

`host` has the methods of `Host`, with the same parameters, results and errors, except `events`,
`load`, `unload`, `complete` and `configure`. Each method sends a request over the control socket of
the host. The attribute `tools`, and the state and health of an extension, have the values of the
last `refresh`; entering the block refreshes them. Leaving the block cancels the calls in flight of
this program. The host and its processes keep running.
"""

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from exthost.dialects.blocking_methods import parameters_of
from exthost.dialects.find import find_dialect
from exthost.dialects.meanings import OnProgress, Progress
from exthost.errors import CallFailed, ExthostError, NotFound, UsageError
from exthost.events import check_callback
from exthost.extension.confirmation import Confirm, check_confirm
from exthost.extension.misuse import (
    AsyncOnly,
    check_context,
    check_name,
    check_timeout,
    require_asyncio,
)
from exthost.extension.stats import Stats
from exthost.host.control.async_client import AsyncHostClient, OnEvent
from exthost.host.control.client import HELLO_SECONDS, NoHost, connect_to_host, unresponsive_error
from exthost.host.control.host_start import ANOTHER_RUNS, start_host
from exthost.host.control.peer_credentials import peer_pid
from exthost.host.control.protocol import read_error, read_tool_error, read_tool_result
from exthost.host.control.questions import QuestionAnswers
from exthost.host.control.served_host import ReloadOutcome
from exthost.host.model_api.model_calls import CallOptions, run_model_calls
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.host.model_api.tool_search import ToolSearch
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.names import nearest
from exthost.model.offer import RegisteredTool
from exthost.model.result_limit import limit_reader
from exthost.tool_result import ResultReader, ToolResult

# The most events of a stream that wait to be read. A stream in the host's own process has the same
# limit.
MAX_EVENTS = 4096


class AttachedStream:
    """An asynchronous iterator over events as data. After the last event, `result` is the result of
    the stream."""

    def __init__(self) -> None:
        self.result: Any = None
        self._events: deque[Mapping[str, Any]] = deque()
        self._arrived = asyncio.Event()
        self._call: asyncio.Task[Any] | None = None
        self._has_overflowed = False

    def start(self, call: Coroutine[Any, Any, Any]) -> None:
        """Run this call, which requests the stream and returns its result, in a task."""
        self._call = asyncio.get_running_loop().create_task(call)
        self._call.add_done_callback(lambda _: self._arrived.set())

    def push(self, event: Mapping[str, Any]) -> None:
        """Add an event that the host sent. Cancel the stream if too many events wait to be read."""
        if event["kind"] != "stream":
            return
        if len(self._events) >= MAX_EVENTS and self._call is not None:
            self._has_overflowed = True
            self._call.cancel()
            return
        self._events.append({"type": event["type"], "data": event["data"]})
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Mapping[str, Any]:
        assert self._call is not None
        while not self._events:
            if self._call.done():
                self._finish(self._call)
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()

    def _finish(self, call: "asyncio.Task[Any]") -> None:
        if self._has_overflowed:
            raise UsageError(
                "X1380",
                f"the stream was given up: {MAX_EVENTS:,} events waited to be read",
                help="read the events of a stream as they come",
            )
        self.result = call.result()["raw"]

    async def close(self) -> None:
        """Close the stream. If it has not ended, it is cancelled."""
        assert self._call is not None
        self._call.cancel()
        try:
            await self._call
        except (asyncio.CancelledError, ExthostError):
            pass  # the iteration has already raised it, or the caller left the block early


# JSON has no infinity: a call without a time limit has this one, of thirty years.
_ENDLESS_SECONDS = 1e9


def _finite_timeout(timeout: float | None) -> float | None:
    """Return the time limit as it is sent to the host. Raises UsageError if it is not a number."""
    if timeout is None or (type(timeout) is float and 0.0 < timeout < _ENDLESS_SECONDS):
        return timeout
    return min(check_timeout(timeout), _ENDLESS_SECONDS)


# How long to try to start a host while another one has the lock of the config or is ending, and the
# pause between two attempts.
START_SECONDS = 20.0
RETRY_SECONDS = 0.1


def _is_host_ending(error: BaseException) -> bool:
    """Return whether a request failed because the host is ending, or has just ended."""
    return isinstance(error, ExthostError) and error.code in ("X1378", "X1075")


def attach(
    config: str | os.PathLike[str] = "exthost.toml",
    *,
    start: bool = False,
    environ: Mapping[str, str] | None = None,
    confirm: Confirm | None = None,
) -> "AttachedHost":
    """Return the running host of this config, for an `async with` block. Entering the block raises
    NotFound if no host of this config is running. With `start`, a host is then started in the
    background; it ends when its last client has been gone for `[gateway] linger`. `environ`
    replaces `os.environ`: it determines the path of the socket, and a new host gets it. `confirm`
    is a plain or an async function, which asks a person if a hook requests that for a call of this
    program, and returns True to agree. It is called in this program, and must return within the
    time limit of the call. Without it, the `confirm` of the host is called, if it has one."""
    return AttachedHost(config, os.environ if environ is None else environ, confirm, start=start)


class AttachedHost(AsyncOnly):
    """The host of a config that runs in another process. Use it with `async with`."""

    def __init__(
        self,
        config: str | os.PathLike[str],
        environ: Mapping[str, str],
        confirm: Confirm | None = None,
        *,
        start: bool = False,
    ) -> None:
        self._may_start = start
        self._path = str(Path(config).absolute())  # for a host that is started
        self._config = str(Path(config))  # as the user wrote it, for errors
        self._environ = environ
        self._confirm = check_confirm(confirm)
        self._client: AsyncHostClient | None = None
        self._tools: Mapping[str, RegisteredTool] = {}
        self._logged_warnings: set[str] = set()  # of the lists that `tools` makes
        self._tool_search = ToolSearch()
        self._rows: dict[str, Mapping[str, Any]] = {}  # the state of each extension, by its id
        self._readers: dict[str, ResultReader] = {}  # by the name of the dialect
        self.pid = 0

    def __repr__(self) -> str:
        return f"<AttachedHost of process {self.pid}, {len(self._rows)} extensions>"

    async def open(self) -> Self:
        """Connect to the host, and return it, where an `async with` block does not fit. Disconnect
        with `close`."""
        return await self.__aenter__()

    async def __aenter__(self) -> Self:
        if self._client is not None:
            raise UsageError("X1311", "this host is open already")
        require_asyncio()
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                await self._connect()
                if self._may_start:
                    await self._wait_until_open()
                await self.refresh()
                return self
            except BaseException as error:
                await self.close()
                if not (self._may_start and _is_host_ending(error)) or time.monotonic() > deadline:
                    raise
            # The host that was found is ending, such as the one of the programs before this one.
            await asyncio.sleep(RETRY_SECONDS)

    async def _connect(self) -> None:
        """Connect, and wait for the reply to `hello`. Raises CallTimeout if the host is hung."""
        pid: int | None = None
        try:
            connected = await self._find_socket()
            pid = peer_pid(connected)
            self._client = AsyncHostClient(connected)
            async with asyncio.timeout(HELLO_SECONDS):
                # With `stay`, the host does not disconnect this client while it is idle.
                self.pid = (await self.ask("hello", params={"stay": True}))["pid"]
        except TimeoutError:
            raise unresponsive_error(HELLO_SECONDS, pid) from None

    async def _wait_until_open(self) -> None:
        """Wait until each extension that starts with the host is ready or has failed."""
        while not (await self.ask("hello"))["opened"]:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(RETRY_SECONDS)

    async def _find_socket(self) -> socket.socket:
        """Return a socket that is connected to the host, which is started if that is allowed."""
        if not self._may_start:
            try:
                return connect_to_host(self._config, self._environ, HELLO_SECONDS)
            except NoHost as error:
                error.help = _no_host_help(self._path)
                raise
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return connect_to_host(self._config, self._environ, HELLO_SECONDS)
            except NotFound as error:
                not_found = error
            code, text = await asyncio.to_thread(start_host, self._path, self._environ)
            # Another process may start a host at this moment, or one may be ending.
            if code not in (0, ANOTHER_RUNS) or time.monotonic() > deadline:
                not_found.message += ", and none could be started"
                stderr = tuple(text.splitlines())
                not_found.evidence = replace(not_found.evidence, stderr=stderr)
                raise not_found
            if code == ANOTHER_RUNS:
                await asyncio.sleep(RETRY_SECONDS)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. The host keeps running. Closing twice is allowed."""
        client, self._client = self._client, None
        if client is not None:
            client.leave()

    def ask(
        self,
        verb: str,
        name: str = "",
        params: Mapping[str, Any] = EMPTY_MAPPING,
        on_event: OnEvent | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Send a request over the control socket, and return the value of its reply."""
        return self._connected().ask(verb, name, params, on_event)

    def _connected(self) -> AsyncHostClient:
        if self._client is None:
            raise UsageError("X1315", "this host is not open", help="use it with `async with`")
        return self._client

    # -- extensions --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> "AttachedExtension":
        check_name(name, "an extension")
        if name in self._rows:
            return AttachedExtension(self, name)
        if not self.pid:  # it was never open, so `_connected` raises
            self._connected()
        nearest_id = nearest(name, self._rows)
        advice = f"the extensions here are: {', '.join(self._rows) or 'none'}"
        raise NotFound(
            "X1205",
            f"there is no extension {name!r}",
            help=f"did you mean {nearest_id!r}?" if nearest_id else advice,
        )

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def extensions(self) -> tuple["AttachedExtension", ...]:
        """Every extension, in the order of the host."""
        return tuple(AttachedExtension(self, name) for name in self._rows)

    async def refresh(self) -> None:
        """Read the extensions, their states and their tools again."""
        await self.status()
        reply = await self.ask("tools")
        self._tools = {tool["name"]: _read_tool(tool) for tool in reply["tools"]}

    async def status(self) -> list[Mapping[str, Any]]:
        """Return the state of each extension, as `exthost status --json` prints it."""
        rows = (await self.ask("status"))["extensions"]
        self._rows = {row["id"]: row for row in rows}
        return list(rows)

    async def reload(self) -> ReloadOutcome:
        """Let the host read its config again, and apply what has changed. No call is lost."""
        reply = await self.ask("reload")
        await self.refresh()
        return ReloadOutcome(
            added=tuple(reply["added"]),
            changed=tuple(reply["changed"]),
            removed=tuple(reply["removed"]),
            failed=tuple(read_error(error) for error in reply["failed"]),
        )

    async def run_verb(self, verb: str, name: str) -> None:
        """Start, stop or restart an extension, and wait until that is done. `verb` is one of
        "start", "stop" and "restart"."""
        row = await self.ask(verb, name)
        await self.refresh()
        # The row in the reply lists only the new processes; see `RequestPerformer`.
        self._rows[name] = row

    def result_reader(self, dialect: str) -> ResultReader:
        """Return the result reader of this dialect (the protocol that an extension speaks)."""
        reader = self._readers.get(dialect)
        if reader is None:
            reader = self._readers[dialect] = find_dialect(dialect).result_reader
        return reader

    def row(self, name: str) -> Mapping[str, Any]:
        """Return the state of an extension at the last refresh. Raises NotFound if the host did not
        have it then."""
        self[name]  # raises NotFound
        return self._rows[name]

    # -- tools -------------------------------------------------------------------------------

    @property
    def tools(self) -> RegisteredTools:
        """The tools that could be called at the last refresh, by their registered names."""
        tools, warnings = self._tools, self._logged_warnings
        return RegisteredTools(tools, warnings, self._tool_search, host=self)

    async def find_tool(
        self, name: str, *, capability: str = "", ask_all: bool = False
    ) -> RegisteredTool:
        """Return the tool of this name, as `Host.find_tool` does."""
        extension, tool_name = await self._locate(name, capability, ask_all=ask_all)
        tool = self._find_known_tool(extension, tool_name)
        if tool is None:  # the host has found it since the last refresh
            await self.refresh()
            tool = self._find_known_tool(extension, tool_name)
        if tool is None:
            raise NotFound("X1201", f"there is no tool {name!r}", help="it was there a moment ago")
        return tool

    def _find_known_tool(self, extension: str, tool_name: str) -> RegisteredTool | None:
        """Return a tool of the last refresh; None if there was no such tool."""
        for tool in self._tools.values():
            if (tool.extension, tool.tool) == (extension, tool_name):
                return tool
        return None

    async def _locate(
        self, name: str, capability: str = "", *, ask_all: bool = False
    ) -> tuple[str, str]:
        """Return the id of a tool's extension, and the tool's own name. The host starts extensions
        if that is needed to find the tool."""
        check_name(name)
        tool = self._tools.get(name)
        if tool is not None and not capability:
            return tool.extension, tool.tool
        params = {"tool": name, "capability": capability, "ask_all": ask_all}
        reply = await self.ask("find", params=params)
        return reply["extension"], reply["tool"]

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        wait: bool = True,
        on_progress: OnProgress | None = None,
        check: bool = True,
        hooks: bool = True,
        confirm: Confirm | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call a tool by its registered name, by `extension:tool`, or by its own name if only one
        extension has such a tool. The parameters are those of `Host.call_tool`; `confirm` asks a
        person instead of the function that was passed to `attach`."""
        try:
            tool = self._tools.get(name)
        except TypeError:  # without a hash it is not a string: `_find_and_call` raises the error
            tool = None
        if tool is None:
            return self._find_and_call(
                name, arguments, timeout, context, wait, on_progress, check, hooks, confirm
            )
        return self.call_own_tool(
            tool.extension,
            tool.tool,
            arguments,
            timeout,
            context,
            wait,
            on_progress,
            check,
            hooks,
            confirm,
        )

    async def _find_and_call(self, name: str, *arguments: Any) -> ToolResult:
        extension, tool = await self._locate(name)
        return await self.call_own_tool(extension, tool, *arguments)

    async def run_calls(
        self,
        response: Any,
        *,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        only: Iterable[str] | None = None,
        confirm: Confirm | None = None,
        media: Collection[str] | None = None,
    ) -> list[Any]:
        """Run the tool calls in a model's response, and return the messages that answer them, as
        `Host.run_calls` does."""
        options = CallOptions(context, timeout, on_progress, only, confirm, media)
        return await run_model_calls(self, response, options)

    async def call_own_tool(
        self,
        extension: str,
        name: str,
        arguments: Any = None,
        timeout: float | None = None,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        wait: bool = True,
        on_progress: OnProgress | None = None,
        check: bool = True,
        hooks: bool = True,
        confirm: Confirm | None = None,
    ) -> ToolResult:
        """Call a tool of an extension by the tool's own name."""
        if type(name) is not str:
            check_name(name)
        # Only parameters that are not the defaults are sent: a host performs a plain call faster.
        params = {"tool": name, "arguments": arguments}
        if timeout is not None:
            params["timeout"] = _finite_timeout(timeout)
        if context:
            params["context"] = dict(check_context(context))
        if not wait:
            params["wait"] = False
        if not hooks:
            params["hooks"] = False
        forward = None
        if on_progress is not None:
            params["progress"] = True
            forward = partial(_forward_progress, check_callback(on_progress, "on_progress"))
        client = self._client or self._connected()
        confirm = self._confirm if confirm is None else check_confirm(confirm)
        if confirm is None:
            pending = client.send("call", extension, params, forward)
            await pending
        else:
            # The host then sends an event for each question of a hook, and waits for the answer.
            params["confirm"] = True
            answers = QuestionAnswers(confirm, client.answer)
            on_event = partial(_handle_event, answers, forward)
            pending = client.send("call", extension, params, on_event)
            try:
                await pending
            finally:
                answers.close()
        reply = pending.value
        if "error_reply" in reply:
            error = read_error(reply["error_reply"])
            # Without `check`, an error of the tool is a result. Other errors are always raised.
            if check or not isinstance(error, CallFailed):
                raise error
            return _with_warnings(ToolResult.from_error_reply(error), reply)
        reader = self._readers.get(reply["dialect"]) or self.result_reader(reply["dialect"])
        result = read_tool_result(reply, limit_reader(reader, reply.get("result_limit")))
        if check and result.is_error:
            raise read_tool_error(reply, result, name, extension)
        return _with_warnings(result, reply) if "warnings" in reply else result


class AttachedExtension:
    """One extension of an attached host. Its attributes have the values of the last refresh."""

    def __init__(self, host: AttachedHost, id: str) -> None:
        self._host = host
        self.id = id

    def __repr__(self) -> str:
        state = self.state if self.id in self._host else "removed"
        return f"<AttachedExtension {self.id!r} {state}>"

    @property
    def state(self) -> str:
        """Its state at the last refresh."""
        return str(self._host.row(self.id)["state"])

    @property
    def health(self) -> str:
        """Its health at the last refresh."""
        return str(self._host.row(self.id)["health"])

    @property
    def stats(self) -> Stats:
        """Its counts, and data about its current process, at the last refresh."""
        return Stats(**self._host.row(self.id)["stats"])

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """Its tools by their own names, at the last refresh."""
        return {tool.tool: tool for tool in self._host.tools.values() if tool.extension == self.id}

    async def call(
        self, method: str, params: Any = None, *, timeout: float | None = None, wait: bool = True
    ) -> Any:
        """Call a method of the dialect, and return its result as data."""
        check_name(method)
        seconds = _finite_timeout(timeout)
        request = {"method": method, "arguments": params, "timeout": seconds, "wait": wait}
        return (await self._host.ask("call", self.id, params=request))["raw"]

    @parameters_of(AttachedHost.call_tool)
    def call_tool(
        self, name: str, *arguments: Any, **options: Any
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call one of its tools by the tool's own name, as `Extension.call_tool` does."""
        return self._host.call_own_tool(self.id, name, *arguments, **options)

    async def notify(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> None:
        """Send a notification, as `Extension.notify` does."""
        check_name(method)
        request = {"method": method, "params": params, "timeout": _finite_timeout(timeout)}
        await self._host.ask("notify", self.id, params=request)

    @asynccontextmanager
    async def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> AsyncIterator[AttachedStream]:
        """Call a method that replies with a stream of events. Each event is data: `{"type": …,
        "data": …}`."""
        check_name(method)
        seconds = _finite_timeout(timeout)
        request = {"method": method, "arguments": params, "timeout": seconds, "stream": True}
        stream = AttachedStream()
        stream.start(self._host.ask("call", self.id, params=request, on_event=stream.push))
        try:
            yield stream
        finally:
            await stream.close()

    async def start(self) -> None:
        """Start the extension and wait until it is ready. Raises the error that prevented the
        start."""
        await self._host.run_verb("start", self.id)

    async def restart(self) -> None:
        """Replace its processes by new ones, as `Extension.restart` does."""
        await self._host.run_verb("restart", self.id)

    async def drain(self) -> None:
        """End the extension after its calls in flight have finished, or after `limits.stop`
        seconds."""
        await self._host.run_verb("stop", self.id)


def _with_warnings(result: ToolResult, reply: Mapping[str, Any]) -> ToolResult:
    """Return the result with the warnings in the reply: hooks that failed."""
    return result.with_warnings(tuple(reply.get("warnings", ())))


def _handle_event(
    answers: QuestionAnswers, forward: OnEvent | None, event: Mapping[str, Any]
) -> None:
    """Handle an event that the host sends during a call: a question for a person, or progress."""
    if event["kind"] == "question":
        answers.start(event)
    elif forward is not None:
        forward(event)


def _forward_progress(on_progress: OnProgress, event: Mapping[str, Any]) -> None:
    if event["kind"] == "progress":
        on_progress(Progress(None, event["progress"], event["total"], event["message"]))


def _read_tool(tool: Mapping[str, Any]) -> RegisteredTool:
    """Return a tool from its description in a reply, as `description` writes it."""
    # `remembered` (the tool is from an earlier run of its extension) is only for display.
    fields = {key: value for key, value in tool.items() if key != "remembered"}
    return RegisteredTool(**{**fields, "capabilities": tuple(tool["capabilities"])})


def _no_host_help(config: str) -> str:
    """Return what a program can do if no host of this config runs."""
    if Path(config).exists():
        return "start one with exthost run, or with attach(…, start=True)"
    return "there is no such file: pass the path of the host's config"
