"""Blocking forms of mcp's facets."""

from exthost.dialects.blocking_methods import SyncFacet, forward
from exthost.dialects.mcp.facets import Completion, Logging, Prompts, Resources


class SyncResources(SyncFacet):
    """`ext.resources`, blocking."""

    list = forward(Resources.list)
    templates = forward(Resources.templates)
    read = forward(Resources.read)
    subscribe = forward(Resources.subscribe)
    unsubscribe = forward(Resources.unsubscribe)


class SyncPrompts(SyncFacet):
    """`ext.prompts`, blocking."""

    list = forward(Prompts.list)
    get = forward(Prompts.get)


class SyncCompletion(SyncFacet):
    """`ext.completion`, blocking."""

    complete = forward(Completion.complete)


class SyncLogging(SyncFacet):
    """`ext.logging`, blocking."""

    set_level = forward(Logging.set_level)
