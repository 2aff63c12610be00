"""The facets of the built-in dialects, for type checkers.

Written by `make reference`: do not edit.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exthost.dialects.cigen.dialect import Typed
    from exthost.dialects.mcp.facets import ArgumentCompletion, Logging, Prompts, Resources
    from exthost.dialects.roder.facets import Inference, Subagents, Tasks
    from exthost.dialects.synaps.facets import About, Commands, Providers, SettingsEditor, Sidecar

# Facet → the dialect whose extensions have it.
FACET_DIALECTS = {
    "typed": "cigen",
    "resources": "mcp",
    "prompts": "mcp",
    "completion": "mcp",
    "logging": "mcp",
    "inference": "roder",
    "subagents": "roder",
    "tasks": "roder",
    "providers": "synaps",
    "commands": "synaps",
    "settings": "synaps",
    "info": "synaps",
    "sidecar": "synaps",
}


class FacetAttributes:
    """The types of facets. At run time, an extension has those of its own dialect."""

    typed: "Typed"
    resources: "Resources"
    prompts: "Prompts"
    completion: "ArgumentCompletion"
    logging: "Logging"
    inference: "Inference"
    subagents: "Subagents"
    tasks: "Tasks"
    providers: "Providers"
    commands: "Commands"
    settings: "SettingsEditor"
    info: "About"
    sidecar: "Sidecar"
