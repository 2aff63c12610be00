"""Blocking form of cigen's facet."""

from exthost.dialects.cigen.dialect import Typed
from exthost.sync.facets import SyncFacet
from exthost.sync.forwarded import forward


class SyncTyped(SyncFacet):
    """`ext.typed`, blocking."""

    ask = forward(Typed.ask)
