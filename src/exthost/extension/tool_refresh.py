"""Requests the tools of a running process again, after it reported that they have changed.

One request at a time: reports that come while it is under way lead to one more request after it. No
request is sent before the handshake is done. If the reply is an error, the extension keeps its
offer, and the log says why. A refresh ends with its session.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from exthost.dialects.steps import OneRequest, OneRequestOrMore
from exthost.offer import Tool
from exthost.session.session import Session

_log = logging.getLogger("exthost.extension")


class ToolRefresh:
    """Keeps the tools of one session up to date."""

    __slots__ = ("_begun", "_busy", "_on_listed", "_session", "_wanted")

    def __init__(self, session: Session, on_listed: Callable[[tuple[Tool, ...]], None]) -> None:
        self._session = session
        self._on_listed = on_listed
        self._begun = False
        self._busy = False
        self._wanted = False

    def begin(self) -> None:
        """Allow requests: the handshake is done, and the offer is known."""
        self._begun = True
        self._ask_if_wanted()

    def request(self) -> None:
        """Request the tools: the process reported that they have changed."""
        self._wanted = True
        self._ask_if_wanted()

    def _ask_if_wanted(self) -> None:
        if not (self._begun and self._wanted) or self._busy:
            return
        self._wanted = False
        session = self._session
        operation = session.dialect.operations.get("list_tools")
        if operation is None or isinstance(operation, OneRequest | OneRequestOrMore):
            return
        limit = session.limits.call
        assert limit is not None
        self._busy = True
        call = session.internal.run_operation("list_tools", operation(None), limit)
        call.future.add_done_callback(self._on_answer)

    def _on_answer(self, answered: "asyncio.Future[Any]") -> None:
        self._busy = False
        error = answered.exception()
        if self._session.cause is not None:
            return
        if error is not None:
            _log.warning(
                "[%s] its new tools are not known: %s", self._session.diagnostics.extension, error
            )
        else:
            self._on_listed(answered.result())
        self._ask_if_wanted()
