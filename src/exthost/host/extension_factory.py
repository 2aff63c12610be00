"""Creates extensions from their specs, and connects them with the parts of the host that they use.

The factory also compares an extension with the other extensions of the host. An extension is
refused if an earlier extension already has a name or a resource that only one extension may have,
or if one of the two may write files that the other executes. In a dialect (the protocol that an
extension speaks) whose extensions need unique names, the handshake fails if another extension of
the dialect reports the same name.
"""

from collections.abc import Callable, Iterable, Mapping

from exthost.cluster.engines import Engines
from exthost.dialects import find
from exthost.errors import Refused
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.host.api.host_api import HostApi
from exthost.host.reported_names import ReportedNames
from exthost.launch.prerequisites import find_name_conflict
from exthost.launch.shared_folders import find_conflict
from exthost.process.child import Child
from exthost.session.inbound import Handler
from exthost.spec import Spec
from exthost.trace.traffic import Traffic

__all__ = ["ExtensionFactory"]


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
    traffic         records the messages of the extensions
    engines         start the processes of extensions that run on other machines
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
        traffic: Traffic,
        engines: Engines,
    ) -> None:
        self._bus = bus
        self._handlers = handlers
        self._environ = environ
        self._api = api
        self._shared = shared
        self._on_change = on_change
        self._all_extensions = all_extensions
        self._names = ReportedNames(all_extensions)
        self._traffic = traffic
        self._engines = engines
        # Returns additional handlers for an extension. `handlers` takes precedence over them.
        self.handlers_for: Callable[[Spec], Mapping[str, Handler]] | None = None

    def make(self, spec: Spec, *, replaces: bool = False) -> Extension:
        """Return a new extension, without starting it.

        `replaces` is True if the extension will replace another one. Such an extension publishes no
        events until `take_over` is called.
        """
        dialect = find.find_dialect_of(spec)
        return Extension(
            spec,
            dialect,
            bus=self._bus,
            handlers=self._merge_handlers(spec),
            environ=self._environ,
            on_change=self._on_change,
            find_refusal=lambda: self._find_conflict(spec),
            session_handlers=self._api.handlers_for(spec, dialect),
            check_offer=self._names.check_for(spec, dialect),
            shared=self._shared,
            replaces=replaces,
            traffic=self._traffic,
            spawn=self._engines.spawner(spec) or Child,
        )

    def _merge_handlers(self, spec: Spec) -> Mapping[str, Handler]:
        if self.handlers_for is None:
            return self._handlers
        return {**self.handlers_for(spec), **self._handlers}

    def _find_conflict(self, spec: Spec) -> Refused | None:
        """Return the error if an earlier extension has a name or a resource that only one extension
        may have, or if one of the two may write files that the other executes; otherwise None."""
        earlier, not_refused = [], []
        for extension in self._all_extensions():
            if extension.spec is spec:
                break
            earlier.append(extension.spec)
            if extension.state != "refused":
                not_refused.append(extension.spec)
        return find_name_conflict(spec, not_refused) or find_conflict(spec, earlier, not_refused)
