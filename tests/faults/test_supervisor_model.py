"""The supervisor against a simple model: life cycle, restart budget, backoff, and every call's end.

The extension, its supervisor, call queue and sessions are the real ones. Children that the test
controls replace processes, and the test moves the time. The model has the rules of
docs/lifecycle.md in a few lines: a call starts the extension, a budget ends it, a delay doubles.
"""

import asyncio
import random
import selectors
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from exthost.config import spec_from_mapping
from exthost.dialects.morphir.dialect import DIALECT
from exthost.errors import ExthostError
from exthost.extension.call_outcomes import UNSUCCESSFUL_OUTCOMES
from exthost.extension.extension import Extension
from exthost.launch import sandbox_probe
from tests.extensions.fake_child import FakeChild

# limits.start of morphir; the first delay and the longest one of this test.
START, FIRST, LONGEST, SUSTAINED = 60.0, 1.0, 4.0, 60.0


class ManualClockLoop(asyncio.SelectorEventLoop):
    """A loop whose clock moves only when the test sets it."""

    def __init__(self) -> None:
        super().__init__(selectors.DefaultSelector())
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def settle(self) -> None:
        """Run every callback that is ready."""

        async def ticks() -> None:
            for _ in range(30):
                await asyncio.sleep(0)

        self.run_until_complete(ticks())


class ControlledChild(FakeChild):
    """A child that ends when its stdin does."""

    def __init__(self, *_: Any) -> None:
        super().__init__()
        ALL.append(self)

    def close_stdin(self) -> None:
        super().close_stdin()
        self.die()

    def answer_handshake(self) -> None:
        """Answer the last request of the handshake."""
        for request in self.heard()[-1:]:
            listed = [{"name": "echo", "description": ""}]
            self.say(id=request["id"], result=listed if request["id"] else None)


ALL: list[ControlledChild] = []


@dataclass
class Model:
    """What should be."""

    strategy: str
    most: int | None
    forgiven_by: str
    state: str = "discovered"
    spawned: int = 0
    used: int = 0
    fruitless: int = 0
    has_been_ready: bool = False
    served: bool = False
    since: float = 0.0  # when it began to start, or got ready
    due: float = 0.0
    waiting: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    ends: dict[int, str] = field(default_factory=dict)

    def start(self, now: float, *, retry: bool) -> None:
        self.state, self.since, self.served = "starting", now, False
        self.spawned += 1
        self.used += retry

    def ready(self, now: float) -> None:
        self.state, self.since, self.has_been_ready = "ready", now, True
        self.sent, self.waiting = self.waiting, []

    def lose(self, calls: list[int]) -> None:
        for n in calls:
            self.ends[n] = "lost"
        calls.clear()

    def crash(self, now: float) -> None:
        """Its process ended by itself."""
        was_ready = self.state == "ready"
        self.lose(self.sent)
        sustained = was_ready and now - self.since >= SUSTAINED
        if sustained if self.forgiven_by == "uptime" else self.served:
            self.used = 0
        self.fruitless = 0 if sustained or self.served else self.fruitless + 1
        exhausted = self.most is not None and self.used >= self.most
        if self.strategy == "on-demand":
            if exhausted:
                self.fail()
                return
            if not was_ready:
                self.lose(self.waiting)
            self.state = "admitted"
            if self.waiting:
                self.start(now, retry=True)
        elif self.strategy == "never" or exhausted or not self.has_been_ready:
            self.fail()
        else:
            delay = 0.0
            if self.strategy == "exponential":
                delay = min(FIRST * 2**self.used, LONGEST)
            if self.most is None and self.fruitless > 3:
                delay = max(delay, min(0.1 * 2 ** (self.fruitless - 4), LONGEST))
            self.state, self.due = "backoff", now + delay
            self.pass_time(now)

    def fail(self) -> None:
        self.state = "failed"
        self.lose(self.waiting)

    def pass_time(self, now: float) -> None:
        if self.state == "backoff" and now >= self.due:
            self.start(now, retry=True)
        elif self.state == "starting" and now - self.since >= START:
            self.crash(now)

    def asked_again(self, now: float) -> None:
        self.lose(self.sent)
        self.used = self.fruitless = 0
        self.has_been_ready = False
        self.start(now, retry=False)


