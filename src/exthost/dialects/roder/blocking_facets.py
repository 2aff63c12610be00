"""The blocking forms of roder's facets, for programs without an event loop.

A facet is an attribute that only extensions of one dialect have. `SyncHost` has these classes under
the same attributes; their methods have the same parameters and block until the result is there.
"""

from exthost.dialects.blocking_methods import SyncFacet, forward, forward_stream
from exthost.dialects.roder.facets import Inference, Subagents, Tasks


class SyncInference(SyncFacet):
    """The blocking form of `ext.inference`."""

    list_models = forward(Inference.list_models)
    stream_turn = forward_stream(Inference.stream_turn)


class SyncSubagents(SyncFacet):
    """The blocking form of `ext.subagents`."""

    definitions = forward(Subagents.definitions)
    dispatch = forward_stream(Subagents.dispatch)


class SyncTasks(SyncFacet):
    """The blocking form of `ext.tasks`."""

    spec = forward(Tasks.spec)
    execute = forward_stream(Tasks.execute)
