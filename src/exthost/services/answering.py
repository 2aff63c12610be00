"""The host's answers to what extensions ask of it: memory and config.

Joins a dialect's questions with the services that serve them, for one process at a time: what it
watches ends with it. Opens the store at the first question and not before. Knows no dialect.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from exthost.dialects.dialect import Dialect
from exthost.dialects.wishes import (
    Question,
    ReadConfig,
    Recall,
    Remember,
    WatchConfig,
    Wish,
    WriteConfig,
)
from exthost.errors import CallFailed, ConfigError, UsageError
from exthost.messages import Notice
from exthost.model import Spec
from exthost.process.home import home
from exthost.services.config import Configs
from exthost.services.memory import Memories
from exthost.services.store import Missing, Store
from exthost.session.inbound import Handler

__all__ = ["Answering"]

_log = logging.getLogger("exthost.services")

_STORAGE = -32000
_BAD_PARAMS = -32602


class Peer(Protocol):
    """A process that asks."""

    ended: "asyncio.Future[None]"

    def tell(self, message: Notice) -> None: ...


class Answering:
    """The services of one host."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._store = Store(home(environ))
        self.memories = Memories(self._store)
        self.configs = Configs(self._store)

    def attend(
        self, spec: Spec, dialect: Dialect
    ) -> Callable[[Peer], Mapping[str, Handler]] | None:
        """How each process of this extension is served; None where its dialect asks nothing."""
        if not dialect.questions:
            return None

        def serve(peer: Peer) -> Mapping[str, Handler]:
            return {
                method: self._handler(spec, question, peer)
                for method, question in dialect.questions.items()
            }

        return serve

    def _handler(self, spec: Spec, question: Question, peer: Peer) -> Handler:
        async def handle(params: Any) -> Any:
            return question.answer(spec, await self._serve(spec, question.read(spec, params), peer))

        return handle

    async def _serve(self, spec: Spec, wish: Wish, peer: Peer) -> Any:
        try:
            match wish:
                case Remember():
                    return await _of(self.memories.append(spec.id, wish))
                case Recall():
                    return await _of(self.memories.query(spec.id, wish), missing=[])
                case ReadConfig(key):
                    return await _of(self.configs.get(spec.id, key))
                case WriteConfig(key, value):
                    return await self.configure(spec.id, key, value)
                case WatchConfig(keys, changed):
                    end = self.configs.watch(
                        spec.id, keys, lambda key, value: peer.tell(changed(key, value))
                    )
                    peer.ended.add_done_callback(lambda _: end())
        except ConfigError as error:
            _log.error("[%s] %s", spec.id, error.message)
            raise _told("X0750", error.message, _STORAGE) from None
        except UsageError as error:
            raise _told("X0751", f"{error.message}: {error.help}", _BAD_PARAMS) from None
        return None

    async def configure(self, extension: str, key: str, value: str) -> None:
        """Keep a value for an extension, and tell its processes that watch."""
        await _of(self.configs.set(extension, key, value))
        self.configs.changed(extension, key, value)

    async def completed(self, spec: Spec) -> Spec:
        """The extension with what is kept for its settings. A store that cannot be read is a
        warning: what it would have said may also be said by a variable."""
        if not spec.settings:
            return spec
        try:
            return replace(spec, stored=await _of(self.configs.all(spec.id), missing={}))
        except ConfigError as error:
            _log.warning("[%s] its stored settings are not used: %s", spec.id, error.message)
            return spec

    async def close(self) -> None:
        """Let go of the store."""
        if self._store.is_open:
            await asyncio.to_thread(self._store.close)


async def _of(future: Any, missing: Any = None) -> Any:
    """What a future of the store's comes to; `missing` if there is no store yet."""
    try:
        return await asyncio.wrap_future(future)
    except Missing:
        return missing


def _told(code: str, message: str, error_code: int) -> CallFailed:
    return CallFailed(code, message, error_code=error_code, error_message=message)
