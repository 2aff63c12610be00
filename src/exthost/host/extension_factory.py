"""Makes extensions from their specs, with everything that a host gives them.

Also holds the rules that need to know the other extensions: whether one that came before has
something that only one may have, whether one may write what another one runs, and whether another
one of the same dialect has the same name.
"""

from collections.abc import Callable, Iterable, Mapping

from exthost.cluster.engines import Engines
from exthost.dialects import find
from exthost.errors import HandshakeFailed, Refused
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.host.api.host_api import HostApi
from exthost.launch.prerequisites import find_name_conflict
from exthost.launch.shared_folders import find_conflict
from exthost.offer import Offer
from exthost.process.child import Child
from exthost.session.inbound import Handler
from exthost.spec import Spec
from exthost.trace.traffic import Traffic

__all__ = ["ExtensionFactory"]


class ExtensionFactory:
    """Makes the extensions of one host.

    `shared`: other threads call them. `on_change` is called when one offers something else, or has
    another state. `others` returns the extensions of the host.
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
        others: Callable[[], Iterable[Extension]],
        traffic: Traffic,
        engines: Engines,
    ) -> None:
        self._bus = bus
        self._handlers = handlers
        self._environ = environ
        self._api = api
        self._shared = shared
        self._on_change = on_change
        self._others = others
        self._traffic = traffic
        self._engines = engines
        # Returns further handlers for the extension of a spec; those of the host go first.
        self.handlers_for: Callable[[Spec], Mapping[str, Handler]] | None = None

    def make(self, spec: Spec, *, replaces: bool = False) -> Extension:
        """Return a new extension; nothing is started. `replaces`: it publishes nothing before
        `take_over`."""
        dialect = find.find_dialect(spec.dialect)
        return Extension(
            spec,
            dialect,
            bus=self._bus,
            handlers=self._handlers_of(spec),
            environ=self._environ,
            on_change=self._on_change,
            objection=lambda: self._find_clash(spec),
            attend=self._api.handlers_for(spec, dialect),
            vet=self._check_own_name(spec) if dialect.traits.unique_name else None,
            shared=self._shared,
            replaces=replaces,
            traffic=self._traffic,
            spawn=self._engines.spawner(spec) or Child,
        )

    def _handlers_of(self, spec: Spec) -> Mapping[str, Handler]:
        if self.handlers_for is None:
            return self._handlers
        return {**self.handlers_for(spec), **self._handlers}

    def _find_clash(self, spec: Spec) -> Refused | None:
        """Return the error if an extension that came before has what only one may have, or if one
        of the two may write what the other runs."""
        earlier = []
        for extension in self._others():
            if extension.spec is spec:
                break
            if extension.state != "refused":
                earlier.append(extension.spec)
        return find_name_conflict(spec, earlier) or find_conflict(spec, earlier)

    def _check_own_name(self, spec: Spec) -> Callable[[Offer], None]:
        """Return a check that no other extension of the dialect has the same name for itself."""

        def check(offer: Offer) -> None:
            for other in self._others():
                same = other.spec.dialect == spec.dialect and other.offer.name == offer.name
                if same and other.serves and other.id != spec.id:
                    raise HandshakeFailed(
                        "X0524",
                        f"it calls itself {offer.name}, and so does {other.id}",
                        extension=spec.id,
                        help="disable one of the two: calls are routed by that name",
                    )

        return check
