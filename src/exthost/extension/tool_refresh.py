"""An extension said that its offer is not what it was: it is asked again, once for many such words.

One question at a time: what is said while it is under way leads to one more, after it. Nothing is
asked before hands were shaken. One that does not answer well keeps the offer it had, and the log
says why. It ends with its session, whose calls all end then.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from exthost.dialects.dialect import Once, Row
from exthost.errors import ExthostError
from exthost.model import Tool
from exthost.session.session import Session

_log = logging.getLogger("exthost.extension")


class Relisting:
    """Keeps what one session's extension offers up to date."""

    __slots__ = ("_begun", "_busy", "_listed", "_session", "_wanted")

    def __init__(self, session: Session, listed: Callable[[tuple[Tool, ...]], None]) -> None:
        self._session = session
        self._listed = listed
        self._begun = False
        self._busy = False
        self._wanted = False

    def begin(self) -> None:
        """Hands were shaken, and what it offers is known: from now on it may be asked again."""
        self._begun = True
        self._look()

    def want(self) -> None:
        """It said that something has changed."""
        self._wanted = True
        self._look()

    def _look(self) -> None:
        if not (self._begun and self._wanted) or self._busy:
            return
        self._wanted = False
        session = self._session
        operation = session.dialect.operations.get("list_tools")
        if operation is None or isinstance(operation, Row | Once):
            return
        limit = session.limits.call
        assert limit is not None
        self._busy = True
        call = session.run_operation("list_tools", operation(None), limit)
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
            self._listed(answered.result())
        self._look()
