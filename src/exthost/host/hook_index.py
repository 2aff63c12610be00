"""An index of the extensions of a host by their hooks.

A hook is a function of an extension that the host calls with an event, such as `before_tool_call`.
The host needs it for every tool call, so it is cached until an extension changes. The cost of a
call therefore does not depend on the number of extensions.

The hooks of some extensions are not known: the extension may announce them only in its handshake,
or its manifest cannot be read or trusted. The latter extensions are called *distrusted*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from exthost.host.hook_policy import may_block
from exthost.model.documents.setting_keys import Pins

if TYPE_CHECKING:
    from exthost.dialects.base import Dialect
    from exthost.model.offer import Offer
    from exthost.model.spec import Spec


class _Internals(Protocol):
    """The part of `Extension.internals` that the index reads."""

    @property
    def may_have_hooks(self) -> bool:
        """Whether the extension must be started to find out if it has hooks."""


class HookOwner(Protocol):
    """The attributes of an extension that the index reads."""

    @property
    def spec(self) -> Spec: ...
    @property
    def offer(self) -> Offer: ...
    @property
    def state(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...
    @property
    def internals(self) -> _Internals: ...


T = TypeVar("T", bound=HookOwner)


class _Tables(NamedTuple):
    """The index between two changes.

    by_hook     the extensions with each hook
    unknown     the extensions whose hooks are known only after their handshake
    distrusted  the extensions that are treated as if they had every hook, see `is_distrusted`
    """

    by_hook: Mapping[str, tuple[Any, ...]]
    unknown: tuple[Any, ...]
    distrusted: tuple[Any, ...]


class HookIndex(Generic[T]):
    """The extensions of one host by their hooks. `extensions` is a function that returns all
    extensions of the host, in the order of the host."""

    def __init__(self, extensions: Callable[[], Iterable[T]]) -> None:
        self._extensions = extensions
        self._tables: _Tables | None = None  # None if the tables must be rebuilt

    def mark_stale(self) -> None:
        """Rebuild the index at the next use. Must be called when the offer or the state of an
        extension has changed, and when an extension was added, replaced or removed: otherwise a
        hook could be bypassed."""
        self._tables = None

    def extensions_with(self, name: str) -> tuple[T, ...]:
        """Return the extensions that offer the hook `name`, in the order in which they are
        called: by priority, then in the order of the host. If the hook can block an event,
        distrusted extensions are added at the end. They are not running, so calling their hook
        fails, and the event is blocked unless `[hooks] on_failure = "open"` lets it pass."""
        tables = self._get_tables()
        extensions = tables.by_hook.get(name, ())
        if tables.distrusted:
            extensions += tuple(
                extension
                for extension in tables.distrusted
                if extension not in extensions and may_block(extension.spec, name)
            )
        return extensions

    @property
    def with_unknown_hooks(self) -> tuple[T, ...]:
        """The extensions whose hooks are known only after their handshake."""
        return self._get_tables().unknown

    @property
    def is_empty(self) -> bool:
        """Whether no extension has a hook or could have one."""
        return not any(self._get_tables())

    def _get_tables(self) -> _Tables:
        tables = self._tables
        if tables is None:
            tables = self._tables = _make_tables(list(self._extensions()))
        return tables


def _make_tables(extensions: list[T]) -> _Tables:
    by_hook: dict[str, tuple[T, ...]] = {}
    # The sort is stable: extensions of the same priority stay in the order of the host.
    for extension in sorted(extensions, key=lambda extension: extension.spec.priority):
        for name in dict.fromkeys(extension.offer.hooks):
            by_hook[name] = (*by_hook.get(name, ()), extension)
    unknown = tuple(extension for extension in extensions if extension.internals.may_have_hooks)
    distrusted = tuple(extension for extension in extensions if is_distrusted(extension))
    return _Tables(by_hook, unknown, distrusted)


def is_distrusted(extension: HookOwner) -> bool:
    """Return whether the hooks of an extension are unknown, so that it must be treated as having
    every hook. That is the case if its manifest cannot be read, or if the config pins its manifest
    and the extension was refused: the manifest may have been changed."""
    if extension.spec.has_unknown_hooks:
        return True
    pins = extension.spec.sha256
    return (
        extension.state == "refused"
        and isinstance(pins, Pins)
        and bool(pins.manifest or pins.package)
        and "hook" in extension.dialect.operations
    )
