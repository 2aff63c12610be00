"""Requests the list of tools again after a running process reported that its tools have changed.

At most one request is in flight. If reports come meanwhile, one more request follows it. No request
is sent before the handshake is done. If the reply is an error, the extension keeps its tools, and a
warning is logged. If the new tools are not those that were pinned, they are not passed on, and the
session ends. No request is sent after the session has ended.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from exthost.dialects.steps import OneRequest, OneRequestOrMore
from exthost.errors import Refused
from exthost.offer import Tool
from exthost.session.failures import PinBroken
from exthost.session.session import Session

_log = logging.getLogger("exthost.extension")


class ToolRefresh:
    """Keeps the tools of one session up to date. `check` raises Refused if a new list differs from
    the pinned tools; `on_listed` is called with each other list."""

    __slots__ = (
        "_check",
        "_is_allowed",
        "_is_in_flight",
        "_is_requested",
        "_on_listed",
        "_session",
    )

    def __init__(
        self,
        session: Session,
        check: Callable[[tuple[Tool, ...]], object],
        on_listed: Callable[[tuple[Tool, ...]], None],
    ) -> None:
        self._session = session
        self._check = check
        self._on_listed = on_listed
        self._is_allowed = False
        self._is_in_flight = False
        self._is_requested = False

    def begin(self) -> None:
        """Allow requests, because the handshake is done."""
        self._is_allowed = True
        self._send_if_requested()

    def request(self) -> None:
        """Request the tools, because the process reported that they have changed."""
        self._is_requested = True
        self._send_if_requested()

    def _send_if_requested(self) -> None:
        if not (self._is_allowed and self._is_requested) or self._is_in_flight:
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

    def _on_reply(self, reply: "asyncio.Future[Any]") -> None:
        self._is_in_flight = False
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
            self._on_listed(reply.result())
        self._send_if_requested()
