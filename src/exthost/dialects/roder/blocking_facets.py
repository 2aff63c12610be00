"""Blocking forms of roder's facets."""

from exthost.dialects.blocking_methods import SyncFacet, forward, forward_stream
from exthost.dialects.roder.facets import Inference, Subagents, Tasks


class SyncInference(SyncFacet):
    """`ext.inference`, blocking."""

    list_models = forward(Inference.list_models)
    stream_turn = forward_stream(Inference.stream_turn)


class SyncSubagents(SyncFacet):
    """`ext.subagents`, blocking."""

    definitions = forward(Subagents.definitions)
    dispatch = forward_stream(Subagents.dispatch)


class SyncTasks(SyncFacet):
    """`ext.tasks`, blocking."""

    spec = forward(Tasks.spec)
    execute = forward_stream(Tasks.execute)
