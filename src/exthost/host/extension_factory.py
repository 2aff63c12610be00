"""Creates extensions from their specs, and connects them with the parts of the host that they use.

The factory also shows each extension the others of the host. An extension is refused if an
earlier extension already has a name or a resource that only one extension may have, and its code
must be out of reach of those that may write files (`launch.shared_folders`). In a dialect (the
protocol that an extension speaks) whose extensions need unique names, the handshake fails if
another extension of the dialect reports the same name.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from exthost.cluster.engines import Engines
from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.errors import HandshakeFailed, Refused
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.extension.lifecycle import State, lists_tools
from exthost.extension.startup import StartChecks
from exthost.extension.tool_interceptor import ToolInterceptor
from exthost.host.api.host_api import HostApi
from exthost.launch.prerequisites import find_name_conflict
from exthost.launch.shared_folders import CodeCache, Neighbours, find_open_code, is_writer
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Spec
from exthost.model.tool_choice import choose_tools
from exthost.process.child import Child
from exthost.session.inbound import Handler
from exthost.session.trace.traffic import Traffic


class NamedExtension(Protocol):
    """The part of an extension that is needed here."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> Spec: ...
    @property
    def state(self) -> State: ...
    @property
    def offer(self) -> Offer: ...
    @property
    def dialect(self) -> Dialect: ...
    @property
    def tools(self) -> Mapping[str, Tool]: ...


class ReportedNames:
    """The names that the extensions of one host report. An extension is refused that reports a name
    which another extension has: its own name, in dialects that route calls by it, or the name of a
    tool, in dialects that register tools unchanged."""

    def __init__(self, all_extensions: Callable[[], Iterable[NamedExtension]]) -> None:
        self._all_extensions = all_extensions
        # The last accepted name of each extension, by its id. A starting extension has its name
        # only here: two that start together would otherwise both be accepted.
        self._accepted: dict[str, str] = {}
        self._accepted_tools: dict[str, frozenset[str]] = {}

    def check_for(self, spec: Spec, dialect: Dialect) -> Callable[[Offer], None] | None:
        """Return the function that accepts the offer of this extension, as its dialect requires;
        None if the dialect requires nothing."""
        if dialect.traits.unique == "name":
            return partial(self.accept, spec)
        if dialect.traits.unique == "tools":
            return partial(self.accept_tools, spec, dialect)
        return None

    def accept_tools(self, spec: Spec, dialect: Dialect, offer: Offer) -> None:
        """Accept the tools of an extension that completes its handshake. Raises HandshakeFailed if
        another extension has registered one of the names. A name stays registered for its extension
        while the extension is not running."""
        chosen = choose_tools(offer.tools, spec.tools).tools
        names = frozenset(dialect.registered_name(spec.id, name) for name in chosen)
        for other in self._all_extensions():
            if other.id == spec.id:
                continue
            is_starting = other.state is State.STARTING
            taken = set(self._accepted_tools.get(other.id, ()) if is_starting else ())
            taken.update(other.dialect.registered_name(other.id, tool) for tool in other.tools)
            if common := sorted(names & taken):
                raise HandshakeFailed(
                    "X0524",
                    f"its tool {common[0]} has the name of a tool of {other.id}",
                    permanent=True,
                    extension=spec.id,
                    help="disable one of the two: tools of this contract keep their names",
                )
        self._accepted_tools[spec.id] = names

    def accept(self, spec: Spec, offer: Offer) -> None:
        """Accept the name of an extension that completes its handshake. Raises HandshakeFailed if
        another extension of its dialect has the same name."""
        for other in self._all_extensions():
            if other.id == spec.id or other.spec.dialect != spec.dialect:
                continue
            if self._name_of(other) == offer.name:
                raise HandshakeFailed(
                    "X0524",
                    f"it calls itself {offer.name}, and so does {other.id}",
                    extension=spec.id,
                    help="disable one of the two: calls are routed by that name",
                )
        self._accepted[spec.id] = offer.name

    def _name_of(self, extension: NamedExtension) -> str | None:
        if extension.state is State.STARTING:
            return self._accepted.get(extension.id)
        return extension.offer.name if lists_tools(extension.state) else None


