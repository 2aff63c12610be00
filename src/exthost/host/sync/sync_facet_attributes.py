"""The facets of the built-in dialects, blocking. Written by `make reference`: do not edit."""

from typing import TYPE_CHECKING

from exthost.host.sync.facet_property import FacetProperty

if TYPE_CHECKING:
    from exthost.dialects.cigen.blocking_facets import SyncTyped
    from exthost.dialects.mcp.blocking_facets import (
        SyncCompletion,
        SyncLogging,
        SyncPrompts,
        SyncResources,
    )
    from exthost.dialects.roder.blocking_facets import SyncInference, SyncSubagents, SyncTasks
    from exthost.dialects.synaps.blocking_facets import (
        SyncCommands,
        SyncInfo,
        SyncProviders,
        SyncSettings,
        SyncSidecar,
    )


class SyncFacetAttributes:
    """A property for each facet."""

    typed: "FacetProperty[SyncTyped]" = FacetProperty()
    resources: "FacetProperty[SyncResources]" = FacetProperty()
    prompts: "FacetProperty[SyncPrompts]" = FacetProperty()
    completion: "FacetProperty[SyncCompletion]" = FacetProperty()
    logging: "FacetProperty[SyncLogging]" = FacetProperty()
    inference: "FacetProperty[SyncInference]" = FacetProperty()
    subagents: "FacetProperty[SyncSubagents]" = FacetProperty()
    tasks: "FacetProperty[SyncTasks]" = FacetProperty()
    providers: "FacetProperty[SyncProviders]" = FacetProperty()
    commands: "FacetProperty[SyncCommands]" = FacetProperty()
    settings: "FacetProperty[SyncSettings]" = FacetProperty()
    info: "FacetProperty[SyncInfo]" = FacetProperty()
    sidecar: "FacetProperty[SyncSidecar]" = FacetProperty()