class Supervision(RuleBasedStateMachine):
    """Calls, crashes, time, restarts and stops, in any order."""

    @initialize(
        strategy=st.sampled_from(["immediate", "immediate", "exponential", "on-demand", "never"]),
        most=st.sampled_from([0, 1, 3, None, None, None]),
        forgiven_by=st.just("uptime"),
    )
    def load(self, strategy: str, most: int | None, forgiven_by: str) -> None:
        self.patch = pytest.MonkeyPatch()
        # Else the first start finds out in a thread, which no step of this loop waits for.
        sandbox_probe.probe_pid_namespace(sandbox_probe.find_sandbox_support())
        self.patch.setattr(random, "random", lambda: 0.0)  # no jitter
        ALL.clear()
        self.loop = ManualClockLoop()
        self.model = Model(strategy, most, forgiven_by)
        restart = {
            "strategy": strategy,
            "initial_delay": FIRST,
            "max_delay": LONGEST,
            "max_retries": "unlimited" if most is None else most,
        }
        entry = {"name": "x", "source": {"command": "fake-child"}, "restart": restart}

        async def make() -> Extension:
            return Extension(spec_from_mapping(entry), DIALECT, spawn=ControlledChild)  # type: ignore[arg-type]

        self.ext = self.loop.run_until_complete(make())
        self.calls: list[asyncio.Task[Any]] = []

    # -- what can happen -----------------------------------------------------------------------

    @rule()
    def call(self) -> None:
        n = len(self.calls)
        self.calls.append(self.loop.create_task(self.ext.call("echo", n, timeout=100_000)))
        if self.model.state in ("failed", "stopped"):
            self.model.ends[n] = "lost"
        elif self.model.state == "ready":
            self.model.sent.append(n)
        else:
            self.model.waiting.append(n)
        if self.model.state in ("discovered", "admitted"):
            # The first start is nobody's retry; one after a rest is charged to the budget.
            self.model.start(self.loop.now, retry=self.model.state == "admitted")
        self.loop.settle()

    @precondition(lambda self: self.model.state == "starting")
    @rule()
    def it_shakes_hands(self) -> None:
        for _ in range(2):
            ALL[-1].answer_handshake()
            self.loop.settle()
        self.model.ready(self.loop.now)

    @precondition(lambda self: self.model.state in ("starting", "ready"))
    @rule()
    def it_dies(self) -> None:
        ALL[-1].die()
        self.model.crash(self.loop.now)
        self.loop.settle()

    @precondition(lambda self: self.model.state in ("starting", "ready"))
    @rule(times=st.integers(1, 8))
    def it_shakes_hands_and_dies(self, times: int) -> None:
        """Again and again, as far as it is started again."""
        for _ in range(times):
            if self.model.state == "starting":
                self.it_shakes_hands()
            self.it_dies()
            if self.model.state == "backoff":
                self.it_is_where_the_model_says()
                self.time_passes(self.model.due - self.loop.now)
            if self.model.state != "starting":
                return
            self.it_is_where_the_model_says()

    @precondition(lambda self: self.model.sent)
    @rule()
    def it_answers(self) -> None:
        n = self.model.sent.pop(0)
        id = next(
            message["id"]
            for message in ALL[-1].heard()
            if message["params"] == n and message["id"] > 1
        )
        ALL[-1].say(id=id, result=n)
        self.model.ends[n] = "result"
        self.model.served = True
        self.loop.settle()

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0, 5.0, 50.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.now += seconds
        self.model.pass_time(self.loop.now)
        self.loop.settle()

    # While one runs, a requested restart starts a process beside it: other tests show that.
    @precondition(lambda self: self.model.state not in ("starting", "ready"))
    @rule()
    def somebody_wants_it_again(self) -> None:
        asked = self.loop.create_task(self.ext.restart())
        asked.add_done_callback(lambda task: task.cancelled() or task.exception())
        self.model.asked_again(self.loop.now)
        self.loop.settle()

    @rule()
    def somebody_stops_it(self) -> None:
        self._close()
        self.model.lose(self.model.sent)
        self.model.lose(self.model.waiting)
        if self.model.state != "failed":
            self.model.state = "stopped"

    @precondition(lambda self: self.model.waiting or self.model.sent)
    @rule(data=st.data())
    def a_caller_leaves(self, data: st.DataObject) -> None:
        n = data.draw(st.sampled_from(self.model.waiting + self.model.sent))
        self.calls[n].cancel()
        for calls in (self.model.waiting, self.model.sent):
            if n in calls:
                calls.remove(n)
        self.model.ends[n] = "cancelled"
        self.loop.settle()

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def it_is_where_the_model_says(self) -> None:
        assert self.ext.state == self.model.state, (self.ext.state, self.model)

    @invariant()
    def processes_stay_within_the_policy_and_end(self) -> None:
        assert len(ALL) == self.model.spawned, self.model
        alive = [child for child in ALL if child.status is None]
        assert len(alive) == (self.model.state in ("starting", "ready"))

    @invariant()
    def each_call_ended_as_the_model_says_or_is_awaited(self) -> None:
        for n, task in enumerate(self.calls):
            assert task.done() == (n in self.model.ends), (n, self.model)
            if not task.done():
                continue
            if task.cancelled():
                end = "cancelled"
            elif (error := task.exception()) is not None:
                assert isinstance(error, ExthostError), error
                end = "lost"
            else:
                assert task.result() == n
                end = "result"
            assert self.model.ends[n] == end
        stats = self.ext.stats
        assert stats.waiting == len(self.model.waiting)
        assert stats.in_flight >= len(self.model.sent)  # a handshake is in flight, too
        assert stats.calls == stats.result + sum(
            getattr(stats, loss) for loss in UNSUCCESSFUL_OUTCOMES
        )

    def _close(self) -> None:
        closing = self.loop.create_task(self.ext.close())
        for _ in range(4):
            self.loop.settle()
        assert closing.done()

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self._close()
            assert all(task.done() for task in self.calls)
            assert all(child.status is not None for child in ALL)
            for task in self.calls:
                assert task.cancelled() or task.exception() or task.result() is not None
        finally:
            for child in ALL:
                child.die()
            self.loop.settle()
            self.loop.close()
            self.patch.undo()


TestSupervision = Supervision.TestCase
TestSupervision.settings = settings(max_examples=50, stateful_step_count=15, deadline=None)
