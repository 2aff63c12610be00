"""The visible status of an extension: its state, offer and tools, and the cause if it is not ready.

The offer is the tools, hooks and capabilities that the extension announced. The supervisor and
`Recovery` call `apply_event`, which looks up the next state in the life-cycle table
(`lifecycle.py`) and publishes the change. This module knows no process, no queue and no policy.

**The lock** is a record of the tools that were approved. A tool that differs from it is in
quarantine: it is neither listed nor called. If the mode of the lock is "warn", the difference is
only reported.

**A reload.** A host that reloads an extension makes a second `Status`, which publishes no changes
while its processes start. `take_over` then silences the replaced `Status` and publishes only the
differences between the two, so subscribers see one extension all the time.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from exthost.errors import ExthostError
from exthost.events import Bus, OfferChanged, ProcessLost, Quarantined, StateChanged
from exthost.extension.call_factory import PreparedTool
from exthost.extension.lifecycle import INITIAL_STATE, Event, Health, State, step
from exthost.extension.restart_tracker import Retry
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.lock_record import Quarantine, judge_tools
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Spec
from exthost.model.tool_choice import choose_tools

_log = logging.getLogger("exthost.extension")

# A separate logger, so that the command line can silence it: it shows state changes in its own way.
_state_log = logging.getLogger("exthost.states")

# State changes are events; programs that subscribe to none still get these states in the log. Only
# `failed` needs a person: from the other three the extension recovers by itself or by a config
# change.
_LOG_LEVELS = {
    State.FAILED: logging.ERROR,
    State.REFUSED: logging.WARNING,
    State.OPEN: logging.WARNING,
    State.BACKOFF: logging.WARNING,
}


class Status:
    """The state and the offer of one extension.

    state              the present state of the life-cycle table
    offer              the last handshake's result; before a handshake, what the manifest declares
    tools              the tools of the offer that exist for the host, by name (see `tool_choice`)
    hidden_tools       the other tools of the offer
    quarantined        the announced tools that differ from the lock of the config, by name; they
                       are neither in `offer` nor in `tools`
    prepared_tools     the tools that were called, with the checks of their arguments; see
                       `Calls.prepare_announced_tool`
    cause              the error that keeps the extension from being ready, or None
    lost_process       if a process of a pool was lost while others were ready or got ready: its
                       error, and when (`time.time()`). None if that has not happened since a
                       restart was last requested
    offer_is_known     whether `tools` are final: the extension announced them, or its dialect takes
                       tools from the manifest
    is_offer_remembered  whether the offer was recorded by an earlier host (there was no handshake
                       yet)
    gone_tools         the tools of such an offer that the first handshake did not announce
    publishes_changes  False while this extension prepares to replace another one, and after it
                       was replaced
    ready_at           when a process last became ready (loop time); None while no process is ready
    hide_secrets       returns a text without the secrets of the last process; for warnings that
                       quote what the extension announced
    handshake_seconds  how long the last handshake took
    reported_health    the last health report of the extension, if it was degraded or unhealthy
    """

    __slots__ = (
        "_bus",
        "_on_change",
        "_spec",
        "cause",
        "gone_tools",
        "handshake_seconds",
        "hidden_tools",
        "hide_secrets",
        "is_offer_remembered",
        "lost_process",
        "offer",
        "offer_is_known",
        "prepared_tools",
        "publishes_changes",
        "quarantined",
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
        self._spec = spec
        self._bus = bus
        self._on_change = on_change
        self.publishes_changes = publishes_changes
        self.state = INITIAL_STATE
        self.quarantined: Mapping[str, Quarantine] = EMPTY_MAPPING
        hooks = tuple(dict.fromkeys((*spec.declared_hooks, *spec.known_hooks)))
        known = spec.known_offer
        self.is_offer_remembered = known is not None
        if known is not None:
            offer = replace(known.offer, hooks=hooks or known.offer.hooks)
        else:
            offer = Offer(tools=spec.declared_tools, version=spec.version, hooks=hooks)
        self._use_offer(offer, is_manifest=known is None)
        self.gone_tools: Collection[str] = ()
        self.prepared_tools: dict[str, PreparedTool] = {}
        self.cause: ExthostError | None = None
        self.lost_process: tuple[ExthostError, float] | None = None
        self.offer_is_known = offer_is_known
        self.ready_at: float | None = None
        self.handshake_seconds = 0.0
        self.hide_secrets: Callable[[str], str] = str
        self.reported_health: Health | None = None

    def without_secrets(self, text: str) -> str:
        """Return a text without the secrets of the last process."""
        return self.hide_secrets(text)

    def apply_event(self, event: Event, reason: str = "", retry: Retry | None = None) -> None:
        """Go to the next state by the life-cycle table, and publish and log the change. `retry` is
        the restart that follows, if one does.

        Raises IllegalMove if the table has no such move.
        """
        old_state, self.state = self.state, step(self.state, event)
        self._publish_state(old_state, reason, retry)
        self._log_trouble(old_state, reason)
        self._notify_host()

    def record_process_ready(self, now: float, handshake_seconds: float) -> None:
        """Record that a process is ready, which clears the cause and the reported health."""
        self.ready_at = now
        self.handshake_seconds = handshake_seconds
        self.cause = None
        self.reported_health = None

    def record_health(self, health: Health | None, ready_at: float | None) -> None:
        """Record the reply to a health request, which was made while `ready_at` had this value. A
        reply of a process that was replaced meanwhile is ignored."""
        if ready_at is None or ready_at == self.ready_at:
            self.reported_health = health

    def set_offer(self, offer: Offer) -> None:
        """Replace the offer, and publish which tools differ from those of the last offer. Tools
        that differ from the lock are put into `quarantined`."""
        old_tools = self.tools
        self._use_offer(offer)
        self.offer_is_known = True
        if self.is_offer_remembered:
            self.is_offer_remembered = False
            self.gone_tools = frozenset(old_tools.keys() - self.tools.keys())
        self.prepared_tools = {}
        self._notify_host()
        for warning in offer.warnings:
            _log.warning("[%s] %s", self._spec.id, warning)
        self._publish_tools(old_tools)

    def _use_offer(self, offer: Offer, *, is_manifest: bool = False) -> None:
        """Use an offer, or the tools that the manifest declares. Tools that differ from the lock
        are kept apart, under the names that the operator chose for them, which no other tool
        gets."""
        tools, self.hidden_tools = choose_tools(offer.tools, self._spec.tools)
        allowed = self._quarantine(offer.tools, tools, is_manifest=is_manifest)
        if quarantined := self.quarantined:
            offer = replace(offer, tools=allowed)
            tools = {
                name: tool
                for name, tool in tools.items()
                if (tool.original_name or name) not in quarantined
            }
        self.offer, self.tools = offer, tools

    def _quarantine(
        self, offered: tuple[Tool, ...], chosen: Mapping[str, Tool], *, is_manifest: bool
    ) -> tuple[Tool, ...]:
        """Set `quarantined`. Return the other tools of those that were offered."""
        lock = self._spec.lock
        if lock is None:
            return offered
        allowed, quarantined = judge_tools(lock.record, offered, is_manifest=is_manifest)
        for tool in chosen.values():
            name = tool.original_name or tool.name
            if name in quarantined:
                quarantined[name] = quarantined[name]._replace(tool=tool)
        before = self.quarantined
        if (self._spec.pool.max or 1) > 1:
            # A tool of one process goes to quarantine for all. Another process may still have the
            # quarantined tool when this one has announced the approved tool again.
            quarantined = {**before, **quarantined}
            allowed = tuple(tool for tool in allowed if tool.name not in quarantined)
        self.quarantined = quarantined
        self._publish_quarantine(before)
        if lock.mode == "enforce":
            return allowed
        self.quarantined = EMPTY_MAPPING  # the mode is "warn", and the differences were reported
        return offered

    def _publish_quarantine(self, before: Mapping[str, Quarantine]) -> None:
        """Log and publish the tools that are in quarantine for another reason than `before`."""
        lock = self._spec.lock
        if not self.publishes_changes or lock is None:
            return
        is_enforced = lock.mode == "enforce"
        verb = "is quarantined" if is_enforced else "differs from the lock"
        for name, quarantine in self.quarantined.items():
            if name not in before or before[name].changes != quarantine.changes:
                id, reason = self._spec.id, quarantine.reason
                _log.warning("[%s] the tool %s %s: %s", id, name, verb, reason)
                self._bus.publish(Quarantined(id, name, reason, is_enforced))

    def set_tools(self, tools: tuple[Tool, ...]) -> None:
        """Replace the tools of the offer, as the running process lists them now."""
        self.set_offer(replace(self.offer, tools=tools, warnings=()))

    def take_over(self, old: "Status | None") -> None:
        """Publish changes from now on in place of `old`, and stop the publications of `old`."""
        if self.publishes_changes:
            return
        old_state, old_tools = (INITIAL_STATE, _NO_TOOLS) if old is None else (old.state, old.tools)
        if old is not None:
            old.publishes_changes = False
        self.publishes_changes = True
        if self.state is not old_state:
            self._publish_state(old_state, "reloaded")
        self._notify_host()
        self._publish_tools(old_tools)
        self._publish_quarantine({} if old is None else old.quarantined)

    def publish_lost_process(self, lost: ProcessLost) -> None:
        """Publish that a process of the pool was lost."""
        if self.publishes_changes and ProcessLost in self._bus.listeners:
            self._bus.publish(lost)

    def _publish_state(self, old_state: State, reason: str, retry: Retry | None = None) -> None:
        if self.publishes_changes and StateChanged in self._bus.listeners:
            states = old_state.value, self.state.value
            self._bus.publish(StateChanged(self._spec.id, *states, reason, *(retry or ())))

    def _log_trouble(self, old_state: State, reason: str) -> None:
        """Log a change to a state that an operator should know of."""
        level = _LOG_LEVELS.get(self.state)
        if level is None and self.state is State.ADMITTED and old_state is not State.DISCOVERED:
            # Back in `admitted`: with the restart strategy "on-demand" this may follow a crash,
            # which has a cause. An extension that ended because it was idle has none.
            level = logging.WARNING if reason and self.cause is not None else None
        if level is None or not self.publishes_changes:
            return
        cause = self.cause
        if cause is not None and cause.message not in reason:
            reason = f"{reason}: {cause.message}"
        code = f" [{cause.code}]" if cause is not None else ""
        help = f"; {cause.help}" if cause is not None and cause.help else ""
        state = self.state.value
        _state_log.log(level, "[%s] %s: %s%s%s", self._spec.id, state, reason, code, help)

    def _publish_tools(self, old_tools: Mapping[str, Tool]) -> None:
        """Publish how the tools differ from `old_tools`, if they do."""
        if not self.publishes_changes or OfferChanged not in self._bus.listeners:
            return
        tools = self.tools
        added = tuple(sorted(tools.keys() - old_tools.keys()))
        removed = tuple(sorted(old_tools.keys() - tools.keys()))
        kept_names = old_tools.keys() & tools.keys()
        changed = tuple(sorted(name for name in kept_names if old_tools[name] != tools[name]))
        if added or removed or changed:
            self._bus.publish(OfferChanged(self._spec.id, added, removed, changed))

    def _notify_host(self) -> None:
        """Let the host update its registry of tools."""
        if self.publishes_changes and self._on_change is not None:
            self._on_change()


_NO_TOOLS: Mapping[str, Tool] = {}
