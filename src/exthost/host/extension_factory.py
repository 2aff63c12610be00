"""Creates extensions from their specs, and connects them with the parts of the host that they use.

The factory also compares each extension with the others of the host:

- An extension is refused if an earlier one has a name that its dialect allows only once.
- It is refused if another one may write its code (`launch.shared_folders`).
- Some dialects (the protocols that extensions speak) require unique names. Their handshake fails if
  the extension reports a name that another extension has.

A spec is the configuration of one extension. An offer is what the extension announces in its
handshake: its name, tools, hooks and capabilities.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from exthost.errors import HandshakeFailed

if TYPE_CHECKING:
    from exthost.cluster.engines import Engines
    from exthost.dialects.base import Dialect
    from exthost.errors import Refused
    from exthost.events import Bus
    from exthost.extension.extension import Extension
    from exthost.extension.lifecycle import State
    from exthost.extension.tool_interceptor import ToolInterceptor
    from exthost.host.api.host_api import HostApi
    from exthost.launch.shared_folders import CodeCache, Neighbours
    from exthost.model.offer import Offer, Tool
    from exthost.model.spec import Spec
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
    """The names that the extensions of one host report in their handshakes. An extension fails if
    it reports a name that another extension has. In dialects that route calls by the name of the
    extension, this is the extension's own name; in dialects that register tools under unchanged
    names, it is the name of a tool."""

    def __init__(self, all_extensions: Callable[[], Iterable[NamedExtension]]) -> None:
        self._all_extensions = all_extensions
        # The last accepted name of each extension, by its id. While an extension is starting, its
        # name is only here. Without this, two extensions that start together with the same name
        # would both be accepted. `_accepted_tools` is the same for the names of tools.
        self._accepted_names: dict[str, str] = {}
        self._accepted_tools: dict[str, frozenset[str]] = {}

    def check_for(self, spec: Spec, dialect: Dialect) -> Callable[[Offer], None] | None:
        """Return the function that checks the names in the offer of this extension, and raises if
        one of them is taken. Return None if the dialect requires no unique names."""
        if dialect.traits.unique == "name":
            return partial(self.accept_name, spec)
        if dialect.traits.unique == "tools":
            return partial(self.accept_tools, spec, dialect)
        return None

    def accept_tools(self, spec: Spec, dialect: Dialect, offer: Offer) -> None:
        """Accept the tools of an extension that completes its handshake. Raises HandshakeFailed if
        another extension has registered one of the names. A name stays registered for its extension
        while the extension is not running."""
        from exthost.extension.lifecycle import State
        from exthost.model.tool_choice import choose_tools

        chosen = choose_tools(offer.tools, spec.tools).tools
        names = frozenset(dialect.registered_name(spec.id, name) for name in chosen)
        for other in self._all_extensions():
            if other.id == spec.id:
                continue
            taken = {other.dialect.registered_name(other.id, tool) for tool in other.tools}
            if other.state is State.STARTING:  # its new tools are not in `other.tools` yet
                taken |= self._accepted_tools.get(other.id, frozenset())
            if common := sorted(names & taken):
                raise HandshakeFailed(
                    "X0524",
                    f"its tool {common[0]} has the name of a tool of {other.id}",
                    permanent=True,
                    extension=spec.id,
                    help="disable one of the two: tools of this contract keep their names",
                )
        self._accepted_tools[spec.id] = names

    def accept_name(self, spec: Spec, offer: Offer) -> None:
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
        self._accepted_names[spec.id] = offer.name

    def _name_of(self, extension: NamedExtension) -> str | None:
        """Return the name that an extension has taken; None if it has not reported any, or if it
        does not run."""
        from exthost.extension.lifecycle import State, lists_tools

        if extension.state is State.STARTING:
            return self._accepted_names.get(extension.id)
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
    engines         returns what starts the processes of extensions on other machines
    interceptor     runs the rules and hooks around tool calls
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
        engines: Callable[[], Engines],
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
        # The extensions that were refused because a running process may write their code. A process
        # starts without write access to the code of its neighbours, the other extensions of the
        # host. The refused extensions count as neighbours even if the host has removed them, so
        # after a restart the process can no longer write their code.
        self._refused_specs: dict[str, Spec] = {}
        self._names = ReportedNames(all_extensions)
        self._traffic = traffic
        self._engines = engines
        self._interceptor = interceptor
        # Remembers the offer of each handshake.
        self.record_offer: Callable[[Spec, Offer], None] | None = None
        # Returns additional handlers for an extension. `handlers` takes precedence over them.
        self._handlers_for: Callable[[Spec], Mapping[str, Handler]] | None = None
        # By the id of an extension: its spec and its handlers. The extension uses the same dict, so
        # handlers that `add_handlers` puts into it later are used, too.
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
        from exthost.dialects import find
        from exthost.extension.extension import Extension
        from exthost.extension.startup import StartChecks
        from exthost.process.child import Child

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
                find_writable_code=lambda: self._find_writable_code(spec),
                neighbours=lambda: self._find_neighbours(spec),
            ),
            session_handlers=self._api.handlers_for(spec, dialect),
            check_offer=partial(self._check_offer, spec, dialect),
            shared=self._shared,
            replaces=replaces,
            traffic=self._traffic,
            spawn=Child if spec.pool.engine is None else self._engines().spawner(spec) or Child,
            interceptor=self._interceptor,
        )

    def _check_offer(self, spec: Spec, dialect: Dialect, offer: Offer) -> None:
        """Raise if the offer of a new process conflicts with another extension. Remember the offer
        otherwise."""
        if (check_names := self._names.check_for(spec, dialect)) is not None:
            check_names(offer)
        if dialect.announces_hooks:
            self._api.known_hooks.record_offer(spec, offer)
        if self.record_offer is not None:
            self.record_offer(spec, offer)

    def add_handlers(self, handlers_for: Callable[[Spec], Mapping[str, Handler]]) -> None:
        """Use additional handlers, also for the extensions that exist already."""
        self._handlers_for = handlers_for
        for spec, handlers in self._merged_handlers.values():
            for method, handler in handlers_for(spec).items():
                handlers.setdefault(method, handler)

    def _merge_handlers(self, spec: Spec) -> Mapping[str, Handler]:
        """Return the handlers of the host and the additional ones for this extension."""
        more = {} if self._handlers_for is None else self._handlers_for(spec)
        handlers = {**more, **self._handlers}
        self._merged_handlers[spec.id] = (spec, handlers)
        return handlers

    def _find_name_conflict(self, spec: Spec) -> Refused | None:
        """Return the error if an earlier extension has a name that only one extension may have;
        otherwise None."""
        from exthost.launch.prerequisites import find_name_conflict

        return find_name_conflict(spec, self._find_neighbours(spec).not_refused)

    def _find_neighbours(self, spec: Spec) -> Neighbours:
        """Return the other extensions of the host, including those that are not loaded yet.
        `not_refused` of the result has the earlier ones that were not refused."""
        earlier: list[Spec] = []
        not_refused: list[Spec] = []
        # `spec.neighbours` are the extensions that the config lists.
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
        from exthost.launch.shared_folders import Neighbours

        return Neighbours(earlier, not_refused, tuple(every.values()), self._code_cache())

    def _code_cache(self) -> CodeCache:
        """Return a cache of the code of the extensions. It is dropped when control returns to the
        event loop. A host that opens checks all its extensions before that, with one cache."""
        if self._cache is None:
            from exthost.launch.shared_folders import CodeCache

            self._cache = CodeCache()
            asyncio.get_running_loop().call_soon(self._drop_cache)
        return self._cache

    def _drop_cache(self) -> None:
        self._cache = None

    def _find_writable_code(self, spec: Spec) -> Refused | None:
        """Return the error if a running process may write code of this extension; otherwise
        None."""
        from exthost.launch.shared_folders import find_writable_code, is_writer

        running = [
            (extension.spec, protected_paths)
            for extension in self._running_extensions()
            if is_writer(extension.spec)
            for protected_paths in extension.internals.protected_paths
        ]
        refused = find_writable_code(spec, running, self._environ) if running else None
        if refused is not None:
            self._refused_specs[spec.id] = spec
        return refused
