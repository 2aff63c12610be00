"""The host, for programs without an event loop. Thread-safe.

    with exthost.SyncHost.from_config("exthost.toml") as host:
        host.call_tool("ext_weather_forecast", {"city": "Lima"})

`SyncHost` has the methods and parameters of `Host`. Its event loop runs in a separate thread.
Subscribers of `events`, handlers and `on_progress` are called on that thread. A method that is made
by `forward` runs the asynchronous method of that name on the loop, and waits for its result;
`forward_plain` does the same for methods that are not asynchronous.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Self, Unpack

from exthost.config import Config
from exthost.config.discovery.configfile import read_config
from exthost.config.discovery.report import Diagnostic
from exthost.dialects.blocking_methods import forward, forward_plain, parameters_of
from exthost.events import Bus
from exthost.extension.confirmation import Confirm
from exthost.extension.extension import Extension
from exthost.extension.misuse import already_open_error
from exthost.extension.timeouts import require_time_left
from exthost.host.hooks import Hooks
from exthost.host.host import Host
from exthost.host.host_settings import OUTPUT_BYTES, ROUNDS, HostSettings, check_config
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.host.registry import Registry
from exthost.host.sync.blocking_call import call_tool
from exthost.host.sync.loop_thread import LoopThread, not_open_error
from exthost.host.sync.sync_extension import SyncExtension
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.spec import Spec
from exthost.session.inbound import Handler
from exthost.session.trace.buffer import TraceBuffer
from exthost.session.trace.traffic import Traffic
from exthost.tool_result import ToolResult


class SyncHooks:
    """The hooks of a host, with blocking methods; see `Hooks`."""

    def __init__(self, target: Hooks, loop_thread: LoopThread) -> None:
        self._target = target
        self._loop_thread = loop_thread

    run = forward(Hooks.run)
    close = forward(Hooks.close)
    may_be_called = forward_plain(Hooks.may_be_called)

    def extensions_with(self, name: str) -> list[SyncExtension]:
        """Return the extensions that offer the hook `name`, in the order of their calls."""
        extensions = self._loop_thread.run_plain(lambda: self._target.extensions_with(name))
        return [
            SyncExtension(extension, self._loop_thread)
            for extension in extensions
            if isinstance(extension, Extension)
        ]

    @property
    def confirm(self) -> Confirm | None:
        """The function that asks a person, or None."""
        return self._target.confirm


class SyncHost:
    """The host, with blocking methods. Use it with `with`."""

    def __init__(self, config: Config | None = None, **settings: Unpack[HostSettings]) -> None:
        """`settings` are the keyword arguments of `Host`."""
        self._config = check_config(config)
        self._settings = settings
        self._opened_loop_thread: LoopThread | None = None
        self._opening = Lock()  # held by the thread that opens the host
        self._host: Host | None = None
        # The objects that `host[id]` returned, by id: the same object each time.
        self._wrapped: dict[str, SyncExtension] = {}
        # The arguments of `add_handlers`, `change_specs` and `remember_offers`, for the `Host` that
        # is created when this host opens.
        self._handlers_for: Callable[[Spec], Mapping[str, Handler]] | None = None
        self._change_spec: Callable[[Spec], Spec] | None = None
        self._offer_settings: tuple[bool, str | None] | None = None

    @classmethod
    def from_config(
        cls, source: str | Path | Mapping[str, Any], **settings: Unpack[HostSettings]
    ) -> Self:
        """Return a host for this config: the path of a file, or its contents as a dict."""
        return cls(read_config(source), **settings)

    def add_handlers(self, handlers_for: Callable[[Spec], Mapping[str, Handler]]) -> None:
        """Answer additional requests of extensions; see `Host.add_handlers`. Call this before the
        host opens."""
        self._handlers_for = handlers_for

    def remember_offers(self, *, defer_starts: bool = False, path: str | None = None) -> None:
        """Keep what the extensions offer, and list it before they run; see `Host.remember_offers`.
        Call this before the host opens."""
        self._offer_settings = (defer_starts, path)

    def change_specs(self, change: Callable[[Spec], Spec]) -> None:
        """Change the extensions of the config; see `Host.change_specs`. Call this before the host
        opens."""
        self._change_spec = change

    def __repr__(self) -> str:
        if self._opened_loop_thread is None:
            return "<SyncHost, not open>"
        return f"<SyncHost of {len(self._target)} extensions>"

    # -- life --------------------------------------------------------------------------------

    def open(self) -> Self:
        """Open the host, and return it, where a `with` block does not fit. Close it with
        `close`."""
        return self.__enter__()

    def __enter__(self) -> Self:
        if not self._opening.acquire(blocking=False):
            raise already_open_error()
        try:
            return self._open()
        finally:
            self._opening.release()

    def _open(self) -> Self:
        if self._opened_loop_thread is not None:
            raise already_open_error()
        loop_thread = LoopThread()

        async def enter() -> Host:
            host = Host(self._config, shared=True, **self._settings)
            if self._handlers_for is not None:
                host.add_handlers(self._handlers_for)
            if self._change_spec is not None:
                host.change_specs(self._change_spec)
            if self._offer_settings is not None:
                defer_starts, path = self._offer_settings
                host.remember_offers(defer_starts=defer_starts, path=path)
            return await host.__aenter__()

        try:
            host = self._host = loop_thread.run(enter)
        except BaseException:
            loop_thread.close()
            raise
        # If the program drops the host without closing it, the extensions are ended all the same.
        loop_thread.before_drop = host.close
        self._opened_loop_thread = loop_thread
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, *, drain: bool = False) -> None:
        """End every extension, and the thread of the event loop. Closing twice is allowed.

        `drain`: calls in flight first get `limits.stop` seconds of their extension to finish.
        """
        loop_thread = self._opened_loop_thread
        if loop_thread is not None:
            loop_thread.refuse_own_thread()  # before anything is closed
        self._opened_loop_thread = None
        # In a fork of the process, nothing is closed: thread and extensions are the parent's.
        if loop_thread is not None and not loop_thread.is_copy:
            host = self._target
            try:
                loop_thread.run(lambda: host.close(drain=drain))
            finally:
                loop_thread.close()
                self._wrapped.clear()

    kill = forward_plain(Host.kill)

    # -- extensions --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> SyncExtension:
        extension = self._target[name]
        wrapped = self._wrapped.get(name)
        if wrapped is None or wrapped._target is not extension:  # it is new, or was replaced
            wrapped = self._wrapped[name] = SyncExtension(extension, self._loop_thread)
        return wrapped

    def __contains__(self, name: object) -> bool:
        return name in self._target

    def __iter__(self) -> Iterator[str]:
        return iter(self._target)

    def __len__(self) -> int:
        return len(self._target)

    @property
    def extensions(self) -> tuple[SyncExtension, ...]:
        """Every extension, in the order in which they were added."""
        return tuple(self[name] for name in self._target)

    def load(self, entry: Mapping[str, Any] | Spec) -> SyncExtension:
        """Add an extension at run time; see `Host.load`."""
        host = self._target
        return self[self._loop_thread.run(lambda: host.load(entry)).id]

    unload = forward(Host.unload)
    replace = forward(Host.replace)
    reload = forward(Host.reload)
    configure = forward(Host.configure)
    emit = forward_plain(Host.emit)
    flush_events = forward(Host.flush_events)

    # -- tools -------------------------------------------------------------------------------

    @parameters_of(Host.call_tool)
    def call_tool(
        self, name: str, *arguments: Any, timeout: float | None = None, **options: Any
    ) -> ToolResult:
        """Call a tool by any of its names; see `Host.call_tool`. `on_progress` is called on the
        thread of the event loop."""
        host, loop_thread = self._host, self._opened_loop_thread
        if host is None or loop_thread is None:
            raise not_open_error()
        tool = host.registry.get(name)
        if tool is None:
            if timeout is not None:  # an invalid or expired timeout must not start an extension
                require_time_left("", name, timeout)
            tool = loop_thread.run(lambda: host.find_tool(name))
        extension = host[tool.extension]
        return call_tool(extension, loop_thread, tool.tool, *arguments, timeout=timeout, **options)

    run_calls = forward(Host.run_calls)
    find_tool = forward(Host.find_tool)

    def complete(
        self,
        model: str,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] = (),
        rounds: int = ROUNDS,
        max_tool_output: int = OUTPUT_BYTES,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        **options: Any,
    ) -> Any:
        """Return the answer of a model, after running the tools that it requests; see
        `Host.complete`."""
        limits = {"rounds": rounds, "max_tool_output": max_tool_output}
        complete = self._target.complete
        keywords = {"tools": tools, **limits, **options}
        return self._loop_thread.run(lambda: complete(model, messages, context=context, **keywords))

    @property
    def tools(self) -> RegisteredTools:
        """The tools that can be called now, by their registered names."""
        return self._target.tools.of_host(self)

    @property
    def registry(self) -> Registry:
        """The registry, which finds tools by their names."""
        return self._target.registry

    @property
    def hooks(self) -> SyncHooks:
        """The hooks of its extensions."""
        return SyncHooks(self._target.hooks, self._loop_thread)

    # -- facts -------------------------------------------------------------------------------

    @property
    def config(self) -> Config:
        """The config of the host."""
        return self._target.config

    @property
    def events(self) -> Bus:
        """The event bus. Its subscribers are called on the thread of the event loop."""
        return self._target.events

    @property
    def traffic(self) -> Traffic:
        """The messages of the extensions. Subscribers are called on the thread of the event
        loop."""
        return self._target.traffic

    @property
    def trace(self) -> TraceBuffer | None:
        """The last messages of the extensions, if the host was created with `trace=True`."""
        return self._target.trace

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The problems with extensions when the host was opened."""
        return self._target.diagnostics

    # -- used by forwarded methods -------------------------------------------------------------

    @property
    def _target(self) -> Host:
        """The asynchronous host. Only the thread of the event loop may change it."""
        if self._host is None:
            raise not_open_error()
        return self._host

    @property
    def _loop_thread(self) -> LoopThread:
        """The event loop of the host and its thread."""
        if self._opened_loop_thread is None:
            raise not_open_error()
        return self._opened_loop_thread
