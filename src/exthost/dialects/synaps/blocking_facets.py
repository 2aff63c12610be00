"""Blocking forms of synaps' facets."""

from exthost.dialects.blocking_methods import SyncFacet, forward, forward_stream
from exthost.dialects.synaps.facets import About, Commands, Providers, Settings, Sidecar
from exthost.dialects.synaps.offer import Provider


class SyncProviders(SyncFacet):
    """The blocking form of `ext.providers`."""

    complete = forward(Providers.complete)
    stream = forward_stream(Providers.stream)

    @property
    def all(self) -> tuple[Provider, ...]:
        """The providers that the plugin registered."""
        providers: tuple[Provider, ...] = self.target.all
        return providers


class SyncCommands(SyncFacet):
    """The blocking form of `ext.commands`."""

    invoke = forward_stream(Commands.invoke)


class SyncSettings(SyncFacet):
    """The blocking form of `ext.settings`."""

    open = forward(Settings.open)
    key = forward(Settings.key)
    commit = forward(Settings.commit)


class SyncInfo(SyncFacet):
    """The blocking form of `ext.info`."""

    get = forward(About.get)


class SyncSidecar(SyncFacet):
    """The blocking form of `ext.sidecar`."""

    spawn_args = forward(Sidecar.spawn_args)