class ExtensionFactory:
    """Creates the extensions of one host.

    bus             the event bus of the host
    handlers        functions for the requests that extensions send to the host, by method
    environ         the environment variables of the host
    api             the built-in handlers of the host, such as memory and settings
    shared          whether several threads call the extensions
    on_change       called when the offer (tools, hooks, capabilities) or the state of an extension
                    changes
    all_extensions  returns the extensions of the host, in their order
    running_extensions  returns those that may have processes, also ones that were removed
    traffic         records the messages of the extensions
    engines         start the processes of extensions that run on other machines
    interceptor     runs the hooks around tool calls
    """

    def __init__(
        self,
        *,
        bus: Bus,
        handlers: Mapping[str, Handler],
        environ: Mapping[str, str],
        api: HostApi,
        shared: bool,
        on_change: Callable[[], None],
        all_extensions: Callable[[], Iterable[Extension]],
        running_extensions: Callable[[], Iterable[Extension]],
        traffic: Traffic,
        engines: Engines,
        interceptor: ToolInterceptor,
    ) -> None:
        self._bus = bus
        self._handlers = handlers
        self._environ = environ
        self._api = api
        self._shared = shared
        self._on_change = on_change
        self._all_extensions = all_extensions
        self._running_extensions = running_extensions
        self._cache: CodeCache | None = None
        # The extensions whose code a running process may write. The restart of that process closes
        # their code, also if they are no longer in the host because they could not be loaded.
        self._refused_specs: dict[str, Spec] = {}
        self._names = ReportedNames(all_extensions)
        self._traffic = traffic
        self._engines = engines
        self._interceptor = interceptor
        # Remembers the offer of each handshake.
        self.record_offer: Callable[[Spec, Offer], None] | None = None
        # Returns additional handlers for an extension. `handlers` takes precedence over them.
        self._handlers_for: Callable[[Spec], Mapping[str, Handler]] | None = None
        # By id of an extension: its spec and its handlers, which its next processes get, too.
        self._merged_handlers: dict[str, tuple[Spec, dict[str, Handler]]] = {}

    def make(
        self,
        spec: Spec,
        *,
        replaces: bool = False,
        bus: Bus | None = None,
        handlers: Mapping[str, Handler] | None = None,
    ) -> Extension:
        """Return a new extension, without starting it.

        `replaces` is True if the extension will replace another one. Such an extension publishes no
        events until `take_over` is called. `bus` and `handlers` are used in place of those of the
        host.
        """
        dialect = find.find_dialect_of(spec)
        return Extension(
            spec,
            dialect,
            bus=bus or self._bus,
            handlers=self._merge_handlers(spec) if handlers is None else handlers,
            environ=self._environ,
            on_change=self._on_change,
            checks=StartChecks(
                find_refusal=lambda: self._find_name_conflict(spec),
                find_open_code=lambda: self._find_open_code(spec),
                neighbours=lambda: self._find_neighbours(spec),
            ),
            session_handlers=self._api.handlers_for(spec, dialect),
            check_offer=partial(self._check_offer, spec, dialect),
            shared=self._shared,
            replaces=replaces,
            traffic=self._traffic,
            spawn=self._engines.spawner(spec) or Child,
            interceptor=self._interceptor,
        )

    def _check_offer(self, spec: Spec, dialect: Dialect, offer: Offer) -> None:
        """Raise if the offer of a new process conflicts with another extension. Remember the hooks
        that it announces."""
        if (accept := self._names.check_for(spec, dialect)) is not None:
            accept(offer)
        if dialect.announces_hooks:
            self._api.known_hooks.record_offer(spec, offer)
        if self.record_offer is not None:
            self.record_offer(spec, offer)

    def add_handlers(self, handlers_for: Callable[[Spec], Mapping[str, Handler]]) -> None:
        """Use additional handlers, for the extensions that there are as well."""
        self._handlers_for = handlers_for
        for spec, handlers in self._merged_handlers.values():
            for method, handler in handlers_for(spec).items():
                handlers.setdefault(method, handler)

    def _merge_handlers(self, spec: Spec) -> Mapping[str, Handler]:
        more = {} if self._handlers_for is None else self._handlers_for(spec)
        handlers = {**more, **self._handlers}
        self._merged_handlers[spec.id] = (spec, handlers)
        return handlers

    def _find_name_conflict(self, spec: Spec) -> Refused | None:
        """Return the error if an earlier extension has a name or a resource that only one extension
        may have; otherwise None."""
        return find_name_conflict(spec, self._find_neighbours(spec).not_refused)

    def _find_neighbours(self, spec: Spec) -> Neighbours:
        """Return the other extensions of the host, and those that its config lists and that are not
        loaded yet."""
        earlier, not_refused = [], []
        every = {other.id: other for other in spec.neighbours} | self._refused_specs
        is_earlier = True
        for extension in self._all_extensions():
            if extension.spec is spec:
                is_earlier = False
            if is_earlier:
                earlier.append(extension.spec)
                if extension.state != "refused":
                    not_refused.append(extension.spec)
            every[extension.id] = extension.spec
        return Neighbours(earlier, not_refused, tuple(every.values()), self._code_cache())

    def _code_cache(self) -> CodeCache:
        """Return the code of the extensions, as it is while the loop runs nothing else: a host that
        opens checks all its extensions in one step."""
        if self._cache is None:
            self._cache = CodeCache()
            asyncio.get_running_loop().call_soon(self._drop_cache)
        return self._cache

    def _drop_cache(self) -> None:
        self._cache = None

    def _find_open_code(self, spec: Spec) -> Refused | None:
        """Return the error if a running process may write code of this extension; otherwise
        None."""
        running = [
            (extension.spec, closed)
            for extension in self._running_extensions()
            if is_writer(extension.spec)
            for closed in extension.internals.closed_paths
        ]
        refused = find_open_code(spec, running, self._environ) if running else None
        if refused is not None:
            self._refused_specs[spec.id] = spec
        return refused
