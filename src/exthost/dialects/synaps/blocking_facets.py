"""The blocking forms of synaps' facets (the attributes that only its extensions have, such as
`ext.providers`), for programs without an event loop."""

from exthost.dialects.blocking_methods import SyncFacet, forward, forward_stream
from exthost.dialects.synaps.facets import About, Commands, Providers, SettingsEditor, Sidecar
from exthost.dialects.synaps.offer import ProviderOffer


class SyncProviders(SyncFacet):
    """The blocking form of `ext.providers`."""

    complete = forward(Providers.complete)
    stream = forward_stream(Providers.stream)

    @property
    def all(self) -> tuple[ProviderOffer, ...]:
        """The providers that the plugin registered."""
        providers: tuple[ProviderOffer, ...] = self._target.all
        return providers


class SyncCommands(SyncFacet):
    """The blocking form of `ext.commands`."""

    invoke = forward_stream(Commands.invoke)


class SyncSettings(SyncFacet):
    """The blocking form of `ext.settings`."""

    open = forward(SettingsEditor.open)
    key = forward(SettingsEditor.key)
    commit = forward(SettingsEditor.commit)


class SyncInfo(SyncFacet):
    """The blocking form of `ext.info`."""

    get = forward(About.get)


class SyncSidecar(SyncFacet):
    """The blocking form of `ext.sidecar`."""

    spawn_args = forward(Sidecar.spawn_args)
