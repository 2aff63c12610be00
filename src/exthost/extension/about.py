"""What an extension is, as its users may look at it: read-only, and never in the way of a call."""

import asyncio
from collections.abc import Mapping
from typing import Any

from exthost.dialects.dialect import Dialect
from exthost.errors import ExthostError
from exthost.extension.facets import Facets
from exthost.extension.lifecycle import State, health, serves
from exthost.extension.owner import Owner
from exthost.extension.toolbox import Toolbox
from exthost.launch.integrity import digests
from exthost.model import Offer, Spec
from exthost.names import registered_name
from exthost.process.environment import Environment
from exthost.extension.accounting import LOSSES
from exthost.extension.call_queue import CallQueue


# States in which a start is under way or a call would cause one.
_UNDERWAY = (State.DISCOVERED, State.ADMITTED, State.STARTING, State.BACKOFF)


class About(Facets):
    """The facts of one extension."""

    spec: Spec
    dialect: Dialect
    queue: CallQueue
    _owner: Owner
    _loop: asyncio.AbstractEventLoop

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def state(self) -> str:
        """Where it stands in the life-cycle table, as a word."""
        return self._owner.state.value

    @property
    def health(self) -> str:
        """One word: running, degraded, unhealthy, restarting, idle, suspended, failed …

        While it is ready it is what it said itself when it was last asked (`check_health`), or
        degraded if it has crashed before or its breaker is not closed again yet.
        """
        owner = self._owner
        if owner.state is State.READY and owner.ailment:
            return owner.ailment
        ailing = owner.history.crashes > 0 or owner.guard.is_half_open
        return health(owner.state, crashed=ailing)

    @property
    def cause(self) -> ExthostError | None:
        """Why it is not ready, when it is not."""
        return self._owner.cause

    @property
    def offer(self) -> Offer:
        """What it offers, by its last handshake or its manifest."""
        return self._owner.offer

    @property
    def tools(self) -> Toolbox:
        """Its tools by their own names; `tools.call` answers where `call_tool` raises."""
        return Toolbox(self.dialect, lambda: self._owner.tools, self.call_tool)

    @property
    def manifest(self) -> Any:
        """The dialect's own reading of its manifest; None where there is none."""
        return self.spec.manifest

    @property
    def serves(self) -> bool:
        """Whether its tools are listed: it can serve them, or will be started for a call."""
        return serves(self._owner.state)

    @property
    def argv(self) -> tuple[str, ...]:
        """What was really executed, or would be."""
        return self._owner.starter.argv

    @property
    def environment(self) -> Environment:
        """Which variables its process got, and which were held back."""
        return self._owner.starter.prepared().environment

    @property
    def enforced(self) -> Mapping[str, str]:
        """What holds its process in, as data."""
        return self._owner.starter.prepared().enforced

    @property
    def digests(self) -> dict[str, str]:
        """What could be pinned of it, by the keys of `sha256` in a config."""
        plan = self._owner.starter.prepared().plan
        return digests(self.spec, plan, self._owner.offer.tools)

    def registered_name(self, tool: str) -> str:
        """The name under which a host lists this tool of its."""
        return registered_name(self.id, tool)

    def knows(self, tool: str) -> bool:
        """Whether this tool is known by its own word: a manifest may name tools without their
        schemas, and arguments are not sent unchecked."""
        return self._owner.has_told and tool in self._owner.tools

    @property
    def is_silent(self) -> bool:
        """Whether nobody knows what it offers until it is started."""
        return not self._owner.tools and self._may_offer_more

    @property
    def _may_offer_more(self) -> bool:
        """Whether its handshake, still to come, tells what it offers; a manifest tells at once."""
        return self._owner.state in _UNDERWAY and self.dialect.traits.tools == "handshake"

    @property
    def stats(self) -> Mapping[str, Any]:
        """Counts since it was loaded, and of the process that is there now.

        `calls` is the sum of `result`, `error`, `timeout`, `cancelled` and `gone`: each accepted
        call ends in exactly one of them, and is in `in_flight` or `waiting` until then.
        """
        owner, queue = self._owner, self.queue
        session = owner.session
        outcomes = {"result": queue.accounting.results} | {name: queue.accounting.losses[name] for name in LOSSES}
        under_way = [call for one in queue.live_sessions for call in one.conversation.calls()]
        now = self._loop.time()
        return {
            "calls": sum(outcomes.values()),
            **outcomes,
            "in_flight": sum(not call.internal for call in under_way),
            "waiting": len(queue.waiting),
            "restarts": owner.history.restarts,
            "crashes": owner.history.crashes,
            "breaker": owner.guard.phase.value,
            "processes": len(owner.crew.serving),
            "uptime": now - owner.ready_at if owner.ready_at is not None else 0.0,
            "pid": session.lifetime.child.pid if session is not None else None,
            "dropped": dict(session.diagnostics.counts) if session is not None else {},
            "timings_ms": {
                "spawn": session.lifetime.child.spawn_seconds * 1000 if session is not None else None,
                "handshake": owner.handshake_seconds * 1000,
            },
        }
