"""The extensions of a host by their ids: adds, replaces, removes and ends them.

Each change also updates the registry (the table of the tools that can be called) and the event
sinks (the extensions to which the host forwards its events). The registry is marked as stale, and
reads the tools of the extensions again when they are needed.

How an extension leaves the set:

    remove   End it now. Calls in flight fail. Return when its processes have ended.
    retire   Take it out of the set, and close it in the background. Calls in flight may finish.
    replace  Put a new extension in its place, and retire the old one.
    close    End every extension. With `drain`, calls in flight get `limits.stop` seconds first.
    kill     Kill every process now. The extensions stay in the set until `close`.

A retired extension is *leaving* until its last process has ended. Only `close` waits for that.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from exthost.errors import NotFound, UsageError
from exthost.extension.misuse import check_name, other_loop_error, require_asyncio
from exthost.model.names import nearest

if TYPE_CHECKING:
    from exthost.dialects.calls import EventSink
    from exthost.errors import ExthostError
    from exthost.events import Bus
    from exthost.extension.extension import Extension
    from exthost.host.event_sinks import EventSinks
    from exthost.host.extension_factory import ExtensionFactory
    from exthost.host.registry import Registry
    from exthost.model.spec import Spec
    from exthost.session.inbound import Handler

# An error message lists at most this many ids.
_MAX_LISTED_IDS = 10


class ExtensionSet:
    """The extensions of one host, in the order in which they were added.

    by_id       the extensions by their ids
    is_open     whether the host is open: `open` sets it, and the host resets it. While it is False
                and there are no extensions, look-ups fail with "this host is not open", not with
                "not found".
    is_closing  whether the host is being closed, or was: `close` sets it, and the host before that
    lock        held by the host while it opens, and while it applies a config or its manifests, so
                that only one of these runs at a time
    """

    def __init__(self, registry: Registry, sinks: EventSinks) -> None:
        self.by_id: dict[str, Extension] = {}
        self.is_open = False
        self.is_closing = False
        self.lock = asyncio.Lock()
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop that opened the host
        # Retired extensions, by the task that closes each of them.
        self._leaving: dict[asyncio.Task[None], Extension] = {}
        self._private: set[Extension] = set()  # not listed; see `add_private`
        self._replacing: set[Extension] = set()  # those that start in the place of another
        self._registry = registry
        self._sinks = sinks
        registry.set_extensions(self.by_id.values())

    def __del__(self) -> None:
        # The tasks of extensions refer to this object, so this comes after the end of the loop. The
        # supervisors have then ended the processes.
        if self.is_open and not self.is_closing and os.getpid() == self._pid:
            warnings.warn(
                "an open Host was dropped without close(): use it with `async with`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __iter__(self) -> Iterator[Extension]:
        return iter(tuple(self.by_id.values()))

    def require_not_closing(self) -> None:
        """Raise UsageError if the host is closing: an extension that comes now would not be
        ended."""
        if self.is_closing:
            raise not_open_error()

    @property
    def leaving(self) -> tuple[Extension, ...]:
        """The retired, replaced and private extensions whose processes have not ended yet."""
        return (*self._leaving.values(), *self._private)

    def open(self) -> None:
        """Record that the host is open, and its event loop. Raises UsageError if none runs."""
        self._loop = require_asyncio()
        self.lock = asyncio.Lock()  # a lock cannot be used in another loop than before
        self.is_open, self.is_closing = True, False

    def check_loop(self, *, may_be_closed: bool = False) -> None:
        """Raise UsageError if another event loop runs than the one that opened the host. With
        `may_be_closed`, do not raise if the loop that opened it has been closed."""
        loop = self._loop
        if loop is None or not self.is_open or (may_be_closed and loop.is_closed()):
            return
        # Without a running loop, as in a fork of this process, this returns None.
        if asyncio._get_running_loop() not in (loop, None):
            raise other_loop_error()

    def require_open(self) -> None:
        """Raise UsageError if the host is not open, or if another event loop has opened it."""
        if not self.is_open:
            raise not_open_error()
        self.check_loop()

    def not_found_error(self, id: str) -> ExthostError:
        """Return the error for an unknown id. Raises UsageError if it is not a string."""
        if not self.is_open and not self.by_id:
            return not_open_error()
        check_name(id, "an extension")
        nearest_id = nearest(id, self.by_id)
        ids = ", ".join(list(self.by_id)[:_MAX_LISTED_IDS]) or "none"
        if len(self.by_id) > _MAX_LISTED_IDS:
            ids += f", … ({len(self.by_id)} in all: exthost status)"
        help = f"did you mean {nearest_id!r}?" if nearest_id else f"the extensions here are: {ids}"
        return NotFound("X1205", f"there is no extension {id!r}", help=help)

    def add(self, spec: Spec, factory: ExtensionFactory) -> Extension:
        """Create an extension, add it, and run the checks that come before a start (`admit`). Do
        not start it. Raises UsageError if the id is taken, or if the host is closing."""
        self.check_loop()
        self.require_not_closing()
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
        # `admit` publishes a change of state. The state changes of event sinks are not forwarded to
        # other sinks (see `event_sinks`). So the extension has to be known as a sink before
        # `admit`; otherwise the event would be forwarded, and would start the other sinks.
        self._add_sink(extension)
        extension.internals.admit()
        return extension

    async def remove(self, id: str) -> None:
        """Remove an extension and end it at once. Raises NotFound."""
        self.check_loop()
        extension = self._pop(id)
        await self._sinks.remove(id)
        await extension.close()

    async def retire(self, id: str) -> None:
        """Remove an extension, and let it end in the background after its calls in flight. Raises
        NotFound."""
        extension = self._pop(id)
        await self._sinks.remove(id)
        self._close_in_background(extension)

    def _pop(self, id: str) -> Extension:
        check_name(id, "an extension")
        extension = self.by_id.pop(id, None)
        if extension is None:
            raise self.not_found_error(id)
        extension.internals.queue.is_released = True  # a later call must not start it again
        self._registry.mark_stale()
        return extension

    async def replace(self, spec: Spec, old_id: str, factory: ExtensionFactory) -> None:
        """Create an extension and, when it is ready, put it in the place of the extension with the
        same id. Retire the old extension, and the extension with the id `old_id`, if there is one.

        If the new extension does not get ready, raise the reason and keep the old extension.
        """
        self.check_loop()
        new = factory.make(spec, replaces=spec.id in self.by_id)
        # As in `add`: the state changes of a new event sink must not start other event sinks.
        with self._sinks.expect(spec.id) if _make_sink(new) is not None else nullcontext():
            await self._replace(new, old_id)

    async def _replace(self, new: Extension, old_id: str) -> None:
        self._replacing.add(new)
        try:
            self.require_not_closing()
            new.internals.admit()
            if new.internals.starts_eagerly:
                await new.start()
            elif new.cause is not None:
                raise new.cause
            self.require_not_closing()  # the host may have closed it while it became ready
        except BaseException:
            await new.close()
            raise
        finally:
            self._replacing.discard(new)
        old = self.by_id.get(new.id)
        renamed = self.by_id.pop(old_id, None) if old_id != new.id else None
        self.by_id[new.id] = new  # an existing key keeps its position in the dict
        # Publishes how the new extension differs from the old one, and continues its counts.
        new.internals.take_over(old.internals if old is not None else None)
        self._registry.mark_stale()
        for replaced in (old, renamed):
            if replaced is not None:
                await self._sinks.remove(replaced.id)
                self._close_in_background(replaced)
        # Sinks are stored by id, so the sink of the old extension had to be removed first.
        self._add_sink(new)

    def add_private(
        self, spec: Spec, factory: ExtensionFactory, bus: Bus, handlers: Mapping[str, Handler]
    ) -> Extension:
        """Create an extension that is not listed, beside the one of the same id. It starts at its
        first call, and publishes its events on `bus`. `remove_private` ends it."""
        self.require_not_closing()
        extension = factory.make(spec, replaces=True, bus=bus, handlers=handlers)
        self._private.add(extension)
        extension.internals.admit()
        return extension

    async def remove_private(self, extension: Extension) -> None:
        """End an extension that `add_private` created."""
        try:
            await extension.close()
        finally:
            self._private.discard(extension)

    def _close_in_background(self, extension: Extension) -> None:
        """Start a task that ends the extension after its calls in flight."""
        extension.internals.queue.is_released = True
        # patience=None: wait for each call in flight until its own timeout.
        closing = asyncio.get_running_loop().create_task(extension.close(patience=None))
        self._leaving[closing] = extension
        closing.add_done_callback(self._leaving.pop)

    def _add_sink(self, extension: Extension) -> None:
        """Forward events to the extension, if its dialect and its spec make it an event sink."""
        sink = _make_sink(extension)
        if sink is not None:
            self._sinks.add(extension, sink)

    def _all_with_processes(self) -> Iterable[Extension]:
        return (*self.by_id.values(), *self.leaving, *self._replacing)

    async def close(self, *, drain: bool) -> None:
        """End every extension at the same time, also the leaving ones, and empty the set. Wait for
        the end of an open or a reload in progress, which fails because its extensions have ended.

        With `drain`, calls in flight have `limits.stop` seconds to finish; without it, they fail
        now.
        """
        self.is_closing = True  # also if Ctrl-C interrupts what follows
        for extension in self._all_with_processes():
            extension.internals.queue.is_released = True
        closing = [ext.drain() if drain else ext.close() for ext in self._all_with_processes()]
        await asyncio.gather(*closing, return_exceptions=True)
        self.by_id.clear()
        self._registry.mark_stale()
        # In another loop, the loop that opened the host is closed, and its tasks do not continue.
        if self._loop is asyncio.get_running_loop():
            async with self.lock:
                pass

    def kill(self) -> None:
        """Kill every process at once."""
        for extension in self._all_with_processes():
            extension.kill()


def _make_sink(extension: Extension) -> EventSink | None:
    """Return which events the extension is sent; None if it is not an event sink."""
    return extension.dialect.event_sink(extension.spec)


def not_open_error() -> UsageError:
    """Return the error for a host that is not open."""
    return UsageError(
        "X1315", "this host is not open", help="use it with `async with`, a SyncHost with `with`"
    )
