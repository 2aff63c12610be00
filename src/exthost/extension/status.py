"""The visible status of an extension: its state, offer and tools, and the cause if it is not ready.

Moves through the life-cycle table and publishes every change. Knows no process, no queue and no
policy.

**A reload.** An extension that replaces another one gets ready without publishing changes.
`take_over` then stops the publications of the replaced one and publishes what differs, so
subscribers see one extension all the time.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from exthost.errors import ExthostError
from exthost.events import Bus, OfferChanged, StateChanged
from exthost.extension.lifecycle import INITIAL_STATE, Event, Health, State, step
from exthost.offer import Offer, Tool
from exthost.spec import Spec

_log = logging.getLogger("exthost.extension")

# A logger of its own, since the command line shows changes of state in another way.
_state_log = logging.getLogger("exthost.states")

# The states that are logged, for programs that subscribe to no event.
_LEVELS = {
    State.FAILED: logging.ERROR,
    State.REFUSED: logging.WARNING,
    State.OPEN: logging.WARNING,
    State.BACKOFF: logging.WARNING,
}


class Status:
    """The state and the offer of one extension.

    cause              why it is not ready, or None
    offer_is_known     whether `tools` are what the extension offers, and not what a manifest claims
    is_published       whether changes are published
    ready_at           when a process last got ready; None while no process serves
    handshake_seconds  how long the last handshake took
    reported_health    the health that the extension last reported, if that was not good
    """

    __slots__ = (
        "_bus",
        "_id",
        "_on_change",
        "cause",
        "handshake_seconds",
        "offer",
        "offer_is_known",
        "publishes_changes",
        "ready_at",
        "reported_health",
        "state",
        "tools",
    )

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        *,
        offer_is_known: bool = False,
        on_change: Callable[[], None] | None = None,
        publishes_changes: bool = True,
    ) -> None:
        self._id = spec.id
        self._bus = bus
        self._on_change = on_change
        self.publishes_changes = publishes_changes
        self.state = INITIAL_STATE
        self.offer = Offer(tools=spec.tools, version=spec.version, hooks=spec.declared_hooks)
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in spec.tools}
        self.cause: ExthostError | None = None
        self.offer_is_known = offer_is_known
        self.ready_at: float | None = None
        self.handshake_seconds = 0.0
        self.reported_health: Health | None = None

    def apply_event(self, event: Event, reason: str = "") -> None:
        """Move through the life-cycle table, and publish the change."""
        before, self.state = self.state, step(self.state, event)
        self._publish_state(before, reason)
        self._log_trouble(before, reason)
        self._tell_change()

    def record_process_ready(self, now: float, handshake_seconds: float) -> None:
        """Record that a process serves: there is no cause any more."""
        self.ready_at, self.handshake_seconds = now, handshake_seconds
        self.cause, self.reported_health = None, None

    def set_offer(self, offer: Offer) -> None:
        """Replace the offer, and publish which tools differ."""
        before = self.tools
        self.offer, self.offer_is_known = offer, True
        self.tools = {tool.name: tool for tool in offer.tools}
        self._tell_change()
        for warning in offer.warnings:
            _log.warning("[%s] %s", self._id, warning)
        self._publish_tools(before)

    def set_tools(self, tools: tuple[Tool, ...]) -> None:
        """Replace the tools of the offer, as the running process lists them now."""
        self.set_offer(replace(self.offer, tools=tools, warnings=()))

    def take_over(self, old: "Status | None") -> None:
        """Publish from now on in place of `old`, which publishes nothing any more."""
        if self.publishes_changes:
            return
        state, tools = (INITIAL_STATE, _NO_TOOLS) if old is None else (old.state, old.tools)
        if old is not None:
            old.publishes_changes = False
        self.publishes_changes = True
        if self.state is not state:
            self._publish_state(state, "reloaded")
        self._tell_change()
        self._publish_tools(tools)

    def _publish_state(self, before: State, reason: str) -> None:
        if self.publishes_changes and StateChanged in self._bus.kinds:
            self._bus.publish(StateChanged(self._id, before.value, self.state.value, reason))

    def _log_trouble(self, before: State, reason: str) -> None:
        level = _LEVELS.get(self.state)
        if level is None and self.state is State.ADMITTED and before is not State.DISCOVERED:
            level = logging.WARNING if reason and self.cause is not None else None
        if level is None or not self.publishes_changes:
            return
        cause = self.cause
        code = f" [{cause.code}]" if cause is not None else ""
        help = f"; {cause.help}" if cause is not None and cause.help else ""
        _state_log.log(level, "[%s] %s: %s%s%s", self._id, self.state.value, reason, code, help)

    def _publish_tools(self, before: Mapping[str, Tool]) -> None:
        if not self.publishes_changes or OfferChanged not in self._bus.kinds:
            return
        after = self.tools
        added = tuple(sorted(after.keys() - before.keys()))
        removed = tuple(sorted(before.keys() - after.keys()))
        both = before.keys() & after.keys()
        changed = tuple(sorted(name for name in both if before[name] != after[name]))
        if added or removed or changed:
            self._bus.publish(OfferChanged(self._id, added, removed, changed))

    def _tell_change(self) -> None:
        if self.publishes_changes and self._on_change is not None:
            self._on_change()


_NO_TOOLS: Mapping[str, Tool] = {}
