"""Hooks: extensions that look at an event before or after it happens, one after another.

An extension is asked if it offers the hook and wants this event (`Dialect.wants_hook`): the lowest
priority first, then in the order of the host. Overrides of one are seen by those after it. Before
an event, the first abort ends it, and the outcome says who and why. An extension that wants a
person asked ends it unless that person agrees. An answer that is `final` is the last. After an
event nothing can be aborted; an abort is then a warning. A handler that fails, is late or is not
there is a warning and never fails the caller.

Knows no dialect: each dialect reads its hooks into `HookAnswer`. `decision` and `transformed_body`
are passed on unchanged.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from exthost.dialects.base import Dialect
from exthost.dialects.calls import HookAnswer
from exthost.errors import ExthostError
from exthost.model import Offer, Spec

__all__ = ["MAX_HANDLERS", "Confirm", "Confirmation", "Hooked", "Hooks", "Outcome"]

_log = logging.getLogger("exthost.hooks")

# Asked one after another before every call: more would be a mistake long before this.
MAX_HANDLERS = 128


class Hooked(Protocol):
    """What the hooks need to know of an extension."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> Spec: ...
    @property
    def dialect(self) -> Dialect: ...
    @property
    def offer(self) -> Offer: ...
    @property
    def state(self) -> str: ...

    async def run_hook(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> HookAnswer: ...


class Confirmation(NamedTuple):
    """A question of an extension to a person, before an event may happen."""

    extension: str
    message: str
    hook: str
    event: Mapping[str, Any]


Confirm: TypeAlias = Callable[[Confirmation], Awaitable[bool]]
"""Asks a person; only True is a yes."""


class Outcome(NamedTuple):
    """The outcome of an event: the event with all overrides, and the answers of the handlers.

    `aborted_by` is the extension that stopped it ("" if nobody did). `decision` is the last that
    was made, except that a block stands. `injected` is what was to be added, joined by a blank
    line.
    """

    event: dict[str, Any]
    aborted_by: str = ""
    reason: str = ""
    decision: str | None = None
    decided_by: str = ""
    transformed_body: Any = None
    do_not_reply_again: bool = False
    injected: str = ""

    @property
    def stopped(self) -> bool:
        """Whether the event must not happen: a handler aborted or blocked it."""
        return bool(self.aborted_by) or self.decision == "block"


class Hooks:
    """The hooks of these extensions, in the order in which they are asked.

    `confirm` asks a person; where nobody can be asked, what needs a person's yes is stopped.
    """

    def __init__(
        self, extensions: Callable[[], Iterable[Hooked]], confirm: Confirm | None = None
    ) -> None:
        self._extensions = extensions
        self._told: set[str] = set()
        self.confirm = confirm

    def handlers(self, name: str) -> list[Hooked]:
        """Return the extensions that are asked about `name`, in order, up to MAX_HANDLERS."""
        offering = [one for one in self._extensions() if name in one.offer.hooks]
        offering.sort(key=lambda one: one.spec.priority)  # stable: the host's order among equals
        for one in offering[MAX_HANDLERS:]:
            self._warn_once(f"{one.id}: {name} has {MAX_HANDLERS} handlers already; not asked")
        return offering[:MAX_HANDLERS]

    async def run(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> Outcome:
        """Ask every handler about this event. Never raises for what a handler does."""
        outcome = Outcome(dict(event))
        for handler in self.handlers(name):
            answer = await _answer(handler, name, outcome.event, timeout)
            if answer is None:
                continue
            outcome = _joined(outcome, handler.id, answer)
            stopped = answer.reason if answer.abort else None
            if answer.confirm is not None:
                stopped = await self._unconfirmed(handler.id, answer.confirm, name, outcome.event)
            if stopped is not None:
                if name.startswith("after_"):
                    _log.warning("[%s] %s cannot stop what has happened", handler.id, name)
                    continue
                return outcome._replace(aborted_by=handler.id, reason=stopped)
            if answer.final:
                return outcome
        return outcome

    async def _unconfirmed(
        self, id: str, message: str, name: str, event: Mapping[str, Any]
    ) -> str | None:
        """Ask a person. Return None if the event may happen, or else why not."""
        if self.confirm is None:
            return f"it wants a person to be asked, and there is nobody to ask: {message}"
        try:
            agreed = await self.confirm(Confirmation(id, message, name, event))
        except Exception:
            _log.exception("[%s] nobody could be asked: %s", id, message)
            return f"it wants a person to be asked, and asking failed: {message}"
        return None if agreed is True else f"not confirmed: {message}"

    def _warn_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            _log.warning("%s", text)


async def _answer(
    handler: Hooked, name: str, event: dict[str, Any], timeout: float | None
) -> HookAnswer | None:
    try:
        wants_hook = handler.dialect.wants_hook
        if wants_hook is not None and not wants_hook(handler.spec, name, event):
            return None
        if handler.state != "ready":
            # Waiting for its restart would hold up every call of everyone.
            passed = "[%s] %s is passed over: the extension is %s"
            _log.warning(passed, handler.id, name, handler.state)
            return None
        return await handler.run_hook(name, event, timeout=timeout)
    except ExthostError as error:
        _log.warning("[%s] %s failed and is passed over: %s", handler.id, name, error.message)
        return None


def _joined(outcome: Outcome, id: str, answer: HookAnswer) -> Outcome:
    outcome = outcome._replace(
        event={**outcome.event, **answer.override},
        do_not_reply_again=outcome.do_not_reply_again or answer.do_not_reply_again,
    )
    if answer.inject is not None:
        parts = [outcome.injected, answer.inject] if outcome.injected else [answer.inject]
        outcome = outcome._replace(injected="\n\n".join(parts))
    if answer.decision is None or outcome.decision == "block":
        return outcome
    reason = answer.reason if answer.decision == "block" else outcome.reason
    return outcome._replace(
        decision=answer.decision,
        decided_by=id,
        reason=reason,
        transformed_body=answer.transformed_body,
    )
