"""Hooks: extensions that examine an event before or after it happens, one after another.

An extension is called if it offers the hook and wants this event (`Dialect.wants_hook`): lowest
priority first, then in the order of the host. Each sees the overrides of those before it. Before an
event, the first abort ends it, and the outcome has the extension and its reason. If an extension
requests a confirmation, the event ends unless a person agrees. After an answer that is `final` no
further extension is called. After an event nothing can be aborted; an abort is then a warning.

**A guard cannot be bypassed.** A hook that may block is called in every state of its extension: an
extension that starts at first use is started, and a restart is waited for, within the time limit of
the hook. If the hook still fails, the event is stopped, unless a config says otherwise
(`hook_policy`). A hook that only observes delays nothing: if it fails or is not ready, it is
skipped.

Every failure is in the outcome, on the event bus (`HookFailed`), and in the log.

Knows no dialect: each dialect reads the replies of its hooks into `HookAnswer`. `decision`,
`replacement` and `extra` are passed on unchanged.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from exthost.dialects.base import Dialect
from exthost.dialects.calls import HookAnswer
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import ExtensionGone, ExthostError
from exthost.events import Bus, HookFailed
from exthost.host.hook_policy import HookFailure, fails_closed, may_block
from exthost.offer import Offer
from exthost.spec import Spec

__all__ = ["MAX_HANDLERS", "Confirm", "Confirmation", "Hooked", "Hooks", "Outcome"]

_log = logging.getLogger("exthost.hooks")

# Handlers run one after another before every call, so a larger number is a mistake.
MAX_HANDLERS = 128

# A hook that only observes is run in these states; it waits for no restart.
_SERVING = ("ready", "discovered", "admitted")


class Hooked(Protocol):
    """The part of an extension that the hooks need."""

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
    @property
    def may_have_hooks(self) -> bool: ...

    async def start(self) -> object: ...
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

    `aborted_by` is the extension that stopped it, or "". `decision` is the last decision, except
    that a block is never replaced. `injected` is the text to add, joined by a blank line. `failure`
    is the failed hook that stopped the event, and `passed_over` are the failed hooks that did not.
    `extra` has the other members of the answers.
    """

    event: dict[str, Any]
    aborted_by: str = ""
    reason: str = ""
    decision: str | None = None
    decided_by: str = ""
    replacement: Any = None
    injected: str = ""
    failure: HookFailure | None = None
    passed_over: tuple[HookFailure, ...] = ()
    extra: Mapping[str, Any] = EMPTY_MAPPING

    @property
    def stopped(self) -> bool:
        """Whether the event must not happen: a handler aborted or blocked it."""
        return bool(self.aborted_by) or self.decision == "block"


class Hooks:
    """The hooks of these extensions, in the order in which they are called.

    `confirm` asks a person; without it, an event that needs a confirmation is stopped. `policy` is
    the setting of the host for hooks that fail (see `hook_policy`).
    """

    def __init__(
        self,
        extensions: Callable[[], Iterable[Hooked]],
        confirm: Confirm | None = None,
        *,
        policy: Mapping[str, str] = EMPTY_MAPPING,
        bus: Bus | None = None,
    ) -> None:
        self._extensions = extensions
        self.policy = policy
        self._bus = bus
        self._told: set[str] = set()
        self.confirm = confirm

    def may_be_called(self) -> bool:
        """Return whether any extension has a hook, or may turn out to have one."""
        return any(
            extension.offer.hooks or extension.may_have_hooks for extension in self._extensions()
        )

    def handlers(self, name: str) -> list[Hooked]:
        """Return the extensions that handle `name`, in order, up to MAX_HANDLERS."""
        offering = [extension for extension in self._extensions() if name in extension.offer.hooks]
        offering.sort(
            key=lambda extension: extension.spec.priority
        )  # stable: the host's order among equals
        for extension in offering[MAX_HANDLERS:]:
            self._warn_once(
                f"{extension.id}: {name} has {MAX_HANDLERS} handlers already; not asked"
            )
        return offering[:MAX_HANDLERS]

    async def run(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> Outcome:
        """Call every handler of this event. No failure of a handler is raised."""
        outcome = Outcome(dict(event))
        await self._start_unknown()
        for handler in self.handlers(name):
            began = time.monotonic()
            try:
                answer = await _answer(handler, name, outcome.event, timeout)
            except ExthostError as error:
                if name not in handler.offer.hooks:
                    continue  # its manifest named the hook, and its handshake does not
                failure = HookFailure(handler.id, name, error)
                is_closed = fails_closed(handler.spec, name, self.policy)
                self._report(failure, is_closed, outcome.event, time.monotonic() - began)
                if is_closed:
                    reason = f"it could not judge: {error.message}"
                    return outcome._replace(aborted_by=handler.id, reason=reason, failure=failure)
                outcome = outcome._replace(passed_over=(*outcome.passed_over, failure))
                continue
            if answer is None:
                continue
            stopped = answer.reason if answer.abort else None
            if stopped is not None and not name.startswith("after_"):
                answer = answer._replace(override=EMPTY_MAPPING)  # of what does not happen
            outcome = _joined(outcome, handler.id, answer)
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
        """Ask a person. Return None if the event may happen, or the reason against it."""
        if self.confirm is None:
            return f"it wants a person to be asked, and there is nobody to ask: {message}"
        try:
            agreed = await self.confirm(Confirmation(id, message, name, event))
        except Exception:
            _log.exception("[%s] nobody could be asked: %s", id, message)
            return f"it wants a person to be asked, and asking failed: {message}"
        return None if agreed is True else f"not confirmed: {message}"

    async def _start_unknown(self) -> None:
        """Start the extensions whose hooks are known only after their handshake."""
        unknown = [extension for extension in self._extensions() if extension.may_have_hooks]
        if unknown:
            await asyncio.gather(*(_start(extension) for extension in unknown))

    def _report(
        self, failure: HookFailure, is_closed: bool, event: Mapping[str, Any], seconds: float
    ) -> None:
        id, name, error = failure
        outcome = "refused" if is_closed else "passed over"
        _log.warning("[%s] %s failed and is %s: %s", id, name, outcome, error.message)
        if self._bus is not None and HookFailed in self._bus.kinds:
            context = event.get("context", EMPTY_MAPPING)
            about = event.get("tool_name") or ""
            self._bus.publish(
                HookFailed(
                    id, name, outcome, error.message, error.code, str(about), seconds, context
                )
            )

    def _warn_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            _log.warning("%s", text)


async def _answer(
    handler: Hooked, name: str, event: dict[str, Any], timeout: float | None
) -> HookAnswer | None:
    """Return the answer of a handler; None if it does not want this event. Raises the error of a
    handler that does not answer."""
    wants_hook = handler.dialect.wants_hook
    if wants_hook is not None and not wants_hook(handler.spec, name, event):
        return None
    if not may_block(handler.spec, name) and handler.state not in _SERVING:
        raise ExtensionGone("X1007", f"the extension is {handler.state}", extension=handler.id)
    return await handler.run_hook(name, event, timeout=timeout)


async def _start(handler: Hooked) -> None:
    try:
        await handler.start()
    except ExthostError as error:
        _log.warning("[%s] its hooks are not known: %s", handler.id, error.message)


def _joined(outcome: Outcome, id: str, answer: HookAnswer) -> Outcome:
    outcome = outcome._replace(
        event={**outcome.event, **answer.override},
        extra={**outcome.extra, **answer.extra},
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
        replacement=answer.replacement,
    )
