"""Blocking forms of roder's facets."""

from exthost.dialects.roder.facets import Inference, Subagents, Tasks
from exthost.sync.facets import SyncFacet
from exthost.sync.forwarded import forward, forward_stream


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
