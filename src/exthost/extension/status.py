"""Where an extension stands, and what it shows of itself: state, offer, why it is not ready.

Steps through the life-cycle table and tells everyone who looks on; passes the gate; tells calls
that come too late why. Knows no process.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from exthost.dialects.dialect import Dialect
from exthost.errors import ExtensionGone, ExthostError, Refused
from exthost.events import Bus, OfferChanged, StateChanged
from exthost.extension.lifecycle import Event, State, step
from exthost.extension.startup import Starter
from exthost.launch.plan import admit
from exthost.model import Offer, Spec, Tool
from exthost.session.failures import copy_error
from exthost.extension.call_queue import CallQueue

_log = logging.getLogger("exthost.extension")


class Standing:
    """The public face of one extension's owner."""

    __slots__ = (
        "_bus",
        "_queue",
        "_loop",
        "_objection",
        "_on_change",
        "cause",
        "dialect",
        "has_told",
        "offer",
        "spec",
        "starter",
        "state",
        "tools",
    )

    def __init__(
        self,
        starter: Starter,
        queue: CallQueue,
        bus: Bus,
        *,
        on_change: Callable[[], None] | None = None,
        objection: Callable[[], Refused | None] | None = None,
    ) -> None:
        spec, dialect = starter.spec, starter.dialect
        self.spec: Spec = spec
        self.dialect: Dialect = dialect
        self.starter = starter
        self.state = State.DISCOVERED
        self.offer = Offer(tools=spec.tools, version=spec.version)
        self.tools = {tool.name: tool for tool in spec.tools}
        self.cause: ExthostError | None = None
        # Whether `tools` is what it really offers, and not what a manifest says of it.
        self.has_told = dialect.traits.tools == "manifest"
        self._queue = queue
        self._bus = bus
        self._on_change = on_change
        self._objection = objection
        self._loop: asyncio.AbstractEventLoop = queue.loop
        starter.listed = self._listed

    def admit(self) -> None:
        """Pass the gate, or be refused; nothing is started."""
        if self.state is not State.DISCOVERED:
            return
        try:
            objection = self._objection() if self._objection is not None else None
            if objection is not None:
                raise objection
            self.starter.landmarks = admit(self.spec, self.starter.environ())
        except Refused as refused:
            _log.warning("[%s] not started: %s", self.spec.id, refused.message)
            self._give_up(Event.REFUSE, refused)
        else:
            self._go(Event.ADMIT)

    def _give_up(self, event: Event, cause: ExthostError, reason: str = "") -> None:
        self.cause = cause
        self._go(event, reason or cause.message)
        self._queue.close(lambda method: _not_again(cause, reason))

    def _offered(self, offer: Offer) -> None:
        before, after = self.tools, {tool.name: tool for tool in offer.tools}
        changed = {name for name in before.keys() & after if before[name] != after[name]}
        added = tuple(sorted((after.keys() - before.keys()) | changed))
        removed = tuple(sorted((before.keys() - after.keys()) | changed))
        self.offer, self.tools, self.has_told = offer, after, True
        if self._on_change is not None:
            self._on_change()
        for warning in offer.warnings:
            _log.warning("[%s] %s", self.spec.id, warning)
        if (added or removed) and OfferChanged in self._bus.kinds:
            self._bus.publish(OfferChanged(self.spec.id, added, removed))

    def _listed(self, tools: tuple[Tool, ...]) -> None:
        """It was asked again what it offers, and said this."""
        self._offered(replace(self.offer, tools=tools, warnings=()))

    def _go(self, event: Event, reason: str = "") -> None:
        before, self.state = self.state, step(self.state, event)
        if StateChanged in self._bus.kinds:
            self._bus.publish(StateChanged(self.spec.id, before.value, self.state.value, reason))
        if self._on_change is not None:
            self._on_change()

    def _why_closed(self, method: str) -> ExthostError:
        if self.state not in (State.STOPPED, State.DRAINING) and self.cause is not None:
            return copy_error(self.cause)
        return ExtensionGone(
            "X1006",
            f"{method} was not sent: the extension was stopped",
            extension=self.spec.id,
            help="start it again with restart(), or load it anew",
        )


def _not_again(cause: ExthostError, reason: str) -> ExthostError:
    """The cause, for a call that comes too late, with the reason why it is not mended."""
    error = copy_error(cause)
    if reason and isinstance(cause, ExtensionGone):
        error.help = f"it is not started again: {reason}; restart() or a new load does"
    return error
