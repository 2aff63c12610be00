"""Placeholders for facets of the built-in dialects. Written by `make reference`: do not edit."""

from typing import TYPE_CHECKING

from exthost.dialects.facet_placeholder import Facet

if TYPE_CHECKING:
    from exthost.dialects.cigen.dialect import Typed
    from exthost.dialects.mcp.facets import ArgumentCompletion, Logging, Prompts, Resources
    from exthost.dialects.roder.facets import Inference, Subagents, Tasks
    from exthost.dialects.synaps.facets import About, Commands, Providers, SettingsEditor, Sidecar


class FacetAttributes:
    """A placeholder for each facet."""

    typed: "Facet[Typed]" = Facet()
    resources: "Facet[Resources]" = Facet()
    prompts: "Facet[Prompts]" = Facet()
    completion: "Facet[ArgumentCompletion]" = Facet()
    logging: "Facet[Logging]" = Facet()
    inference: "Facet[Inference]" = Facet()
    subagents: "Facet[Subagents]" = Facet()
    tasks: "Facet[Tasks]" = Facet()
    providers: "Facet[Providers]" = Facet()
    commands: "Facet[Commands]" = Facet()
    settings: "Facet[SettingsEditor]" = Facet()
    info: "Facet[About]" = Facet()
    sidecar: "Facet[Sidecar]" = Facet()
