"""The blocking forms of mcp's facets, for programs without an event loop.

A facet is an attribute that only extensions of one dialect have. `SyncHost` has these classes under
the same attributes; their methods have the same parameters and block until the result is there.
"""

from exthost.dialects.blocking_methods import SyncFacet, forward
from exthost.dialects.mcp.facets import ArgumentCompletion, Logging, Prompts, Resources


class SyncResources(SyncFacet):
    """The blocking form of `ext.resources`."""

    list = forward(Resources.list)
    templates = forward(Resources.templates)
    read = forward(Resources.read)
    subscribe = forward(Resources.subscribe)
    unsubscribe = forward(Resources.unsubscribe)


class SyncPrompts(SyncFacet):
    """The blocking form of `ext.prompts`."""

    list = forward(Prompts.list)
    get = forward(Prompts.get)


class SyncCompletion(SyncFacet):
    """The blocking form of `ext.completion`."""

    complete = forward(ArgumentCompletion.complete)


class SyncLogging(SyncFacet):
    """The blocking form of `ext.logging`."""

    set_level = forward(Logging.set_level)
