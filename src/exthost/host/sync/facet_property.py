"""The facets of a blocking extension, as attributes.

A facet is the object with the methods that only extensions of one dialect have, such as
`ext.providers`. The package of a dialect may name a class for the blocking form of a facet
(`DialectPackage.blocking_facets`), which is imported lazily, when the facet is used. Any other
facet is wrapped in a `BlockingView`.
"""

from typing import Any, Generic, Protocol, TypeVar, overload

from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.host.sync.blocking_view import BlockingView
from exthost.host.sync.loop_thread import LoopThread


class _BlockingExtension(Protocol):
    """The attributes of `SyncExtension` that are used here."""

    @property
    def target(self) -> Any: ...
    @property
    def loop_thread(self) -> LoopThread: ...


F = TypeVar("F")


class FacetProperty(Generic[F]):
    """A facet of a blocking extension, created at its first use. If the dialect has no such facet,
    the error of the asynchronous extension is raised."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, extension: None, owner: type) -> "FacetProperty[F]": ...
    @overload
    def __get__(self, extension: _BlockingExtension, owner: type) -> F: ...
    def __get__(self, extension: _BlockingExtension | None, owner: type) -> "FacetProperty[F] | F":
        if extension is None:
            return self
        target = getattr(extension.target, self._name)
        facet: F = blocking_facet(
            extension.target.dialect, self._name, target, extension.loop_thread
        )
        vars(extension)[self._name] = facet  # later accesses find this attribute first
        return facet


def blocking_facet(dialect: Dialect, name: str, target: Any, loop_thread: LoopThread) -> Any:
    """Return the blocking form of a facet of this dialect."""
    if dialect.name in find.DIALECT_NAMES:  # a program may use a dialect that is not installed
        package = find.find_package(dialect.name)
        if reference := package.blocking_facets.get(name):
            return find.load_reference(package, reference)(target, loop_thread)
    return BlockingView(target, loop_thread)
