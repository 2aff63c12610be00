"""The extensions of a host by their ids: adding, replacing, removing and ending them.

Keeps the registry and the event sinks up to date. A replaced extension is *leaving*: it finishes
its calls and ends by itself; only the end of the host waits for it.
"""

import asyncio
from collections.abc import Iterable, Iterator

from exthost.errors import ExthostError, NotFound, UsageError
from exthost.extension.extension import Extension
from exthost.host.event_sinks import EventSinks
from exthost.host.extension_factory import ExtensionFactory
from exthost.host.registry import Registry
from exthost.names import nearest
from exthost.spec import Spec

__all__ = ["ExtensionSet", "not_open_error"]

# The number of names in an error message.
_SHOWN_NAMES = 10


class ExtensionSet:
    """The extensions of one host, in the order in which they were added.

    by_id    the extensions
    is_open  whether the host is open: a look-up before that has its own error
    """

    def __init__(self, registry: Registry, sinks: EventSinks) -> None:
        self.by_id: dict[str, Extension] = {}
        self.is_open = False
        self._leaving: dict[asyncio.Task[None], Extension] = {}
        self._registry = registry
        self._sinks = sinks
        registry.set_extensions(self.by_id.values())

    def __iter__(self) -> Iterator[Extension]:
        return iter(tuple(self.by_id.values()))

    @property
    def leaving(self) -> tuple[Extension, ...]:
        """The replaced extensions that have not ended yet."""
        return tuple(self._leaving.values())

    def require_open(self) -> None:
        """Raise UsageError if the host has never been opened, or is closed."""
        if not self.is_open and not self.by_id:
            raise not_open_error()

    def not_found_error(self, id: str) -> ExthostError:
        """Return the error for an unknown id."""
        if not self.is_open and not self.by_id:
            return not_open_error()
        near = nearest(id, self.by_id)
        names = ", ".join(list(self.by_id)[:_SHOWN_NAMES]) or "none"
        help = f"did you mean {near!r}?" if near else f"the extensions here are: {names}"
        return NotFound("X1205", f"there is no extension {id!r}", help=help)

    def add(self, spec: Spec, factory: ExtensionFactory) -> Extension:
        """Create an extension, add it and admit it; start nothing."""
        if spec.id in self.by_id:
            raise UsageError(
                "X1312",
                f"there is an extension {spec.id!r} already",
                extension=spec.id,
                help="unload it first, or load the new one under another name",
            )
        extension = factory.make(spec)
        self.by_id[spec.id] = extension
        self._registry.mark_stale()
        # Before any event about it: its own admission starts no other extension.
        self._add_sink(extension)
        extension.admit()
        return extension

    async def remove(self, id: str) -> None:
        """End an extension and forget it."""
        extension = self.by_id.pop(id, None)
        if extension is None:
            raise self.not_found_error(id)
        self._registry.mark_stale()
        await self._sinks.remove(id)
        await extension.close()

    async def retire(self, id: str) -> None:
        """Remove an extension; it finishes its calls, within their limits, and ends."""
        extension = self.by_id.pop(id, None)
        if extension is None:
            raise self.not_found_error(id)
        self._registry.mark_stale()
        await self._sinks.remove(id)
        self._let_leave(extension)

    async def replace(self, spec: Spec, before: str, factory: ExtensionFactory) -> None:
        """Create an extension, and replace the one of its id, or of the id `before`, when it is
        ready. If it does not get ready, raise the cause and keep the old one."""
        new = factory.make(spec, replaces=spec.id in self.by_id)
        try:
            new.admit()
            if new.starts_eagerly:
                await new.start()
            elif new.cause is not None:
                raise new.cause
        except BaseException:
            await new.close()
            raise
        old = self.by_id.get(spec.id)
        renamed = self.by_id.pop(before, None) if before != spec.id else None
        self.by_id[spec.id] = new  # a dict keeps the place of a key that it has
        new.take_over(old)
        self._registry.mark_stale()
        for replaced in (old, renamed):
            if replaced is not None:
                await self._sinks.remove(replaced.id)
                self._let_leave(replaced)
        self._add_sink(new)

    def _let_leave(self, extension: Extension) -> None:
        """End the extension after its calls."""
        closing = asyncio.get_running_loop().create_task(extension.close(patience=None))
        self._leaving[closing] = extension
        closing.add_done_callback(self._leaving.pop)

    def _add_sink(self, extension: Extension) -> None:
        make = extension.dialect.event_sink
        sink = make(extension.spec) if make is not None else None
        if sink is not None:
            self._sinks.add(extension, sink)

    def _all(self) -> Iterable[Extension]:
        return (*self.by_id.values(), *self._leaving.values())

    async def close(self, *, drain: bool) -> None:
        """End every extension at the same time, and forget them."""
        closing = [ext.drain() if drain else ext.close() for ext in self._all()]
        await asyncio.gather(*closing, return_exceptions=True)
        self.by_id.clear()
        self._registry.mark_stale()

    def kill(self) -> None:
        """Kill every process at once."""
        for extension in self._all():
            extension.kill()


def not_open_error() -> UsageError:
    """Return the error for a host that is not open."""
    return UsageError("X1315", "this host is not open", help="use it with `async with`")
