"""The blocking forms of the facets of the built-in dialects.

One class for each facet, with the parameters of the original. A class is imported when its facet
is used: by then its dialect is imported anyway.
"""

import importlib
from typing import Any, Generic, Protocol, TypeVar, overload

from exthost.sync.loop_thread import LoopThread

__all__ = ["FacetProperty", "SyncFacet"]


class SyncFacet:
    """What the blocking facets share."""

    def __init__(self, target: Any, loop_thread: LoopThread) -> None:
        self.target = target
        self.loop_thread = loop_thread

    def __repr__(self) -> str:
        return f"<blocking {type(self.target).__name__}>"


class _Holder(Protocol):
    @property
    def target(self) -> Any: ...
    @property
    def loop_thread(self) -> LoopThread: ...


F = TypeVar("F")


class FacetProperty(Generic[F]):
    """A facet of a blocking extension, made at its first use. If its dialect has no such facet,
    the error of the asynchronous extension is raised."""

    def __init__(self, module: str, class_name: str) -> None:
        self._module = module
        self._class_name = class_name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> "FacetProperty[F]": ...
    @overload
    def __get__(self, holder: _Holder, owner: type) -> F: ...
    def __get__(self, holder: _Holder | None, owner: type) -> "FacetProperty[F] | F":
        if holder is None:
            return self
        target = getattr(holder.target, self._name)
        module = importlib.import_module(self._module)
        facet: F = getattr(module, self._class_name)(target, holder.loop_thread)
        vars(holder)[self._name] = facet
        return facet
