"""Which extensions have which hooks.

Every call with hooks asks this, so the answer is kept until an extension changes. A call then costs
the same beside one extension and beside five hundred.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from exthost.dialects.base import Dialect
from exthost.host.hook_policy import may_block
from exthost.model.offer import Offer
from exthost.model.spec import Pins, Spec


class _Internals(Protocol):
    @property
    def may_have_hooks(self) -> bool: ...


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
    """by_hook     the extensions with each hook
    unknown     those whose hooks are known only after their handshake
    distrusted  those that may have any hook, see `is_distrusted`
    """

    by_hook: Mapping[str, tuple[Any, ...]]
    unknown: tuple[Any, ...]
    distrusted: tuple[Any, ...]


class HookIndex(Generic[T]):
    """The extensions of one host by their hooks. `extensions` returns them, in the order of the
    host."""

    def __init__(self, extensions: Callable[[], Iterable[T]]) -> None:
        self._extensions = extensions
        self._tables: _Tables | None = None  # None while they have to be made again

    def mark_stale(self) -> None:
        """Look at the extensions again at the next use. Must be called when the offer or the state
        of an extension has changed, and when one was added, replaced or removed: otherwise a hook
        could be bypassed."""
        self._tables = None

    def extensions_with(self, name: str) -> tuple[T, ...]:
        """Return the extensions that offer the hook `name`, in the order of their calls: by
        priority, and among equal priorities in the order of the host. If the hook may block an
        event, the last are those that cannot be believed: they do not run, so their hook fails."""
        tables = self._up_to_date()
        extensions = tables.by_hook.get(name, ())
        if tables.distrusted:
            extensions += tuple(
                other
                for other in tables.distrusted
                if other not in extensions and may_block(other.spec, name)
            )
        return extensions

    @property
    def with_unknown_hooks(self) -> tuple[T, ...]:
        """The extensions whose hooks are known only after their handshake."""
        return self._up_to_date().unknown

    @property
    def is_empty(self) -> bool:
        """Whether no extension has a hook, and none may have one."""
        return not any(self._up_to_date())

    def _up_to_date(self) -> _Tables:
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
    """Return whether the hooks of an extension are not known, and it must count as having any: its
    manifest cannot be read; or the config pins the manifest, and the extension is refused, perhaps
    because somebody changed the manifest."""
    if extension.spec.has_unknown_hooks:
        return True
    pins = extension.spec.sha256
    return (
        extension.state == "refused"
        and isinstance(pins, Pins)
        and bool(pins.manifest or pins.package)
        and "hook" in extension.dialect.operations
    )
