"""Blocking forms of synaps' facets."""

from exthost.dialects.blocking_methods import SyncFacet, forward, forward_stream
from exthost.dialects.synaps.facets import About, Commands, Providers, Settings, Sidecar
from exthost.dialects.synaps.offer import Provider


class SyncProviders(SyncFacet):
    """`ext.providers`, blocking."""

    complete = forward(Providers.complete)
    stream = forward_stream(Providers.stream)

    @property
    def all(self) -> tuple[Provider, ...]:
        """The providers that it registered."""
        found: tuple[Provider, ...] = self.target.all
        return found


class SyncCommands(SyncFacet):
    """`ext.commands`, blocking."""

    invoke = forward_stream(Commands.invoke)


class SyncSettings(SyncFacet):
    """`ext.settings`, blocking."""

    open = forward(Settings.open)
    key = forward(Settings.key)
    commit = forward(Settings.commit)


class SyncInfo(SyncFacet):
    """`ext.info`, blocking."""

    get = forward(About.get)


class SyncSidecar(SyncFacet):
    """`ext.sidecar`, blocking."""

    spawn_args = forward(Sidecar.spawn_args)
