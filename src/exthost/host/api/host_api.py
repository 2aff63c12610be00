"""Answers the requests of extensions for memory and settings.

Each dialect translates its own requests into the actions of `dialects.host_requests`, such as
`Remember` or `ReadConfig`. This module performs the actions; it is the same for every dialect.

For example, the dialect synaps reads a request for a stored value as `ReadConfig("theme")`, and
`perform` returns the value. Each process of an extension has a `_RequestServer`, whose
subscriptions end with the process. The store is a file of SQLite, which the first request opens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from exthost.errors import CallFailed, ConfigError, UsageError
from exthost.extension.misuse import check_name, wrong_type_error
from exthost.process.state_root import state_root

if TYPE_CHECKING:
    from exthost.dialects import host_requests
    from exthost.dialects.base import Dialect
    from exthost.host.api.external_changes import ExternalChanges
    from exthost.host.api.memory import Memories
    from exthost.host.api.store import Store
    from exthost.host.api.stored_settings import StoredSettings
    from exthost.host.known_hooks import KnownHooks
    from exthost.model.messages import Notification
    from exthost.model.spec import Spec
    from exthost.session.inbound import Handler

_log = logging.getLogger("exthost.host.api")

# JSON-RPC error codes.
_STORAGE_ERROR = -32000
_INVALID_PARAMS = -32602

# The most keys that one process may subscribe to, and their size together. One that needs more can
# subscribe to all keys.
_MAX_WATCHED_KEYS = 1000
_MAX_WATCHED_BYTES = 64 * 1024

# While a process has more unread bytes than this, only the last value of each setting is kept for
# it. This is the default size of a pipe.
_MAX_UNREAD_BYTES = 64 * 1024


class RequestingProcess(Protocol):
    """A process of an extension that sends requests. `ended` is done when the process is gone.
    `drained` waits until everything that was sent is in the pipe, or the process has ended."""

    ended: asyncio.Future[None]

    def send(self, message: Notification) -> None: ...
    def unread_bytes(self) -> int: ...
    async def drained(self) -> None: ...


class HostApi:
    """Answers the requests of the extensions of one host."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._warned_as_full: set[str] = set()

    # These are created at their first use, because few hosts need them, and importing sqlite3 takes
    # long. A cached property that was used is in `vars(self)`; see `close`.
    @cached_property
    def _store(self) -> Store:
        from exthost.host.api.store import Store

        return Store(state_root(self._environ))

    @cached_property
    def known_hooks(self) -> KnownHooks:
        from exthost.host.known_hooks import KnownHooks

        return KnownHooks(self._store)

    @cached_property
    def memories(self) -> Memories:
        from exthost.host.api.memory import Memories

        return Memories(self._store)

    @cached_property
    def settings(self) -> StoredSettings:
        from exthost.host.api.stored_settings import StoredSettings

        return StoredSettings(self._store)

    @cached_property
    def external_changes(self) -> ExternalChanges:
        from exthost.host.api.external_changes import ExternalChanges

        return ExternalChanges(self._store, self.settings.report_change)

    def handlers_for(
        self, spec: Spec, dialect: Dialect
    ) -> Callable[[RequestingProcess], Mapping[str, Handler]] | None:
        """Return a function that creates the request handlers for one process of the extension, by
        method. Return None if the dialect has no such requests."""
        if not dialect.host_requests:
            return None

        def make_handlers(process: RequestingProcess) -> Mapping[str, Handler]:
            from exthost.launch.limits import resolve_limits

            server = _RequestServer(self, spec.id, process, resolve_limits(spec, dialect).store)
            return {
                method: _make_handler(server, spec, request)
                for method, request in dialect.host_requests.items()
            }

        return make_handlers

    async def configure(
        self, extension: str, key: str, value: str, quota: int | None = None
    ) -> None:
        """Store a setting of an extension, and notify its processes that subscribed to it. Raises
        QuotaExceeded if it would then store more than `quota` bytes; None is unlimited."""
        check_name(key, "a setting")
        if not isinstance(value, str):
            raise wrong_type_error("the value of a setting", "a string", value)
        for text in (key, value):
            try:
                text.encode()
            except UnicodeEncodeError:  # a lone surrogate
                raise wrong_type_error("a setting", "valid Unicode", text) from None
        stored = None
        # Reported to `external_changes`, so that it does not take this write for one of another
        # host.
        self.external_changes.begin_own_write(extension, key)
        try:
            await _result(self.settings.set(extension, key, value, quota))
            stored = value
        finally:
            self.external_changes.end_own_write(extension, key, stored)
        self.settings.report_change(extension, key, value)

    async def with_stored_settings(self, spec: Spec) -> Spec:
        """Return the spec with the stored values of its settings. If the store cannot be read, log
        a warning and return the spec unchanged, because settings may also come from environment
        variables."""
        if not spec.settings:
            return spec
        keys = tuple(setting.key for setting in spec.settings)
        try:
            values = await _result(self.settings.get_many(spec.id, keys), missing={})
        except ConfigError as error:
            _log.warning("[%s] its stored settings are not used: %s", spec.id, error.message)
            return spec
        return replace(spec, stored=self.settings.live_view(spec.id, values))

    def warn_full(self, extension: str, quota: int) -> None:
        """Warn the operator, once for each extension, that its store is full."""
        if extension not in self._warned_as_full:
            self._warned_as_full.add(extension)
            _log.warning(
                "[%s] it has used up its store: %.0f MB (limits.store); what it stores from now on "
                "is refused",
                extension,
                quota / 1e6,
            )

    async def close(self) -> None:
        """Stop polling and close the store."""
        if "external_changes" in vars(self):
            await self.external_changes.close()
        if "_store" in vars(self) and self._store.is_open:
            await asyncio.to_thread(self._store.close)


