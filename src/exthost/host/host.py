"""The host: the public object that runs extensions and calls their tools.

    async with exthost.Host.from_config("exthost.toml") as host:
        result = await host.call_tool("ext_weather_forecast", {"city": "Lima"})

It puts the parts together. Config and discovery list the extensions, each `Extension` supervises
its processes, and the registry finds the extension of a tool. `async with` returns when each eager
extension (one that starts with the host) is ready or has failed. A failed extension does not raise
there; calls to it raise the error. Modules that only some hosts need are imported in the functions
that use them, so that the other hosts start faster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from exthost.config.host_config import NO_CONFIG
from exthost.errors import Refused, UsageError
from exthost.events import Bus, HostEvent, OfferChanged, ToolsChanged
from exthost.extension.confirmation import check_confirm
from exthost.extension.misuse import AsyncOnly, check_context, check_name, wrong_type_error
from exthost.host.api.host_api import HostApi
from exthost.host.background import BackgroundServices
from exthost.host.config_reload import ConfigReloader
from exthost.host.event_sinks import EventSinks
from exthost.host.extension_factory import ExtensionFactory
from exthost.host.extension_set import ExtensionSet
from exthost.host.guarded_calls import GuardedCalls
from exthost.host.hooks import Hooks
from exthost.host.host_settings import OUTPUT_BYTES, ROUNDS, check_config
from exthost.host.registry import Registry
from exthost.host.ruled_calls import RuledCalls
from exthost.host.tool_finder import ToolFinder
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.process.own_process import host_environ
from exthost.session.trace.traffic import Traffic

if TYPE_CHECKING:
    from exthost.cluster.engines import Engines
    from exthost.config import Config
    from exthost.config.discovery.configfile import (
        ConfiguredExtensions,
    )
    from exthost.config.discovery.report import Diagnostic
    from exthost.dialects.meanings import OnProgress
    from exthost.errors import ExthostError
    from exthost.extension.confirmation import Confirm
    from exthost.extension.extension import Extension
    from exthost.host.background import TraceTarget
    from exthost.host.control.served_host import ReloadOutcome
    from exthost.host.host_settings import HostSettings
    from exthost.host.known_offers import KnownOffers
    from exthost.host.model_api.registered_tools import RegisteredTools
    from exthost.host.model_api.tool_search import ToolSearch
    from exthost.model.offer import RegisteredTool
    from exthost.model.spec import Spec
    from exthost.session.inbound import Handler
    from exthost.session.trace.buffer import TraceBuffer
    from exthost.tool_result import ToolResult


_log = logging.getLogger("exthost.host")


class Host(AsyncOnly):
    """Extensions by name, and their tools. Use it with `async with`."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        handlers: Mapping[str, Handler] = EMPTY_MAPPING,
        environ: Mapping[str, str] | None = None,
        confirm: Confirm | None = None,
        shared: bool = False,
        harden: bool = False,
        control: bool | str | Path = False,
        trace: TraceTarget = False,
        strict: bool = False,
    ) -> None:
        """Create a host, which `async with` opens.

        handlers  functions that answer requests of the extensions, by method
        environ   the environment of the host; None is `os.environ`
        confirm   a plain or an async function, which asks a person if a rule or a hook requests
                  that and returns True to agree; without it the answer is no
        shared    whether other threads call the extensions, as the blocking API does
        harden    from now on no other process of this user may read or trace this process
        control   open the socket for `exthost status`, `exthost call` and `exthost.attach`, which
                  is identified by the path of the config (True) or by this path
        trace     send every message of the extensions to this file or function; True keeps the
                  last of them in `host.trace`
        strict    opening the host raises the error of the first extension that does not get ready
        """
        if harden:
            from exthost.process import host_protection

            host_protection.harden()
        self.config = check_config(config)
        self.events = Bus()
        self.traffic = Traffic(self.events)
        self.diagnostics: tuple[Diagnostic, ...] = ()
        # One copy is made here and used by all extensions, to save memory.
        environ = host_environ() if environ is None else dict(environ)
        self._environ = environ
        self._known_offers: KnownOffers | None = None
        self._api = HostApi(environ)
        self._sinks = EventSinks(self.events)
        self.registry = Registry(self._on_extensions_changed)
        self._extensions = ExtensionSet(self.registry, self._sinks)
        # An alias, because every call uses it and this saves an attribute look-up.
        self._by_id = self._extensions.by_id
        self.hooks = Hooks(
            self._by_id.values,
            confirm,
            policy=self.config.hooks,
            required=self.config.required_guards,
            bus=self.events,
        )
        self.rules = RuledCalls(self.config.rules, check_confirm(confirm), self.events)
        # Every tool call of an extension passes through this: the rules of the config judge the
        # call, then the hooks run before and after it.
        self._guarded_calls = GuardedCalls(self.hooks, self.rules, self.events)
        self._factory = ExtensionFactory(
            bus=self.events,
            handlers=handlers,
            environ=environ,
            api=self._api,
            shared=shared,
            on_change=self.registry.mark_stale,
            all_extensions=self._by_id.values,
            # Removed and replaced extensions are `leaving` until their last process has ended.
            running_extensions=lambda: (*self._extensions, *self._extensions.leaving),
            traffic=self.traffic,
            engines=lambda: self._engines,
            interceptor=self._guarded_calls,
        )
        self._config_reloader = ConfigReloader(self._extensions, self._factory, self._api)
        self._tool_search: ToolSearch | None = None
        self._finder = ToolFinder(self.registry, self._extensions)
        self._is_strict = strict
        self._has_lock = False  # whether there is a lock of the config, or was one
        self._change_spec: Callable[[Spec], Spec] | None = None
        self._services = BackgroundServices(
            self.config,
            self.events,
            self.traffic,
            replace=self.replace,
            unload=self.unload,
            update_guards=self._update_guards,
            control=control,
            trace=trace,
        )

    @cached_property
    def _engines(self) -> Engines:
        """What starts the processes of extensions on other machines. It is created when the first
        extension needs it."""
        from exthost.cluster.engines import Engines

        return Engines(self.config.cluster)

    @classmethod
    def from_config(
        cls, source: str | Path | Mapping[str, Any], **settings: Unpack[HostSettings]
    ) -> Self:
        """Return a host for a config. `source` is the path of the config, or its contents as a
        dict. Raises ConfigError."""
        from exthost.config.discovery.configfile import read_config

        return cls(read_config(source), **settings)

    def __repr__(self) -> str:
        return f"<Host of {len(self._by_id)} extensions>"

    def add_handlers(self, handlers_for: Callable[[Spec], Mapping[str, Handler]]) -> None:
        """Answer additional requests of the extensions. `handlers_for` gets the spec of an
        extension and returns its additional handlers, by method. If this is called again, the
        existing extensions keep the handlers that they have, and get those for other methods. The
        capabilities of a handler are declared in handshakes, so only to processes that start
        later."""
        self._factory.add_handlers(handlers_for)

    def change_specs(self, change: Callable[[Spec], Spec]) -> None:
        """Change the extensions that the config lists or discovers: `change` gets each spec and
        returns the spec that is used instead. Call this before the host opens. `change` is called
        again for the specs that a reload reads."""
        self._change_spec = change

    def remember_offers(self, *, defer_starts: bool = False, path: str | None = None) -> None:
        """Keep what the extensions offer (such as their tools) in the state folder, and list it
        before they run (see `known_offers`). With `defer_starts`, extensions whose offers are known
        start at their first call, unless the config says otherwise. Call this before the host
        opens.

        Offers are kept by the path of a config: `path`, or else the config file of the host. If
        there is neither, this does nothing."""
        path = path or (self.config.origin if self.config.folder is not None else None)
        if path is None:
            return
        from exthost.host.known_offers import KnownOffers

        self._known_offers = KnownOffers(path, self._environ, defers_starts=defer_starts)
        # The factory records the offer of each handshake. The subscription records later changes.
        self._factory.record_offer = self._known_offers.record
        self.events.subscribe(OfferChanged, self._on_offer_changed)

    def _on_offer_changed(self, event: OfferChanged) -> None:
        extension = self._by_id.get(event.extension)
        if extension is not None and self._known_offers is not None and extension.state == "ready":
            self._known_offers.record(extension.spec, extension.offer)

    # -- extensions --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Extension:
        try:
            return self._by_id[name]
        except (KeyError, TypeError):  # unknown, or a list or another value without a hash
            raise self._extensions.not_found_error(name) from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_id

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._by_id))

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def trace(self) -> TraceBuffer | None:
        """The last messages of the extensions, if the host was created with `trace=True`."""
        return self._services.buffer

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """Every extension, in the order in which they were added."""
        return tuple(self._extensions)

    async def load(self, entry: Mapping[str, Any] | Spec) -> Extension:
        """Add an extension at run time: an `[[extensions]]` entry as a dict.

        Return when it is ready, or at once if it starts at first use. If it does not get ready, it
        is removed, and the error is raised. `exthost.lock` does not apply: the program that calls
        this decides what it trusts. A Spec is used as it is, without `[overrides]`.
        """
        self._extensions.require_open()
        from exthost.model.spec import Spec

        if isinstance(entry, Spec):
            spec = entry
        else:
            name = str(entry.get("name", "")) if isinstance(entry, Mapping) else ""
            from exthost.config import spec_from_mapping

            # Settings that the entry does not have come from [overrides] and [defaults].
            spec = spec_from_mapping(entry, defaults=self.config.outer_settings(name))
        if spec.manifest_path is not None:
            from exthost.config.discovery.configfile import read_named_manifest

            spec = await asyncio.to_thread(read_named_manifest, spec)
        complete_spec = await self._api.with_stored_settings(self._with_host_files(spec))
        extension = self._extensions.add(complete_spec, self._factory)
        try:
            if extension.internals.starts_eagerly:
                await extension.start()
        except BaseException:
            # Another caller may have removed it, or replaced it, while it started.
            if self._by_id.get(spec.id) is extension:
                await self.unload(spec.id)
            raise
        return extension

    async def unload(self, name: str) -> None:
        """End an extension at once and remove it. Its calls in flight fail. Raises NotFound."""
        await self._extensions.remove(name)

    async def replace(self, spec: Spec, before: str = "") -> None:
        """Replace the extension with the id of this spec. If the extension was renamed, `before` is
        its old id.

        The new extension is started first. If it does not get ready, its error is raised and the
        old one stays. Otherwise new calls go to the new one. The old one finishes its calls in
        flight and ends in the background; only closing the host waits for that.

        Subscribers of events see a single extension. When the new one replaces the old one, the
        events about the old one end. Those about the new one begin with what differs between the
        two.
        """
        self._extensions.require_open()
        overridden = self._with_host_files(self.config.apply_overrides(spec))
        from exthost.config.discovery.locked_specs import lock_specs

        # `exthost.lock` records the approved code and permissions of each extension. The spec gets
        # its record, or a refusal if there is none.
        [locked], _ = await asyncio.to_thread(lock_specs, self.config, [overridden])
        complete_spec = await self._api.with_stored_settings(locked)
        await self._extensions.replace(complete_spec, before, self._factory)
        # The watch of manifests calls this with a manifest that was accepted. Should a later
        # manifest be rejected, these are the last known hooks of the extension.
        await self._api.known_hooks.record([complete_spec])

    def _with_host_files(self, spec: Spec) -> Spec:
        """Return the spec with the paths of the host's config and audit, which a sandbox protects
        from the extension. Secrets with relative paths are beside the config."""
        return replace(
            spec,
            config_file=self.config.origin or spec.config_file,
            audit_file=self.config.audit_path or spec.audit_file,
        )

    async def reload(self, source: str | Path | Mapping[str, Any] | None = None) -> ReloadOutcome:
        """Read the config again, or read `source` instead. Added extensions start, changed ones are
        replaced, removed ones end after their calls in flight. An invalid config only raises.
        Concurrent reloads run one after the other, and after the host has opened. So a handler that
        an extension waits for when it starts must not wait for a reload."""
        self._extensions.require_open()
        if source is None and self.config.folder is None:
            raise UsageError("X1382", "this host has no config file to read again")
        async with self._extensions.lock:
            self._extensions.require_not_closing()  # it may have been closed while this waited
            return await self._apply(self.config.origin if source is None else source)

    async def _apply(self, source: str | Path | Mapping[str, Any]) -> ReloadOutcome:
        """Read a config and apply it. Raises UsageError if the host is closed meanwhile."""
        from exthost.config.discovery.configfile import read_config

        # Everything that can find the config invalid comes first, so that an error changes nothing.
        # The new watch begins before the manifests are read, so that it misses no change.
        config = await asyncio.to_thread(read_config, source)
        watch = await self._services.make_watch(config)
        from exthost.config.discovery.configfile import find_extensions
        from exthost.config.discovery.locked_specs import keep_enforced

        # A lock (`exthost.lock`) that this host enforces stays in force, even if its file has been
        # deleted.
        has_same_folder = config.folder == self.config.folder
        if has_same_folder and self._has_lock and self.config.trust.lock == "enforce":
            config = keep_enforced(config)
        discovered = await asyncio.to_thread(find_extensions, config)
        self._has_lock = discovered.has_lock or (self._has_lock and has_same_folder)
        if discovered.has_lock:  # a lock that is new is enforced from now on, too
            config = keep_enforced(config)
        self._extensions.require_not_closing()
        self._services.apply(config)
        await self._services.stop_watch()
        self.config = config
        self.hooks.policy = config.hooks
        self.hooks.required = config.required_guards
        self.rules.replace(config.rules)
        self._guarded_calls.mark_stale()
        try:
            specs, guards = await self._prepare_specs(discovered)
            outcome = await self._config_reloader.reload(specs, guards, discovered.rejected)
        finally:
            if not self._extensions.is_closing:
                self._services.start_watch(watch, config)
        self._extensions.require_not_closing()
        return outcome

    def emit(
        self,
        kind: str,
        event: Any = None,
        *,
        source: str = "",
        context: Mapping[str, Any] = EMPTY_MAPPING,
    ) -> None:
        """Publish an event of your own program under a dotted name (`kind`) such as
        `turn.started`: on the bus, and to the extensions that subscribe to such names (event
        sinks). A dialect may pass on parts of `context`, as it does for calls."""
        for argument, value in (("kind", kind), ("source", source)):
            if not isinstance(value, str):
                raise wrong_type_error(argument, "a text", value)
        self.events.publish(HostEvent(kind, event, source, check_context(context)))

    async def flush_events(self) -> None:
        """Wait until the events published so far are sent to the event sinks, or dropped."""
        await self._sinks.flush()

    # -- tools -------------------------------------------------------------------------------

    @property
    def tools(self) -> RegisteredTools:
        """The tools that can be called now, by their registered names."""
        from exthost.host.model_api.registered_tools import RegisteredTools

        if self._tool_search is None:
            from exthost.host.model_api.tool_search import ToolSearch

            self._tool_search = ToolSearch()
        registry, search = self.registry, self._tool_search
        return RegisteredTools(registry.tools, registry.logged_warnings, search, host=self)

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
        """Call a tool by its registered name, `extension:tool`, or its own name if only one has it.
        `timeout` is in seconds; None is the configured limit. `context` has values for hooks,
        events and the dialect. With `wait` False, a call that no process can take at once raises.
        `on_progress` is called with the progress that the extension reports.

        The rules of the config judge the call first, and may deny it (Refused). Then the hooks of
        the extensions run: `before_tool_call` may change the arguments or stop the call (Refused),
        and `after_tool_call` may change the result, also a result that is marked as an error. It is
        called for other failures, too, but cannot change them. Hooks have their own time limits.
        With `hooks=False` no rule and no hook is used, which the audit records. `confirm` asks a
        person if a rule or a hook requests that, instead of the `confirm` of the host.

        A tool that fails raises CallFailed; with `check=False` its result is returned instead. If
        the tool did not run to its end (no such tool, no process, timeout), the error is raised in
        both cases.
        """
        # Most calls take the short way through this function, which is not `async` to save the cost
        # of one more coroutine. `fresh_owners` has the extension of each registered name; it is
        # empty after a change until the next search for a tool.
        try:
            owner = self.registry.fresh_owners.get(name)
        except TypeError:  # without a hash it is not a string: `_find_and_call` raises the error
            owner = None
        if owner is None:
            return self._find_and_call(
                name, arguments, timeout, context, wait, on_progress, check, hooks, confirm
            )
        extension, tool = owner
        calls = self._by_id[extension].internals.calls
        return calls.call_tool(
            tool, arguments, timeout, context, wait, on_progress, check, hooks, confirm
        )

    async def _find_and_call(
        self, name: str, arguments: Any, timeout: float | None, *options: Any
    ) -> ToolResult:
        """Find the tool, starting extensions if needed, and call it. The parameters are those of
        `call_tool`."""
        if timeout is not None:  # an invalid or expired timeout must not start an extension
            from exthost.extension.timeouts import require_time_left

            require_time_left("", name, timeout)
        tool = await self._finder.find(name)
        calls = self._by_id[tool.extension].internals.calls
        return await calls.call_tool(tool.tool, arguments, timeout, *options)

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
        """Run the tool calls in a model's response, and return the messages that answer them.

        `response` is a response of OpenAI (chat completions or Responses), Anthropic or Gemini; the
        message or content of such a response; or the list of all chunks of a stream. Dictionaries
        and the objects of the APIs' packages are accepted. Raises UsageError for anything else. The
        answers have the form of the API, in the order of the calls. For a response without calls
        the list is empty.

        The calls run concurrently, each as by `call_tool`. A call that fails does not raise; its
        answer has the error. The id that the model gave a call is `call_id` in the context of the
        call, and `id` in the progress that `on_progress` is called with. `timeout` is the limit of
        each call, in seconds.

        only     the names that the model is allowed to call, or patterns of them, as in
                 `host.tools.select`; None is all
        confirm  a plain or an async function that is asked before each call, and by the hooks that
                 request it; any answer but True means no
        media    what the model accepts besides text: any of "image", "audio" and "document". None
                 is what most models of the API accept. Other media are replaced by a note.
        """
        from exthost.host.model_api.model_calls import CallOptions, run_model_calls

        options = CallOptions(context, timeout, on_progress, only, confirm, media)
        return await run_model_calls(self, response, options)

    async def find_tool(
        self, name: str, *, capability: str = "", ask_all: bool = False
    ) -> RegisteredTool:
        """Return the tool of this name, of an extension with this capability ("" for any). Raises
        NotFound.

        Extensions whose tools are not known yet are started if needed: the one that the name
        belongs to, or with `ask_all` each of them.
        """
        return await self._finder.find(name, capability, ask_all)

    async def complete(
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
        """Return the answer of a model, after running the tools that it requests.

        The name of a model begins with its extension and a colon. Tools run by `call_tool`, in at
        most `rounds` rounds, and the model gets at most `max_tool_output` bytes of each result.
        `options` go to the `ModelProvider` of the extension (a facet: the part of its interface
        that only some dialects, or protocols, have).
        """
        check_name(model, "a model")
        extension = self[model.partition(":")[0]]
        if extension.internals.is_offer_unknown:
            await extension.start()
        from exthost.dialects.model_provider import ModelProvider
        from exthost.host.tool_loop import complete_with_tools

        provider = extension.facet(ModelProvider)
        complete = partial(provider.complete, model, tools=tools, **options)
        run = partial(self.call_tool, context=context, check=False)
        return await complete_with_tools(
            complete, messages, run, provider=model, rounds=rounds, output_bytes=max_tool_output
        )

    async def configure(self, extension: str, key: str, value: str) -> None:
        """Store a setting of an extension, and notify its processes that subscribed to it."""
        await self._api.configure(self[extension].id, key, value)

    # -- life --------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Open the host, and return it, where an `async with` block does not fit. Close it with
        `close`."""
        return await self.__aenter__()

    async def __aenter__(self) -> Self:
        if self._extensions.is_open:
            raise UsageError("X1311", "this host is open already")
        self._extensions.open()
        try:
            async with self._extensions.lock:
                await self._services.open(self, self.config)
                if self.config is not NO_CONFIG:
                    await self._start_configured()
                self._extensions.require_not_closing()  # it may have been closed meanwhile
        except BaseException:
            await self.close()
            raise
        return self

    async def _start_configured(self) -> None:
        """Add the extensions of the config, and start those that start with the host."""
        from exthost.config.discovery.configfile import find_extensions
        from exthost.config.discovery.locked_specs import keep_enforced

        watch = await self._services.make_watch(self.config)
        discovered = await asyncio.to_thread(find_extensions, self.config)
        # If there is a lock (`exthost.lock`), it is enforced from now on, even if it is deleted.
        self._has_lock = discovered.has_lock
        if discovered.has_lock:
            self.config = keep_enforced(self.config)
        specs, guards = await self._prepare_specs(discovered)
        added = await self._config_reloader.open(specs, guards)
        self._extensions.require_not_closing()
        self.diagnostics = (*discovered.diagnostics, *start_diagnostics(added))
        if not discovered.specs and (searched := discovered.report.searched):
            _log.warning("no extensions were found in %s", ", ".join(searched))
        if self._is_strict:
            raise_first_problem(discovered.diagnostics, added)
        self._services.start_watch(watch, self.config)

    async def _prepare_specs(
        self, discovered: ConfiguredExtensions
    ) -> tuple[list[Spec], list[Spec]]:
        """Return the extensions of the config, with what earlier hosts have recorded about them,
        and the refused guards.

        A guard is an extension that judges tool calls. If its manifest was rejected, it is added as
        a refused extension, so that the calls which it would judge are refused (`known_hooks`)."""
        specs: Sequence[Spec] = discovered.specs
        if self._change_spec is not None:
            specs = [self._change_spec(spec) for spec in specs]
        if self._known_offers is not None:
            specs = await asyncio.to_thread(self._known_offers.recall, specs)
        return await self._api.known_hooks.recall(specs, discovered.rejected, self.config)

    async def _update_guards(self) -> None:
        """Look for refused guards again, and leave all other extensions as they are. The watch of
        manifests calls this after each change of a manifest."""
        from exthost.config.discovery.configfile import find_extensions

        async with self._extensions.lock:
            discovered = await asyncio.to_thread(find_extensions, self.config)
            _, guards = await self._prepare_specs(discovered)
            await self._config_reloader.update_guards(guards)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, *, drain: bool = False) -> None:
        """End every extension, all at the same time. Closing twice is allowed. An open or a reload
        in progress fails.

        `drain`: calls in flight first get `limits.stop` seconds of their extension to finish.
        """
        self._extensions.check_loop(may_be_closed=True)
        self._extensions.is_closing = True  # from now on an open or a reload in progress fails
        # First, close the services that could start an extension or send it a message: the control
        # socket, the event sinks, the hooks that observe, and the watcher of manifests.
        await self._services.close_control_socket()
        await self._sinks.close()
        await self.hooks.close()
        await self._services.stop_watch()
        await self._extensions.close(drain=drain)
        # Then close the services that the extensions use until they end.
        if "_engines" in vars(self):  # the cached property was used
            await self._engines.close()
        await self._api.close()
        # The audit and the trace come last, so that they record the ends of the extensions.
        self._services.close()
        self._extensions.is_open = False  # from now on the host can be opened again

    def kill(self) -> None:
        """Kill every process of the extensions now. `close` then returns soon."""
        self._extensions.kill()

    def _on_extensions_changed(self) -> None:
        """The registry calls this when the offer or the state of an extension has changed, or when
        an extension was added, replaced or removed."""
        self._guarded_calls.mark_stale()
        if ToolsChanged in self.events.listeners:
            self.events.publish(ToolsChanged())


def start_diagnostics(extensions: Iterable[Extension]) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each of these extensions that failed to start or was refused."""
    return tuple(
        _make_diagnostic(extension, extension.cause)
        for extension in extensions
        if extension.cause is not None
    )


def raise_first_problem(diagnostics: Iterable[Diagnostic], extensions: Iterable[Extension]) -> None:
    """Raise the first error among the diagnostics of discovery. If there is none, raise the error
    of the first extension that failed to start or was refused, if any."""
    for diagnostic in diagnostics:
        if diagnostic.level == "error":
            raise diagnostic.as_error()
    for extension in extensions:
        if extension.cause is not None:
            from exthost.session.failures import copy_error

            # The extension keeps its error; raising a copy keeps this traceback out of it.
            raise copy_error(extension.cause)


def _make_diagnostic(extension: Extension, cause: ExthostError) -> Diagnostic:
    from exthost.config.discovery.report import Diagnostic

    return Diagnostic(
        level="warning" if isinstance(cause, Refused) else "error",
        path=extension.spec.origin,
        message=f"{extension.id}: {cause.message}",
        code=cause.code,
        help=cause.help,
        extension=extension.id,
    )
