"""The facets of a blocking extension, found through the package of its dialect.

A package may name a class for the blocking form of each facet, with the parameters of the original
(`DialectPackage.blocking_facets`). Such a class is imported when its facet is used: by then its
dialect is imported anyway. Any other facet becomes a `BlockingView`.
"""

from typing import Any, Generic, Protocol, TypeVar, overload

from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.sync.blocking_view import BlockingView
from exthost.sync.loop_thread import LoopThread

__all__ = ["FacetProperty", "blocking_facet"]


class _Holder(Protocol):
    @property
    def target(self) -> Any: ...
    @property
    def loop_thread(self) -> LoopThread: ...


F = TypeVar("F")


class FacetProperty(Generic[F]):
    """A facet of a blocking extension, made at its first use. If its dialect has no such facet,
    the error of the asynchronous extension is raised."""

    __slots__ = ("_name",)

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
        facet: F = blocking_facet(holder.target.dialect, self._name, target, holder.loop_thread)
        vars(holder)[self._name] = facet
        return facet


def blocking_facet(dialect: Dialect, name: str, target: Any, loop_thread: LoopThread) -> Any:
    """Return the blocking form of a facet of this dialect."""
    if dialect.name in find.DIALECT_NAMES:  # a program may use a dialect that is not installed
        package = find.find_package(dialect.name)
        if reference := package.blocking_facets.get(name):
            return find.load_reference(package, reference)(target, loop_thread)
    return BlockingView(target, loop_thread)
