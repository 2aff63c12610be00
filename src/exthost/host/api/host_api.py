"""What extensions may request from the host: memory and settings.

Connects the requests of a dialect with the store, memory and settings behind them. Each process is
served by an object of its own, and its subscriptions end with it. The store is opened by the first
request. Knows no dialect.
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
from exthost.host.api.external_changes import ExternalChanges
from exthost.host.api.memory import Memories
from exthost.host.api.store import Missing, Store
from exthost.host.api.store_quota import QuotaExceeded
from exthost.host.api.stored_settings import StoredSettings
from exthost.launch.limits import resolve_limits
from exthost.messages import Notification
from exthost.process.state_dirs import state_root
from exthost.session.inbound import Handler
from exthost.spec import Spec

__all__ = ["HostApi", "read_stored_settings"]

_log = logging.getLogger("exthost.host.api")

_STORAGE = -32000
_BAD_PARAMS = -32602

# A process that wants more can subscribe to all keys.
_WATCHED_KEYS = 1000


class Peer(Protocol):
    """A process that sends requests."""

    ended: "asyncio.Future[None]"

    def send(self, message: Notification) -> None: ...


class HostApi:
    """Serves the requests of one host's extensions."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._store = Store(state_root(environ))
        self.memories = Memories(self._store)
        self.settings = StoredSettings(self._store)
        self._full: set[str] = set()
        self.external_changes = ExternalChanges(self._store, self.settings.changed)

    def handlers_for(
        self, spec: Spec, dialect: Dialect
    ) -> Callable[[Peer], Mapping[str, Handler]] | None:
        """Return what makes the handlers of a process; None if its dialect has no requests."""
        if not dialect.host_requests:
            return None

        def serve(peer: Peer) -> Mapping[str, Handler]:
            server = _RequestServer(self, spec.id, peer, resolve_limits(spec, dialect).store)
            return {
                method: _handler(server, spec, request)
                for method, request in dialect.host_requests.items()
            }

        return serve

    async def configure(
        self, extension: str, key: str, value: str, quota: int | None = None
    ) -> None:
        """Store a setting of an extension and notify its processes that subscribed to it."""
        stored = None
        self.external_changes.begin_own_write(extension, key)
        try:
            await _result(self.settings.set(extension, key, value, quota))
            stored = value
        finally:
            self.external_changes.end_own_write(extension, key, stored)
        self.settings.changed(extension, key, value)

    async def with_stored_settings(self, spec: Spec) -> Spec:
        """Return the spec with its stored settings. A store that cannot be read is a warning only:
        settings may also come from variables."""
        if not spec.settings:
            return spec
        keys = tuple(setting.key for setting in spec.settings)
        try:
            values = await _result(self.settings.get_many(spec.id, keys), missing={})
        except ConfigError as error:
            _log.warning("[%s] its stored settings are not used: %s", spec.id, error.message)
            return spec
        return replace(spec, stored=self.settings.latest(spec.id, values))

    def warn_full(self, extension: str, quota: int) -> None:
        """Warn the operator, once for each extension, that its store is full."""
        if extension not in self._full:
            self._full.add(extension)
            _log.warning(
                "[%s] it has used up its store: %.0f MB (limits.store); what it stores from now on "
                "is refused",
                extension,
                quota / 1e6,
            )

    async def close(self) -> None:
        """Stop polling and close the store."""
        await self.external_changes.close()
        if self._store.is_open:
            await asyncio.to_thread(self._store.close)


class _RequestServer:
    """Serves the requests of one process."""

    def __init__(self, api: HostApi, extension: str, peer: Peer, quota: int | None) -> None:
        self._api = api
        self._extension = extension
        self._peer = peer
        self._quota = quota
        self._watched: frozenset[str] | None = frozenset()  # None: every key
        self._end_subscription: Callable[[], None] | None = None
        peer.ended.add_done_callback(lambda _: self._unsubscribe())

    async def serve(self, action: HostAction) -> Any:
        """Return the result. Raises CallFailed with the error for the process."""
        settings, memories = self._api.settings, self._api.memories
        try:
            match action:
                case Remember():
                    return await _result(memories.append(self._extension, action, self._quota))
                case Recall():
                    return await _result(memories.query(self._extension, action), missing=[])
                case ReadConfig(key):
                    return await _result(settings.get(self._extension, key))
                case WriteConfig(key, value):
                    return await self._api.configure(self._extension, key, value, self._quota)
                case WatchConfig():
                    await self._api.external_changes.start()
                    return self._subscribe(action)
        except ConfigError as error:
            _log.error("[%s] %s", self._extension, error.message)
            raise _failed("X0750", error.message, _STORAGE) from None
        except QuotaExceeded as error:
            self._api.warn_full(self._extension, error.quota)
            raise _failed("X0755", str(error), _STORAGE) from None
        except UsageError as error:
            raise _failed("X0751", f"{error.message}: {error.help}", _BAD_PARAMS) from None

    def _subscribe(self, action: WatchConfig) -> None:
        """Add these keys to its subscription. It is notified of each change once, however often it
        subscribes."""
        if action.keys is None or self._watched is None:
            watched = None
        else:
            watched = self._watched | frozenset(action.keys)
            if len(watched) > _WATCHED_KEYS:
                raise _failed("X0751", f"more than {_WATCHED_KEYS} keys to watch", _BAD_PARAMS)
        before = self._end_subscription
        self._watched = watched
        self._end_subscription = self._api.settings.subscribe(
            self._extension,
            watched,
            lambda key, value: self._peer.send(action.make_notification(key, value)),
        )
        if before is not None:
            before()

    def _unsubscribe(self) -> None:
        if self._end_subscription is not None:
            self._end_subscription()
            self._end_subscription = None
        if not self._api.settings.has_subscribers:
            self._api.external_changes.stop()


def _handler(server: _RequestServer, spec: Spec, request: HostRequest) -> Handler:
    async def handle(params: Any) -> Any:
        return request.make_result(spec, await server.serve(request.parse_params(spec, params)))

    return handle


def read_stored_settings(spec: Spec, environ: Mapping[str, str]) -> Spec:
    """Return the spec with its stored settings, for callers without an event loop."""
    if not spec.settings:
        return spec
    store = Store(state_root(environ))
    try:
        keys = tuple(setting.key for setting in spec.settings)
        return replace(spec, stored=StoredSettings(store).get_many(spec.id, keys).result())
    except (Missing, ConfigError):
        return spec
    finally:
        store.close()


async def _result(future: Any, missing: Any = None) -> Any:
    """Return the result of a future of the store; `missing` if there is no store yet."""
    try:
        return await asyncio.wrap_future(future)
    except Missing:
        return missing


def _failed(code: str, message: str, error_code: int) -> CallFailed:
    return CallFailed(code, message, error_code=error_code, error_message=message)
