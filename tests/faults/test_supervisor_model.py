"""The supervisor is compared with a simple model: states, restart budget, backoff, and ends of
calls.

The extension, its supervisor, call queue and sessions are real. Fake children replace processes,
and the test moves the time. The model implements the rules of docs/lifecycle.md: a call starts the
extension, a budget limits restarts, and each delay doubles.
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

START_SECONDS = 60.0  # limits.start of morphir
FIRST_DELAY = 1.0
LONGEST_DELAY = 4.0
SUSTAINED_SECONDS = 60.0  # the uptime that forgives crashes


class ManualClockLoop(asyncio.SelectorEventLoop):
    """A loop whose clock moves only when the test sets it."""

    def __init__(self) -> None:
        super().__init__(selectors.DefaultSelector())
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def settle(self) -> None:
        """Run every callback that is ready."""

        async def run_iterations() -> None:
            for _ in range(30):
                await asyncio.sleep(0)

        self.run_until_complete(run_iterations())


class ControlledChild(FakeChild):
    """A child that exits at the end of its stdin. The list CHILDREN has all of them."""

    def __init__(self, *_: Any) -> None:
        super().__init__()
        CHILDREN.append(self)

    def close_stdin(self) -> None:
        super().close_stdin()
        self.exit()

    def answer_handshake(self) -> None:
        """Answer the last request of the handshake."""
        for request in self.received()[-1:]:
            tools = [{"name": "echo", "description": ""}]
            self.send_to_host(id=request["id"], result=tools if request["id"] else None)


CHILDREN: list[ControlledChild] = []


@dataclass
class Model:
    """The expected state of the extension and of its calls.

    Calls are numbers. Those in `waiting` wait for the extension, those in `sent` are in flight, and
    `ends` has how the others ended: "result", "lost" or "cancelled".
    """

    strategy: str
    max_retries: int | None
    forgiven_by: str
    state: str = "discovered"
    spawned: int = 0
    retries_used: int = 0
    crashes_without_service: int = 0
    has_been_ready: bool = False
    served: bool = False
    entered_at: float = 0.0  # when it began to start, or became ready
    retry_at: float = 0.0
    waiting: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    ends: dict[int, str] = field(default_factory=dict)

    def start(self, now: float, *, retry: bool) -> None:
        self.state, self.entered_at, self.served = "starting", now, False
        self.spawned += 1
        self.retries_used += retry

    def ready(self, now: float) -> None:
        self.state, self.entered_at, self.has_been_ready = "ready", now, True
        self.sent, self.waiting = self.waiting, []

    def lose(self, calls: list[int]) -> None:
        for n in calls:
            self.ends[n] = "lost"
        calls.clear()

    def crash(self, now: float) -> None:
        """Update the model after the process has ended by itself."""
        was_ready = self.state == "ready"
        self.lose(self.sent)
        sustained = was_ready and now - self.entered_at >= SUSTAINED_SECONDS
        is_forgiven = sustained if self.forgiven_by == "uptime" else self.served
        if is_forgiven:
            self.retries_used = 0
        self.crashes_without_service = (
            0 if sustained or self.served else self.crashes_without_service + 1
        )
        exhausted = self.max_retries is not None and self.retries_used >= self.max_retries
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
                delay = min(FIRST_DELAY * 2**self.retries_used, LONGEST_DELAY)
            # Unlimited restarts become slower after three crashes without a served call.
            if self.max_retries is None and self.crashes_without_service > 3:
                slower = 0.1 * 2 ** (self.crashes_without_service - 4)
                delay = max(delay, min(slower, LONGEST_DELAY))
            self.state, self.retry_at = "backoff", now + delay
            self.pass_time(now)

    def fail(self) -> None:
        self.state = "failed"
        self.lose(self.waiting)

    def pass_time(self, now: float) -> None:
        if self.state == "backoff" and now >= self.retry_at:
            self.start(now, retry=True)
        elif self.state == "starting" and now - self.entered_at >= START_SECONDS:
            self.crash(now)

    def restart(self, now: float) -> None:
        self.lose(self.sent)
        self.retries_used = self.crashes_without_service = 0
        self.has_been_ready = False
        self.start(now, retry=False)


class SupervisorModel(RuleBasedStateMachine):
    """Calls, crashes, time, restarts and stops, in any order."""

    @initialize(
        strategy=st.sampled_from(["immediate", "immediate", "exponential", "on-demand", "never"]),
        max_retries=st.sampled_from([0, 1, 3, None, None, None]),
        forgiven_by=st.just("uptime"),
    )
    def load(self, strategy: str, max_retries: int | None, forgiven_by: str) -> None:
        self.patch = pytest.MonkeyPatch()
        # This result is cached. Otherwise the first start would run the probe in a thread.
        sandbox_probe.probe_pid_namespace(sandbox_probe.find_sandbox_support())
        self.patch.setattr(random, "random", lambda: 0.0)  # no jitter
        CHILDREN.clear()
        self.loop = ManualClockLoop()
        self.model = Model(strategy, max_retries, forgiven_by)
        restart = {
            "strategy": strategy,
            "initial_delay": FIRST_DELAY,
            "max_delay": LONGEST_DELAY,
            "max_retries": "unlimited" if max_retries is None else max_retries,
        }
        entry = {"name": "x", "source": {"command": "fake-child"}, "restart": restart}

        async def make() -> Extension:
            return Extension(spec_from_mapping(entry), DIALECT, spawn=ControlledChild)  # type: ignore[arg-type]

        self.ext = self.loop.run_until_complete(make())
        self.calls: list[asyncio.Task[Any]] = []

    # -- the rules ----------------------------------------------------------------------

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
            # Only a start after a crash is a retry.
            self.model.start(self.loop.now, retry=self.model.state == "admitted")
        self.loop.settle()

    @precondition(lambda self: self.model.state == "starting")
    @rule()
    def become_ready(self) -> None:
        for _ in range(2):
            CHILDREN[-1].answer_handshake()
            self.loop.settle()
        self.model.ready(self.loop.now)

    @precondition(lambda self: self.model.state in ("starting", "ready"))
    @rule()
    def crash_child(self) -> None:
        CHILDREN[-1].exit()
        self.model.crash(self.loop.now)
        self.loop.settle()

    @precondition(lambda self: self.model.state in ("starting", "ready"))
    @rule(times=st.integers(1, 8))
    def become_ready_and_crash(self, times: int) -> None:
        """Become ready and crash this often, as long as the extension is restarted."""
        for _ in range(times):
            if self.model.state == "starting":
                self.become_ready()
            self.crash_child()
            if self.model.state == "backoff":
                self.the_state_is_that_of_the_model()
                self.pass_time_by(self.model.retry_at - self.loop.now)
            if self.model.state != "starting":
                return
            self.the_state_is_that_of_the_model()

    @precondition(lambda self: self.model.sent)
    @rule()
    def answer_call(self) -> None:
        n = self.model.sent.pop(0)
        id = next(
            message["id"]
            for message in CHILDREN[-1].received()
            if message["params"] == n and message["id"] > 1  # 0 and 1 are those of the handshake
        )
        CHILDREN[-1].send_to_host(id=id, result=n)
        self.model.ends[n] = "result"
        self.model.served = True
        self.loop.settle()

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0, 5.0, 50.0, 61.0]))
    def pass_time_by(self, seconds: float) -> None:
        self.loop.now += seconds
        self.model.pass_time(self.loop.now)
        self.loop.settle()

    # Other tests check a restart while a process runs, which starts a second process.
    @precondition(lambda self: self.model.state not in ("starting", "ready"))
    @rule()
    def request_restart(self) -> None:
        restarting = self.loop.create_task(self.ext.restart())
        restarting.add_done_callback(lambda task: task.cancelled() or task.exception())
        self.model.restart(self.loop.now)
        self.loop.settle()

    @rule()
    def stop_extension(self) -> None:
        self._close()
        self.model.lose(self.model.sent)
        self.model.lose(self.model.waiting)
        if self.model.state != "failed":
            self.model.state = "stopped"

    @precondition(lambda self: self.model.waiting or self.model.sent)
    @rule(data=st.data())
    def cancel_call(self, data: st.DataObject) -> None:
        n = data.draw(st.sampled_from(self.model.waiting + self.model.sent))
        self.calls[n].cancel()
        for calls in (self.model.waiting, self.model.sent):
            if n in calls:
                calls.remove(n)
        self.model.ends[n] = "cancelled"
        self.loop.settle()

    # -- the invariants -----------------------------------------------------------------------

    @invariant()
    def the_state_is_that_of_the_model(self) -> None:
        assert self.ext.state == self.model.state, (self.ext.state, self.model)

    @invariant()
    def there_are_as_many_processes_as_in_the_model(self) -> None:
        assert len(CHILDREN) == self.model.spawned, self.model
        alive = [child for child in CHILDREN if child.status is None]
        assert len(alive) == (self.model.state in ("starting", "ready"))

    @invariant()
    def each_call_ended_as_in_the_model(self) -> None:
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
        assert stats.in_flight >= len(self.model.sent)  # the handshake also counts as in flight
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
            assert all(child.status is not None for child in CHILDREN)
            for task in self.calls:
                assert task.cancelled() or task.exception() or task.result() is not None
        finally:
            for child in CHILDREN:
                child.exit()
            self.loop.settle()
            self.loop.close()
            self.patch.undo()


TestSupervisor = SupervisorModel.TestCase
TestSupervisor.settings = settings(max_examples=50, stateful_step_count=15, deadline=None)
