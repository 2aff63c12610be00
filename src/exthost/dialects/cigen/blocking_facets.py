"""Blocking form of cigen's facet."""

from exthost.dialects.blocking_methods import SyncFacet, forward
from exthost.dialects.cigen.dialect import Typed


class SyncTyped(SyncFacet):
    """`ext.typed`, blocking."""

    ask = forward(Typed.ask)
