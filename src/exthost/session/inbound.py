"""The child asks: each question is served by a task of its own, so the reader never waits.

A `holding` is told when a question is open, and when it was answered with those that came along
with it: for children that take the next thing they hear for that answer. Questions that come after
the first answer do not count: a child that goes on asking must not keep everything else away.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from exthost.errors import CallFailed, ExthostError
from exthost.messages import Failure, Id, Reply, Request
from exthost.session.holding import Holding
from exthost.session.witness import Witness

_log = logging.getLogger("exthost.session")

# Questions that may be served at the same time; a flood beyond is refused.
AT_ONCE = 256

Handler: TypeAlias = Callable[[Any], Awaitable[Any]]
"""From params to the result. Raise CallFailed to answer with an error of your own."""


class Inbound:
    """The questions of one child that are being served."""

    __slots__ = (
        "_counts",
        "_handlers",
        "_holding",
        "_loop",
        "_more_count",
        "_refuse",
        "_tasks",
        "_tell",
        "_witness",
    )

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        refuse: Callable[[Request], Reply | Failure],
        tell: Callable[[Reply | Failure], None],
        witness: Witness,
        loop: asyncio.AbstractEventLoop,
        *,
        holding: Holding | None = None,
    ) -> None:
        self._handlers = handlers
        self._refuse = refuse
        self._tell = tell
        self._witness = witness
        self._loop = loop
        self._counts: set[Any] = set()  # the questions for whose answers the rest is kept back
        self._more_count = True
        self._holding = holding
        self._tasks: dict[Id | tuple[str, str] | None, asyncio.Task[None]] = {}

    def take(self, request: Request) -> None:
        """Serve it, or say at once that nobody will."""
        handler = self._handlers.get(request.method)
        if handler is None:
            self._tell(self._refuse(request))
        elif (key := _key(request.id)) in self._tasks:
            self._witness.drop("requests under an id that is still being served")
        elif len(self._tasks) >= AT_ONCE:
            self._witness.drop("requests beyond those that can be served at once")
            self._tell(Failure(request.id, "too many requests at once", -32000))
        else:
            if self._holding is not None:
                self._count(key, self._holding)
            self._tasks[key] = self._loop.create_task(self._serve(handler, request))

    def inquire(self, request: Request, told: Callable[[Reply | Failure], None]) -> None:
        """Serve a question that came inside an answer; `told` is called later, never at once."""
        handler = self._handlers.get(request.method)
        if handler is None:
            self._loop.call_soon(told, self._refuse(request))
        else:
            key = ("inside", repr(request.id))
            self._tasks[key] = self._loop.create_task(self._serve_inside(handler, request, told))

    async def _serve_inside(
        self, handler: Handler, request: Request, told: Callable[[Reply | Failure], None]
    ) -> None:
        try:
            answer = await _answer(handler, request)
        finally:
            self._tasks.pop(("inside", repr(request.id)), None)
        told(answer)

    async def _serve(self, handler: Handler, request: Request) -> None:
        try:
            answer = await _answer(handler, request)
        except BaseException:
            self._over(request)
            raise
        try:
            self._tell(answer)
        except ExthostError as error:  # the answer cannot be said in this dialect
            self._tell(Failure(request.id, error.message, -32603))
        finally:
            self._over(request)

    def _count(self, key: Any, holding: Holding) -> None:
        if not self._counts:
            self._counts.add(key)
            self._more_count = True
            holding.begin()
        elif self._more_count:
            self._counts.add(key)

    def _over(self, request: Request) -> None:
        """This question was answered, or nobody is left to be answered."""
        key = _key(request.id)
        self._tasks.pop(key, None)
        self._more_count = False
        if self._counts == {key}:
            self._rest()
        self._counts.discard(key)

    def _rest(self) -> None:
        if self._counts and self._holding is not None:
            self._counts.clear()
            self._holding.end()

    def end(self) -> None:
        """Nobody is left to answer to."""
        for task in list(self._tasks.values()):
            task.cancel()
        self._rest()  # a task that is cancelled before its first step never says that it is over


async def _answer(handler: Handler, request: Request) -> Reply | Failure:
    try:
        return Reply(request.id, await handler(request.params))
    except CallFailed as no:
        code = -32000 if no.error_code is None else no.error_code
        return Failure(request.id, no.error_message or no.message, code, no.data)
    except Exception as error:
        _log.exception("the handler of %s failed", request.method)
        return Failure(request.id, f"the host could not serve this: {error}", -32603)


def _key(id: Any) -> Any:
    """An id to look up by. Children may use what is no id at all, a list or `true`, and some
    dialects answer them all the same."""
    return id if type(id) in (int, str) else ("odd", repr(id))
