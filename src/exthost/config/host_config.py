"""`Config`: the values of a whole config, as `document` reads them from `exthost.toml`.

Each entry of `[[extensions]]` is a `Spec` (the configuration of one extension). The extensions that
are discovered on disk are not in a `Config`: `discovery.configfile` adds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exthost.config.cluster import DEFAULT_CLUSTER_SETTINGS, ClusterSettings
from exthost.config.gateway import DEFAULT_GATEWAY_SETTINGS, GatewaySettings
from exthost.config.trust_section import DEFAULT_TRUST, TrustSettings
from exthost.model.documents.settings import NO_SETTINGS, SettingValues
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.rules import NO_RULES, Rules

if TYPE_CHECKING:
    from exthost.config.discovery_section import DiscoverySettings
    from exthost.model.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The values of a whole config.

    specs            the extensions of the file, in its order and including disabled ones; overrides
                     and defaults are already applied to them
    defaults         the settings of `[defaults]`, for all extensions
    overrides        the settings of `[overrides]`, by id of an extension
    discovery        where extensions are searched for; None if there is no such section
    audit_path       the file to which each call is recorded; None for no audit
    cluster          how processes on other machines are reached
    gateway          how `exthost gateway` serves its clients
    trust            which extensions are started
    hooks            what the failure of a hook means, for extensions that do not set it: maps a
                     kind of hook ("*" for all others) to "closed" or "open" (see `hook_policy`)
    required_guards  the ids of the extensions without whose hooks no tool is called
    rules            which tool calls are made
    configs          the values of `config` in `[overrides]`, by id, for discovered extensions
    origin           the path of the file; "" if the config is not from a file
    folder           the folder of the file
    notes            texts about keys that have no effect here
    """

    specs: tuple[Spec, ...] = ()
    defaults: SettingValues = NO_SETTINGS
    overrides: Mapping[str, SettingValues] = field(default_factory=lambda: EMPTY_MAPPING)
    discovery: DiscoverySettings | None = None
    audit_path: str | None = None
    cluster: ClusterSettings = DEFAULT_CLUSTER_SETTINGS
    gateway: GatewaySettings = DEFAULT_GATEWAY_SETTINGS
    trust: TrustSettings = DEFAULT_TRUST
    hooks: Mapping[str, str] = field(default_factory=lambda: EMPTY_MAPPING)
    required_guards: tuple[str, ...] = ()
    rules: Rules = NO_RULES
    configs: Mapping[str, Any] = field(default_factory=lambda: EMPTY_MAPPING)
    origin: str = ""
    folder: str | None = None
    notes: tuple[str, ...] = ()

    def outer_settings(self, id: str) -> SettingValues:
        """Return the settings for the extension `id` from `[overrides]` and `[defaults]`."""
        return self.overrides.get(id, NO_SETTINGS).over(self.defaults)

    def apply_overrides(self, spec: Spec) -> Spec:
        """Return a discovered extension with overrides and defaults.

        A package (a manifest and the files beside it) may declare further extensions besides its
        main one, the owner. The restrictions of the owner also apply to them.
        """
        settings = self.overrides.get(spec.id, NO_SETTINGS)
        if spec.package is not None and spec.package.owner in self.overrides:
            settings = settings.restricted_like(self.overrides[spec.package.owner], self.defaults)
        own_config = {"config": self.configs[spec.id]} if spec.id in self.configs else {}
        return settings.over(self.defaults).apply_to(spec, **own_config)


NO_CONFIG = Config()
"""The config of a host without a config: it has no extensions, and there is nothing to read."""
