"""Requests the list of tools again after a running process reported that its tools have changed.

At most one request is in flight. If reports come meanwhile, one more request follows it. A process
that reports changes all the time is asked less and less often, because reading a list takes time
that other extensions need. No request is sent before the handshake is done. If the reply is an
error, the extension keeps its tools, and a warning is logged. If the tools are pinned (the config
has their digest) and the new tools differ, they are not passed on, and the session ends. No request
is sent after the session has ended.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any

from exthost.dialects.steps import OneRequest, OneRequestOrMore
from exthost.errors import Refused
from exthost.model.offer import Tool
from exthost.session.failures import PinBroken
from exthost.session.session import Session

_log = logging.getLogger("exthost.extension")

# The pause between the reply with a list and the next request. It doubles each time, up to the
# maximum. After a pause and _CALM_SECONDS without a request, it begins again at the first value.
_FIRST_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 10.0
_CALM_SECONDS = 1.0


class ToolRefresh:
    """Keeps the tools of one session up to date. `check` raises Refused if a new list differs from
    the pinned tools; `on_listed` is called with the session and each other list."""

    __slots__ = (
        "_check",
        "_is_allowed",
        "_is_in_flight",
        "_is_requested",
        "_listed_at",
        "_on_listed",
        "_pause",
        "_pause_timer",
        "_session",
    )

    def __init__(
        self,
        session: Session,
        check: Callable[[tuple[Tool, ...]], object],
        on_listed: Callable[[Session, tuple[Tool, ...]], None],
    ) -> None:
        self._session = session
        self._check = check
        self._on_listed = on_listed
        self._is_allowed = False  # whether the handshake is done
        self._is_in_flight = False
        self._is_requested = False  # whether the tools have changed since the last request
        self._listed_at = -math.inf  # loop time of the last reply
        self._pause = 0.0  # the seconds from that reply to the next request
        self._pause_timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Allow requests, because the handshake is done."""
        self._is_allowed = True
        self._send_if_requested()

    def request(self) -> None:
        """Request the tools, because the process reported that they have changed."""
        self._is_requested = True
        self._send_if_requested()

    def _send_if_requested(self) -> None:
        """Request the tools now, or after the pause, if a request is due and none is in flight."""
        is_wanted = self._is_allowed and self._is_requested and self._session.cause is None
        if not is_wanted or self._is_in_flight or self._pause_timer is not None:
            return
        now = self._session.loop.time()
        if now > self._listed_at + self._pause + _CALM_SECONDS:
            self._pause = 0.0
        if now < self._listed_at + self._pause:
            next_at = self._listed_at + self._pause
            self._pause_timer = self._session.loop.call_at(next_at, self._end_pause)
            return
        self._is_requested = False
        session = self._session
        operation = session.dialect.operations.get("list_tools")
        # `run_operation` runs generators only. The dialects that report changed tools list them
        # with a generator, because a list may come in pages.
        if operation is None or isinstance(operation, OneRequest | OneRequestOrMore):
            return
        limit = session.limits.call
        assert limit is not None
        self._is_in_flight = True
        call = session.internal.run_operation("list_tools", operation(None), limit)
        call.future.add_done_callback(self._on_reply)

    def _end_pause(self) -> None:
        self._pause_timer = None
        self._send_if_requested()

    def _on_reply(self, reply: "asyncio.Future[Any]") -> None:
        """Pass on the tools that were requested, and request them again if they have changed
        since."""
        self._is_in_flight = False
        self._listed_at = self._session.loop.time()
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)
        error = reply.exception()
        if self._session.cause is not None:
            return
        if error is not None:
            _log.warning(
                "[%s] its new tools are not known: %s", self._session.diagnostics.extension, error
            )
        else:
            try:
                self._check(reply.result())
            except Refused as refused:
                self._session.end(PinBroken(refused))
                return
            self._on_listed(self._session, reply.result())
        self._send_if_requested()
