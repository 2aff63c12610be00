"""The host's answers to what extensions ask of it: memory and config.

Joins a dialect's questions with the services that serve them, for one process at a time: what it
watches ends with it. Opens the store at the first question and not before. Knows no dialect.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from exthost.dialects.base import Dialect
from exthost.dialects.host_requests import (
    HostAction,
    HostRequest,
    ReadConfig,
    Recall,
    Remember,
    WatchConfig,
    WriteConfig,
)
from exthost.errors import CallFailed, ConfigError, UsageError
from exthost.messages import Notification
from exthost.model import Spec
from exthost.process.home import home
from exthost.services.config import Configs
from exthost.services.elsewhere import Elsewhere
from exthost.services.memory import Memories
from exthost.services.store import Missing, Store
from exthost.session.inbound import Handler

__all__ = ["Answering", "completed_now"]

_log = logging.getLogger("exthost.services")

_STORAGE = -32000
_BAD_PARAMS = -32602

# Whoever wants more than so many by name wants them all.
_WATCHED_KEYS = 1000


class Peer(Protocol):
    """A process that asks."""

    ended: "asyncio.Future[None]"

    def send(self, message: Notification) -> None: ...


class Answering:
    """The services of one host."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._store = Store(home(environ))
        self.memories = Memories(self._store)
        self.configs = Configs(self._store)
        self.elsewhere = Elsewhere(self._store, self.configs.changed)

    def attend(
        self, spec: Spec, dialect: Dialect
    ) -> Callable[[Peer], Mapping[str, Handler]] | None:
        """How each process of this extension is served; None where its dialect asks nothing."""
        if not dialect.host_requests:
            return None

        def serve(peer: Peer) -> Mapping[str, Handler]:
            attendant = _Attendant(self, spec.id, peer)
            return {
                method: _handler(attendant, spec, question)
                for method, question in dialect.host_requests.items()
            }

        return serve

    async def configure(self, extension: str, key: str, value: str) -> None:
        """Keep a value for an extension, and tell its processes that watch."""
        kept = None
        self.elsewhere.writing(extension, key)
        try:
            await _of(self.configs.set(extension, key, value))
            kept = value
        finally:
            self.elsewhere.written(extension, key, kept)
        self.configs.changed(extension, key, value)

    async def completed(self, spec: Spec) -> Spec:
        """The extension with what is kept for its settings. A store that cannot be read is a
        warning: what it would have said may also be said by a variable."""
        if not spec.settings:
            return spec
        keys = tuple(setting.key for setting in spec.settings)
        try:
            return replace(spec, stored=await _of(self.configs.some(spec.id, keys), missing={}))
        except ConfigError as error:
            _log.warning("[%s] its stored settings are not used: %s", spec.id, error.message)
            return spec

    async def close(self) -> None:
        """Let go of the store."""
        await self.elsewhere.close()
        if self._store.is_open:
            await asyncio.to_thread(self._store.close)


class _Attendant:
    """Serves the wishes of one process."""

    def __init__(self, answering: Answering, extension: str, peer: Peer) -> None:
        self._answering = answering
        self._extension = extension
        self._peer = peer
        self._watched: frozenset[str] | None = frozenset()  # None: every key
        self._unwatch: Callable[[], None] | None = None
        peer.ended.add_done_callback(lambda _: self._look_away())

    async def serve(self, wish: HostAction) -> Any:
        """What comes of it. Raises CallFailed with what the process is to be told."""
        configs, memories = self._answering.configs, self._answering.memories
        try:
            match wish:
                case Remember():
                    return await _of(memories.append(self._extension, wish))
                case Recall():
                    return await _of(memories.query(self._extension, wish), missing=[])
                case ReadConfig(key):
                    return await _of(configs.get(self._extension, key))
                case WriteConfig(key, value):
                    return await self._answering.configure(self._extension, key, value)
                case WatchConfig():
                    await self._answering.elsewhere.begin()
                    return self._watch(wish)
        except ConfigError as error:
            _log.error("[%s] %s", self._extension, error.message)
            raise _told("X0750", error.message, _STORAGE) from None
        except UsageError as error:
            raise _told("X0751", f"{error.message}: {error.help}", _BAD_PARAMS) from None

    def _watch(self, wish: WatchConfig) -> None:
        """What it wants to be told of, on top of what it wanted before: each change is told once,
        however often it asks."""
        if wish.keys is None or self._watched is None:
            watched = None
        else:
            watched = self._watched | frozenset(wish.keys)
            if len(watched) > _WATCHED_KEYS:
                raise _told("X0751", f"more than {_WATCHED_KEYS} keys to watch", _BAD_PARAMS)
        before = self._unwatch
        self._watched = watched
        self._unwatch = self._answering.configs.watch(
            self._extension,
            watched,
            lambda key, value: self._peer.send(wish.changed(key, value)),
        )
        if before is not None:
            before()

    def _look_away(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if not self._answering.configs.is_watched:
            self._answering.elsewhere.end()


def _handler(attendant: _Attendant, spec: Spec, question: HostRequest) -> Handler:
    async def handle(params: Any) -> Any:
        return question.answer(spec, await attendant.serve(question.read(spec, params)))

    return handle


def completed_now(spec: Spec, environ: Mapping[str, str]) -> Spec:
    """The extension with what is kept for its settings, for listings that have no loop."""
    if not spec.settings:
        return spec
    store = Store(home(environ))
    try:
        keys = tuple(setting.key for setting in spec.settings)
        return replace(spec, stored=Configs(store).some(spec.id, keys).result())
    except (Missing, ConfigError):
        return spec
    finally:
        store.close()


async def _of(future: Any, missing: Any = None) -> Any:
    """What a future of the store's comes to; `missing` if there is no store yet."""
    try:
        return await asyncio.wrap_future(future)
    except Missing:
        return missing


def _told(code: str, message: str, error_code: int) -> CallFailed:
    return CallFailed(code, message, error_code=error_code, error_message=message)
