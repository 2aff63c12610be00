"""The blocking form of cigen's facet `ext.typed`, for programs without an event loop."""

from exthost.dialects.blocking_methods import SyncFacet, forward
from exthost.dialects.cigen.dialect import Typed


class SyncTyped(SyncFacet):
    """The blocking form of `ext.typed`: the same methods, which block until the result is there."""

    ask = forward(Typed.ask)
