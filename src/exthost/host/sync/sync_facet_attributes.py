"""The facets of the built-in dialects, blocking, for type checkers.

Written by `make reference`: do not edit.
"""

from typing import TYPE_CHECKING

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
    """The types of blocking facets. At run time, an extension has those of its own dialect."""

    typed: "SyncTyped"
    resources: "SyncResources"
    prompts: "SyncPrompts"
    completion: "SyncCompletion"
    logging: "SyncLogging"
    inference: "SyncInference"
    subagents: "SyncSubagents"
    tasks: "SyncTasks"
    providers: "SyncProviders"
    commands: "SyncCommands"
    settings: "SyncSettings"
    info: "SyncInfo"
    sidecar: "SyncSidecar"