class _RequestServer:
    """Answers the requests of one process. `quota` is how many bytes its extension may store; None
    is unlimited."""

    def __init__(
        self, api: HostApi, extension: str, process: RequestingProcess, quota: int | None
    ) -> None:
        self._api = api
        self._extension = extension
        self._process = process
        self._quota = quota
        self._watched_keys: frozenset[str] | None = frozenset()  # None: every key
        self._cancel_subscription: Callable[[], None] | None = None
        # Notifications that wait until the process reads, by key, and the task that sends them.
        self._unsent: dict[str, Notification] = {}
        self._send_task: asyncio.Task[None] | None = None
        process.ended.add_done_callback(lambda _: self._unsubscribe())

    async def perform(self, action: host_requests.HostAction) -> Any:
        """Perform the action and return the result. Raises CallFailed with the error reply for the
        process."""
        settings, memories = self._api.settings, self._api.memories
        from exthost.dialects import host_requests
        from exthost.host.api.store_quota import QuotaExceeded

        try:
            match action:
                case host_requests.Remember():
                    return await _result(memories.append(self._extension, action, self._quota))
                case host_requests.Recall():
                    return await _result(memories.query(self._extension, action), missing=[])
                case host_requests.ReadConfig(key):
                    return await _result(settings.get(self._extension, key))
                case host_requests.WriteConfig(key, value):
                    return await self._api.configure(self._extension, key, value, self._quota)
                case host_requests.WatchConfig():
                    await self._api.external_changes.start()
                    return self._subscribe(action)
        except ConfigError as error:
            _log.error("[%s] %s", self._extension, error.message)
            raise _error_reply("X0750", error.message, _STORAGE_ERROR) from None
        except QuotaExceeded as error:
            self._api.warn_full(self._extension, error.quota)
            raise _error_reply("X0755", str(error), _STORAGE_ERROR) from None
        except UsageError as error:
            raise _error_reply("X0751", f"{error.message}: {error.help}", _INVALID_PARAMS) from None

    def _subscribe(self, action: host_requests.WatchConfig) -> None:
        """Add these keys to the subscription of the process. The process has one subscription, so
        it is notified of each change once, however often it subscribes."""
        if action.keys is None or self._watched_keys is None:
            keys = None
        else:
            keys = self._watched_keys | frozenset(action.keys)
            message = ""
            if len(keys) > _MAX_WATCHED_KEYS:
                message = f"more than {_MAX_WATCHED_KEYS} keys to watch"
            elif sum(len(key.encode()) for key in keys) > _MAX_WATCHED_BYTES:
                message = f"the keys to watch have more than {_MAX_WATCHED_BYTES} bytes"
            if message:
                raise _error_reply("X0751", message, _INVALID_PARAMS)
        cancel_old = self._cancel_subscription
        self._watched_keys = keys
        self._cancel_subscription = self._api.settings.subscribe(
            self._extension,
            keys,
            lambda key, value: self._notify(key, action.make_notification(key, value)),
        )
        if cancel_old is not None:
            cancel_old()

    def _notify(self, key: str, message: Notification) -> None:
        """Notify the process of a change of this key. If it does not read, keep the notification,
        and drop an earlier one of the same key."""
        if not self._unsent and self._process.unread_bytes() <= _MAX_UNREAD_BYTES:
            self._process.send(message)
            return
        self._unsent.pop(key, None)  # so that the order is that of the last changes
        self._unsent[key] = message
        if self._send_task is None or self._send_task.done():
            self._send_task = asyncio.get_running_loop().create_task(self._send_unsent())

    async def _send_unsent(self) -> None:
        """Send what `_notify` has kept, one notification at a time, as the process reads."""
        while self._unsent:
            await self._process.drained()
            if self._unsent:
                self._process.send(self._unsent.pop(next(iter(self._unsent))))

    def _unsubscribe(self) -> None:
        if self._cancel_subscription is not None:
            self._cancel_subscription()
            self._cancel_subscription = None
        self._unsent.clear()  # `_send_unsent` returns: nothing waits for a process that has ended
        if not self._api.settings.has_subscribers:
            self._api.external_changes.stop()


def _make_handler(
    server: _RequestServer, spec: Spec, request: host_requests.HostRequest
) -> Handler:
    """Return a function that answers one request: from its parameters to its result."""

    async def handle(params: Any) -> Any:
        return request.make_result(spec, await server.perform(request.parse_params(spec, params)))

    return handle


def read_stored_settings(spec: Spec, environ: Mapping[str, str]) -> Spec:
    """Return the spec with the stored values of its settings, for callers without an event loop. If
    the store cannot be read, return the spec unchanged."""
    if not spec.settings:
        return spec
    from exthost.host.api.store import Missing, Store
    from exthost.host.api.stored_settings import StoredSettings

    store = Store(state_root(environ))
    try:
        keys = tuple(setting.key for setting in spec.settings)
        return replace(spec, stored=StoredSettings(store).get_many(spec.id, keys).result())
    except (Missing, ConfigError):
        return spec
    finally:
        store.close()


async def _result(future: Any, missing: Any = None) -> Any:
    """Return the result of a future of the store, or `missing` if there is no store yet."""
    from exthost.host.api.store import Missing

    try:
        return await asyncio.wrap_future(future)
    except Missing:
        return missing


def _error_reply(code: str, message: str, error_code: int) -> CallFailed:
    """Return the error that the process gets as a reply, with this JSON-RPC error code."""
    return CallFailed(code, message, error_code=error_code, error_message=message)
