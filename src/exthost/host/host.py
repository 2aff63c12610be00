"""The host: the one object a user must know.

Puts the parts together and does nothing by itself: config and discovery say which extensions are
wanted, each `Extension` keeps its processes, the registry knows what can be called. `async with`
returns when each eager extension is ready or has failed; one that failed never raises there: its
cause is raised by the calls to it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from exthost.config import Config, spec_from_mapping
from exthost.dialects import find
from exthost.dialects.meanings import OnProgress
from exthost.discovery.configfile import completed, read_config, wanted
from exthost.discovery.report import Diagnostic
from exthost.discovery.watch import Watch
from exthost.errors import (
    CallFailed,
    ExthostError,
    HandshakeFailed,
    NotFound,
    Refused,
    UsageError,
)
from exthost.events import Bus, HostEvent, ToolsChanged
from exthost.extension.extension import Extension
from exthost.extension.parallel_start import start_all
from exthost.host.api.host_api import HostApi
from exthost.host.audit import Audit
from exthost.host.event_sinks import EventSinks
from exthost.host.hooks import Confirm, Hooks
from exthost.host.manifest_reload import ManifestReloader
from exthost.host.registry import RegisteredTool, Registry
from exthost.host.tool_loop import ROUNDS, complete_with_tools
from exthost.launch.gate import clash
from exthost.model import EMPTY_MAPPING, Offer, Spec
from exthost.names import nearest, registered_name
from exthost.process import hardening
from exthost.process.ourselves import our_variables
from exthost.session.inbound import Handler
from exthost.tool_result import ToolResult, tool_failed


class HostSettings(TypedDict, total=False):
    """What `Host.from_config` and `SyncHost` take beside the config."""

    handlers: Mapping[str, Handler]
    environ: Mapping[str, str] | None
    confirm: Confirm | None
    harden: bool


class Host:
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
    ) -> None:
        """`confirm` asks a person, where a hook wants that; without it the answer is no.
        `shared`: other threads call its extensions, as the blocking face does. `harden`: no
        other process of this user may read or trace this whole process from now on."""
        if harden:
            hardening.harden()
        self.config = config or Config()
        self.events = Bus()
        self.diagnostics: tuple[Diagnostic, ...] = ()
        self._handlers = handlers
        self._shared = shared
        # One snapshot for all: each child's copy would otherwise hold strings of its own.
        self._environ = our_variables() if environ is None else dict(environ)
        self._extensions: dict[str, Extension] = {}
        self._leaving: dict[asyncio.Task[None], Extension] = {}
        self.registry = Registry(self._tell_tools_changed)
        self.registry.serve(self._extensions.values())
        self.hooks = Hooks(self._extensions.values, confirm)
        self._api = HostApi(self._environ)
        self._audit: Audit | None = None
        self._sinks = EventSinks(self.events)
        self._reloader: ManifestReloader | None = None
        self._open = False

    @classmethod
    def from_config(
        cls, source: str | Path | Mapping[str, Any], **settings: Unpack[HostSettings]
    ) -> Self:
        """A host for this config: the path of a file, or the same as a dict."""
        return cls(read_config(source), **settings)

    def __repr__(self) -> str:
        return f"<Host of {len(self._extensions)} extensions>"

    # -- extensions --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Extension:
        try:
            return self._extensions[name]
        except KeyError:
            raise self._unknown(name) from None

    def __contains__(self, name: object) -> bool:
        return name in self._extensions

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._extensions))

    def __len__(self) -> int:
        return len(self._extensions)

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """Every extension, in the order in which they came."""
        return tuple(self._extensions.values())

    async def load(self, entry: Mapping[str, Any] | Spec) -> Extension:
        """Add an extension at run time: an `[[extensions]]` entry as a dict.

        Returns when it is ready, or at once if it starts at first use. One that does not get
        ready is not kept, and its cause is raised.
        """
        if isinstance(entry, Spec):
            spec = entry
        else:
            name = str(entry.get("name", "")) if isinstance(entry, Mapping) else ""
            spec = spec_from_mapping(entry, defaults=self.config.outer(name))
        if spec.manifest_path is not None:
            spec = await asyncio.to_thread(completed, spec)
        extension = self._add(await self._api.with_stored_settings(spec))
        try:
            if extension.starts_eagerly:
                await extension.start()
        except BaseException:
            await self.unload(spec.id)
            raise
        return extension

    async def unload(self, name: str) -> None:
        """End an extension and forget it; nothing of it is left."""
        extension = self[name]
        del self._extensions[name]
        self.registry.changed()
        await self._sinks.remove(name)
        await extension.close()

    async def replace(self, spec: Spec, before: str = "") -> None:
        """Have this extension instead of the one of its id, or of the id `before`.

        The new one gets ready first; if it does not, its cause is raised and the old one goes on.
        Then it takes the old one's place in one step. The old one answers what it was asked, within
        the limits of those calls, and ends; nobody waits for that but the end of the host.

        Whoever looks on sees one extension: nothing is published of the new one before it takes
        the old one's place, then only what differs, and nothing of the old one afterwards.
        """
        completed = await self._api.with_stored_settings(self.config.apply_overrides(spec))
        new = self._made(completed, replaces=spec.id in self._extensions)
        try:
            new.admit()
            if new.starts_eagerly:
                await new.start()
            elif new.cause is not None:
                raise new.cause
        except BaseException:
            await new.close()
            raise
        old = self._extensions.get(spec.id)
        renamed = self._extensions.pop(before, None) if before != spec.id else None
        self._extensions[spec.id] = new  # a dict keeps the place of a name that it has
        new.take_over(old)
        self.registry.changed()
        for one in (old, renamed):
            if one is not None:
                await self._sinks.remove(one.id)
                self._see_out(one)
        self._add_sink(new)

    def _see_out(self, extension: Extension) -> None:
        """Let it end in its own time."""
        leaving = asyncio.get_running_loop().create_task(extension.close(patience=None))
        self._leaving[leaving] = extension
        leaving.add_done_callback(self._leaving.pop)

    async def _reload(self, spec: Spec, before: str) -> None:
        """`replace`, for what was found on disk: entries of the config go before it."""
        if any(entry.id == spec.id for entry in self.config.specs):
            raise UsageError("X1312", f"{spec.id} is an entry of the config", extension=spec.id)
        await self.replace(spec, before if self._was_found(before) else "")

    async def _forget(self, id: str) -> None:
        """`unload`, for what is no longer to be found on disk."""
        if id in self._extensions and self._was_found(id):
            await self.unload(id)

    def _was_found(self, id: str) -> bool:
        return all(entry.id != id for entry in self.config.specs)

    def emit(
        self,
        kind: str,
        event: Any = None,
        *,
        source: str = "",
        thread_id: str | None = None,
        turn_id: str | None = None,
    ) -> None:
        """Tell what happens in your own program, under a dotted name as `turn.started`: to the
        bus, and to the extensions that are event sinks for such names."""
        self.events.publish(HostEvent(kind, event, source, thread_id, turn_id))

    # -- tools -------------------------------------------------------------------------------

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """What can be called right now: registered name → tool."""
        return self.registry.tools

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
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call a tool by its registered name, `extension:tool`, or its own name if only one has it.
        `on_progress` is told how far it has come, where the extension tells.

        A tool that fails raises CallFailed; `check=False` returns its result instead. A call that
        does not happen (no such tool, no process, no answer in time) raises either way.
        """
        found = self.registry.get(name)
        if found is None:
            return self._find_and_call(name, arguments, timeout, context, wait, on_progress, check)
        calls = self._extensions[found.extension].calls
        return calls.call_tool(found.tool, arguments, timeout, context, wait, on_progress, check)

    async def _find_and_call(
        self,
        name: str,
        arguments: Any,
        timeout: float | None,
        context: Mapping[str, Any],
        wait: bool,
        on_progress: OnProgress | None,
        check: bool,
    ) -> ToolResult:
        found = await self.find_tool(name)
        return await self._extensions[found.extension].call_tool(
            found.tool,
            arguments,
            timeout=timeout,
            context=context,
            wait=wait,
            on_progress=on_progress,
            check=check,
        )

    async def run_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        on_progress: OnProgress | None = None,
        check: bool = True,
    ) -> ToolResult:
        """Call a tool between its hooks: `before_tool_call` may change the arguments or refuse,
        `after_tool_call` may change the result and sees failures, too. `check` is that of
        `call_tool`, for the result that the hooks leave."""
        found = await self.find_tool(name)
        about = {
            "tool_name": found.name,
            "tool": found.tool,
            "extension_id": found.extension,
            "agent_id": context.get("agent_id"),
            "session_id": context.get("session_id"),
        }
        asked = {} if arguments is None else arguments
        before = await self.hooks.run("before_tool_call", {**about, "arguments": asked})
        if before.stopped:
            who = before.aborted_by or before.decided_by
            reason = f": {before.reason}" if before.reason else ""
            raise Refused("X0332", f"{found.name} was stopped by {who}{reason}", extension=who)
        asked = before.event["arguments"]
        about["arguments"] = asked
        try:
            result = await self.call_tool(
                found.name,
                asked,
                timeout=timeout,
                context=context,
                on_progress=on_progress,
                check=False,
            )
            if result.error_reply is not None:
                raise result.error_reply
        except ExthostError as error:
            told = {"code": error.code, "message": error.message}
            await self.hooks.run("after_tool_call", {**about, "error": told})
            if check or not isinstance(error, CallFailed):
                raise
            return ToolResult.from_error_reply(error)
        after = await self.hooks.run("after_tool_call", {**about, "result": result.raw})
        if after.event["result"] is not result.raw:
            result = result.with_raw(after.event["result"])
        if check and result.is_error:
            raise self._tool_failed(result, found)
        return result

    def _tool_failed(self, result: ToolResult, tool: RegisteredTool) -> CallFailed:
        extension = self._extensions.get(tool.extension)
        if extension is None:  # unloaded while a hook looked at the result
            return tool_failed(result, tool.tool, extension=tool.extension)
        return extension.calls.tool_failed(result, tool.tool)

    async def find_tool(
        self, name: str, *, capability: str = "", ask_all: bool = False
    ) -> RegisteredTool:
        """The tool of this name, of an extension with this capability. Starts an extension if
        only its handshake can tell: the one that the name belongs to, or with `ask_all` each."""
        try:
            return self.registry.find(name, capability=capability)
        except NotFound:
            silent = [ext for ext in self.extensions if ext.is_silent]
            named = [ext for ext in silent if _could_be_of(name, ext.id)]
            asked = named or (silent if ask_all else [])
            if not self._open and not self._extensions:
                raise _not_open() from None
            if not asked:
                self._tell_absence(name)
                raise
        outcomes = await asyncio.gather(*(ext.start() for ext in asked), return_exceptions=True)
        try:
            return self.registry.find(name, capability=capability)
        except NotFound:
            for outcome in outcomes:
                if named and isinstance(outcome, ExthostError):
                    raise outcome from None
            self._tell_absence(name)
            raise

    def _tell_absence(self, name: str) -> None:
        """Raise what keeps the extension from serving that this tool is of, if there is one."""
        for extension in self.extensions:
            if not extension.serves and (
                name in extension.tools or _could_be_of(name, extension.id)
            ):
                raise extension.absence(name) from None

    async def complete(
        self,
        model: str,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] = (),
        rounds: int = ROUNDS,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        **options: Any,
    ) -> Any:
        """Have a model answer, `extension:provider:model`, and run the tools that it asks for, by
        `run_tool`, at most `rounds` times. `options` are those of `ext.providers.complete`."""
        extension = self[model.partition(":")[0]]
        if extension.is_silent:
            await extension.start()
        providers = extension.providers

        async def complete(said: list[Any]) -> Any:
            return await providers.complete(model, said, tools=tools, **options)

        async def run(name: str, arguments: Mapping[str, Any]) -> ToolResult:
            return await self.run_tool(name, arguments, context=context, check=False)

        return await complete_with_tools(complete, messages, run, provider=model, rounds=rounds)

    async def configure(self, extension: str, key: str, value: str) -> None:
        """Keep a setting for an extension; its processes that watch it are told."""
        await self._api.configure(extension, key, value)

    # -- life --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._open:
            raise UsageError("X1311", "this host is open already")
        self._open = True
        try:
            if self.config.audit_path is not None:
                self._audit = Audit(self.config.audit_path, self.events)
            watch = await asyncio.to_thread(self._watch)
            found = await asyncio.to_thread(wanted, self.config)
            specs = [
                await self._api.with_stored_settings(one) for one in found.specs if one.enabled
            ]
            eager = [self._add(spec) for spec in specs]
            await start_all(ext.start for ext in eager if ext.starts_eagerly)
            self.diagnostics = (*found.diagnostics, *map(_not_started, filter(_cause, eager)))
            if watch is not None:
                reload = self.config.discovery is not None and self.config.discovery.watch.reload
                replace = self._reload if reload else None
                self._reloader = ManifestReloader(watch, self.events, replace, self._forget)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, *, drain: bool = False) -> None:
        """End every extension, all at the same time. Closing twice is fine.

        `drain`: calls under way are given `limits.stop` of their extension to end before.
        """
        await self._sinks.close()
        if self._reloader is not None:
            await self._reloader.close()
            self._reloader = None
        extensions = [*self._extensions.values(), *self._leaving.values()]
        closing = [ext.drain() if drain else ext.close() for ext in extensions]
        await asyncio.gather(*closing, return_exceptions=True)
        self._extensions.clear()
        self.registry.changed()
        await self._api.close()
        if self._audit is not None:
            self._audit.close()
            self._audit = None
        self._open = False

    def kill(self) -> None:
        """End every process at once, without a word; `close` then returns soon."""
        for extension in (*self.extensions, *self._leaving.values()):
            extension.kill()

    def _add(self, spec: Spec) -> Extension:
        if spec.id in self._extensions:
            raise UsageError(
                "X1312",
                f"there is an extension {spec.id!r} already",
                extension=spec.id,
                help="unload it first, or load the new one under another name",
            )
        extension = self._made(spec)
        self._extensions[spec.id] = extension
        self.registry.changed()
        self._add_sink(extension)
        extension.admit()
        return extension

    def _add_sink(self, extension: Extension) -> None:
        """Before anything is told of it: its own admission wakes no other."""
        make = extension.dialect.event_sink
        sink = make(extension.spec) if make is not None else None
        if sink is not None:
            self._sinks.add(extension, sink)

    def _made(self, spec: Spec, *, replaces: bool = False) -> Extension:
        dialect = find.find_dialect(spec.dialect)
        return Extension(
            spec,
            dialect,
            bus=self.events,
            handlers=self._handlers,
            environ=self._environ,
            on_change=self.registry.changed,
            objection=lambda: self._objection(spec),
            attend=self._api.handlers_for(spec, dialect),
            vet=self._own_names(spec) if dialect.traits.unique_name else None,
            shared=self._shared,
            replaces=replaces,
        )

    def _tell_tools_changed(self) -> None:
        if ToolsChanged in self.events.kinds:
            self.events.publish(ToolsChanged())

    def _watch(self) -> Watch | None:
        discovery = self.config.discovery
        if discovery is None or not (discovery.enabled and discovery.watch.enabled):
            return None
        return Watch(discovery, find.manifest_formats(), self.config.folder or ".")

    def _objection(self, spec: Spec) -> Refused | None:
        """Whether an extension that came before has what only one may have."""
        before = []
        for extension in self._extensions.values():
            if extension.spec is spec:
                break
            if extension.state != "refused":
                before.append(extension.spec)
        return clash(spec, before)

    def _own_names(self, spec: Spec) -> Callable[[Offer], None]:
        """A check that nobody else of its dialect calls itself the same: the first one stays."""

        def vet(offer: Offer) -> None:
            for other in self.extensions:
                same = other.spec.dialect == spec.dialect and other.offer.name == offer.name
                if same and other.serves and other.id != spec.id:
                    raise HandshakeFailed(
                        "X0524",
                        f"it calls itself {offer.name}, and so does {other.id}",
                        extension=spec.id,
                        help="disable one of the two: calls are routed by that name",
                    )

        return vet

    def _unknown(self, name: str) -> ExthostError:
        if not self._open and not self._extensions:
            return _not_open()
        near = nearest(name, self._extensions)
        there = ", ".join(list(self._extensions)[:10]) or "none"
        help = f"did you mean {near!r}?" if near else f"the extensions here are: {there}"
        return NotFound("X1205", f"there is no extension {name!r}", help=help)


def _could_be_of(name: str, extension: str) -> bool:
    """Whether a tool's name, in any spelling, could belong to this extension."""
    extension_part, colon, _ = name.partition(":")
    if colon:
        return extension_part == extension
    return name.startswith(registered_name(extension, ""))


def _not_open() -> UsageError:
    return UsageError("X1315", "this host is not open", help="use it with `async with`")


def _cause(extension: Extension) -> ExthostError | None:
    return extension.cause


def _not_started(extension: Extension) -> Diagnostic:
    """What a person should know of one that was wanted and is not there."""
    cause = extension.cause
    assert cause is not None
    return Diagnostic(
        level="warning" if isinstance(cause, Refused) else "error",
        path=extension.spec.origin,
        message=f"{extension.id}: {cause.message}",
        code=cause.code,
        help=cause.help,
        extension=extension.id,
    )
