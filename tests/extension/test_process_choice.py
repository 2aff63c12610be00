"""The process of a pool that gets the next call: the choice is fair and cheap, and a full or
removed process is never chosen.

A pool is a number of processes of one extension; a session is the connection to one of them.
`ProcessChoice` learns from replies how long the calls of each method take:

- A call of a slow method goes to an idle process. If there is none and the program handles one call
  after the other, the call waits.
- Calls of a fast method are kept together: one process gets a batch of them, which it reads and
  answers at once. A process that answers as fast as the host sends "keeps up", and its batch
  continues.

Most tests run no process. A fake session counts how often the choice reads it: this count is the
cost of a choice, which does not depend on the speed of the machine.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from exthost.errors import CallFailed, CallTimeout
from exthost.extension import process_choice
from exthost.extension.extension import Extension
from exthost.extension.process_choice import ProcessChoice
from exthost.session.call import Call
from exthost.session.session import Session
from tests.extensions.harness import error_of, extension_without_namespace, wait_until

SLOW, FAST = "slow", "fast"
UNLIMITED = 1_000_000
NOW = 1000.0  # the time in all tests: it never changes


class ReadCounter:
    """Counts how often the choice read a session."""

    count = 0


class InFlight:
    """The number of calls in flight, as `len` of the table of pending calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __len__(self) -> int:
        ReadCounter.count += 1
        return self.calls


class FakeSession:
    """The part of a session that the choice reads."""

    def __init__(self, name: int = 0) -> None:
        self.name = name
        self.pending = InFlight()
        self.is_batched = False
        self.busy_since = NOW
        self.lifetime = SimpleNamespace(child=SimpleNamespace(is_node_silent=False))

    def __eq__(self, other: object) -> bool:
        ReadCounter.count += 1  # a search in a list compares the sessions
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.pending.calls}>"


class Pool:
    """A choice among fake sessions. Its methods do what the call queue does with a choice. With
    `reads_ahead`, the program handles several calls at once."""

    def __init__(
        self, processes: int, max_in_flight: int = UNLIMITED, *, reads_ahead: bool = True
    ) -> None:
        self.sessions: list[Session] = []
        self.choice = ProcessChoice(self.sessions, self._count_busy, lambda: NOW)
        self.choice.reads_ahead = reads_ahead
        self.busy_reports = 0  # how often the choice reported a busy process
        self.max_in_flight = max_in_flight
        self.members = [FakeSession(n) for n in range(processes)]
        for member in self.members:
            self.add(member)

    def _count_busy(self) -> None:
        self.busy_reports += 1

    def add(self, session: FakeSession) -> None:
        self.sessions.append(cast("Session", session))
        self.choice.add(cast("Session", session))

    def send(self, method: str = SLOW) -> FakeSession | None:
        """Send a call, and return the session that got it, or None if the call has to wait."""
        chosen = self.choice.choose(method, self.max_in_flight)
        if chosen is None:
            return None
        session = cast("FakeSession", chosen)
        session.pending.calls += 1
        return session

    def reply(
        self,
        session: FakeSession,
        count: int = 1,
        method: str = SLOW,
        seconds: float = 0.0,
        *,
        waited: float | None = None,
    ) -> None:
        """Reply to `count` calls in one read. The first of these calls was made `seconds` ago, the
        last one `waited` seconds ago."""
        session.pending.calls -= count
        session.busy_since = NOW - seconds
        first_call = SimpleNamespace(session=session, method=method, started_at=NOW - seconds)
        last_start = NOW - (seconds if waited is None else waited)
        last_call = SimpleNamespace(session=session, method=method, started_at=last_start)
        self.choice.record_replies(cast("Call", first_call), cast("Call", last_call), count, NOW)

    def remove(self, session: FakeSession) -> None:
        self.sessions.remove(cast("Session", session))
        self.choice.remove(cast("Session", session))
        self.members.remove(session)

    def learn_fast(self, method: str = FAST) -> None:
        """Make the choice treat this method as fast: several replies come in one read."""
        for _ in range(8):
            chosen_sessions = [self.send(method) for _ in range(8 * len(self.members))]
            for session, count in Counter(chosen_sessions).items():
                assert session is not None
                self.reply(session, count, method)
        for member in self.members:
            assert member.pending.calls == 0


# -- fair choice -------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 2, 3, 16, 64])
def test_each_idle_process_gets_a_slow_call_before_any_gets_two(processes: int) -> None:
    pool = Pool(processes)
    for _ in range(3):
        chosen_sessions = [pool.send() for _ in range(processes)]
        assert set(chosen_sessions) == set(pool.members)
        for session in chosen_sessions:
            assert session is not None
            pool.reply(session)


def test_a_call_that_gets_a_busy_process_is_reported() -> None:
    """The pool can then start another process."""
    pool = Pool(2, max_in_flight=2)
    for expected_reports in (0, 0, 1, 2):
        assert pool.send() is not None
        assert pool.busy_reports == expected_reports
    assert pool.send() is None
    assert pool.busy_reports == 2


def test_calls_of_a_batch_do_not_report_a_busy_process() -> None:
    pool = Pool(4)
    pool.learn_fast()
    before = pool.busy_reports
    chosen_sessions = {pool.send(FAST) for _ in range(64)}
    # Two, if a batch had begun before.
    assert len(chosen_sessions) <= 2 and pool.busy_reports == before


def test_a_removed_process_gets_no_more_calls_of_its_batch() -> None:
    pool = Pool(4)
    pool.learn_fast()
    session = pool.send(FAST)
    assert session is not None
    pool.remove(session)
    assert session not in {pool.send(FAST) for _ in range(200)}


def test_a_process_that_becomes_idle_gets_the_next_slow_call() -> None:
    pool = Pool(8)
    for _ in range(8):
        pool.send()
    for session in (pool.members[5], pool.members[2]):
        pool.reply(session)
        assert pool.send() is session


def test_consecutive_calls_are_spread_over_all_processes() -> None:
    pool = Pool(4)
    for _ in range(40):
        session = pool.send()
        assert session is not None
        pool.reply(session)
    served: Counter[int] = Counter()
    for _ in range(40):
        session = pool.send()
        assert session is not None
        served[session.name] += 1
        pool.reply(session)
    assert served == dict.fromkeys(range(4), 10)  # each of the four processes got ten calls


def test_consecutive_calls_use_64_processes_of_a_large_pool() -> None:
    pool = Pool(200)
    served: set[FakeSession | None] = set()
    for _ in range(400):
        session = pool.send()
        assert session is not None
        served.add(session)
        pool.reply(session)
    assert len(served) == process_choice._ROTATED


def test_concurrent_calls_use_all_processes_of_a_large_pool() -> None:
    pool = Pool(200)
    for _ in range(3):
        chosen_sessions = [pool.send() for _ in range(200)]
        assert set(chosen_sessions) == set(pool.members)
        for session in chosen_sessions:
            assert session is not None
            pool.reply(session)


def test_a_busy_pool_is_loaded_evenly() -> None:
    random.seed(7)
    pool = Pool(16)
    for _ in range(16 * 100):
        pool.send()
    loads = [member.pending.calls for member in pool.members]
    # The choice takes the less loaded of two random processes. Taking one random process would lead
    # to a difference of about fifty.
    assert max(loads) - min(loads) <= 12


def test_a_process_is_idle_again_after_a_call_without_a_result() -> None:
    """A failed, timed out or cancelled call makes its process idle, as a reply does."""
    random.seed(1)
    for _ in range(50):  # a random choice would sometimes be right by chance
        pool = Pool(2)
        failed = pool.send()
        assert failed is not None
        failed.pending.calls -= 1
        pool.choice.record_end(cast("Session", failed))
        assert {pool.send(), pool.send()} == set(pool.members)


def test_a_slow_call_does_not_wait_behind_a_batch_of_fast_calls() -> None:
    pool = Pool(4)
    pool.learn_fast()
    batch_process = pool.send(FAST)
    other_processes = [pool.send(SLOW) for _ in range(3)]
    assert batch_process not in other_processes and len(set(other_processes)) == 3


# -- calls wait for a free process -------------------------------------------------------------


def test_a_method_without_replies_so_far_has_one_call_per_process() -> None:
    pool = Pool(3, reads_ahead=False)
    assert {pool.send() for _ in range(3)} == set(pool.members)
    assert pool.send() is None
    pool.reply(pool.members[1], seconds=1.0)
    assert pool.send() is pool.members[1]


def test_a_slow_method_always_has_one_call_per_process() -> None:
    pool = Pool(3, reads_ahead=False)
    for _ in range(10):
        for _ in range(3):
            assert pool.send() is not None
        assert pool.send() is None
        for member in pool.members:
            pool.reply(member, seconds=0.1)


def test_a_quick_method_has_as_many_calls_as_are_answered_within_50_ms() -> None:
    pool = Pool(2, reads_ahead=False)
    session = pool.send()
    assert session is not None
    pool.reply(session, seconds=0.01)
    chosen_sessions = [pool.send() for _ in range(20)]
    assert chosen_sessions[10:] == [None] * 10, "each process gets five calls of 10 ms"
    assert Counter(chosen_sessions[:10]) == dict.fromkeys(pool.members, 5)


def test_a_process_that_has_not_answered_for_a_while_gets_no_quick_call() -> None:
    pool = Pool(2, reads_ahead=False)
    session = pool.send()
    assert session is not None
    pool.reply(session, seconds=0.00001)
    stuck, other = pool.members
    for _ in range(2):  # each process gets a call
        pool.send()
    stuck.busy_since -= 1.0
    assert {pool.send() for _ in range(50)} == {other}


def test_fast_calls_are_batched_after_single_replies() -> None:
    """At first each read has one reply, then several."""
    pool = Pool(4, reads_ahead=False)
    for process in [pool.send(FAST) for _ in range(4)]:
        assert process is not None
        pool.reply(process, 1, FAST, seconds=0.00002)
    pool.learn_fast()
    assert len({pool.send(FAST) for _ in range(16)}) <= 2


def test_slow_calls_of_a_program_that_reads_ahead_are_spread_evenly() -> None:
    pool = Pool(16)
    for _ in range(16 * 10):
        pool.send()
    assert {member.pending.calls for member in pool.members} == {10}


# -- fast methods stay together ----------------------------------------------------------------


@pytest.mark.parametrize("processes", [2, 16, 64])
def test_calls_of_a_fast_method_are_kept_together(processes: int) -> None:
    pool = Pool(processes)
    pool.learn_fast()
    chosen_sessions = [pool.send(FAST) for _ in range(16)]
    assert len(set(chosen_sessions)) <= 2, (
        "at most the end of one batch and the beginning of the next"
    )


def test_a_batch_is_bounded_so_that_many_fast_calls_use_several_processes() -> None:
    pool = Pool(8)
    pool.learn_fast()
    batch = process_choice._BATCH_CALLS
    chosen_sessions = Counter(pool.send(FAST) for _ in range(8 * batch))
    assert len(chosen_sessions) == 8
    assert max(chosen_sessions.values()) <= 3 * batch


@pytest.mark.parametrize("processes", [2, 16, 64])
def test_batches_go_to_the_processes_that_became_idle_last(processes: int) -> None:
    pool = Pool(processes)
    pool.learn_fast()
    chosen_sessions: Counter[Any] = Counter()
    for _ in range(8):  # one batch, whose calls are all answered before the next batch
        sessions = Counter(pool.send(FAST) for _ in range(process_choice._BATCH_CALLS))
        chosen_sessions += sessions
        for session, calls in sessions.items():
            assert session is not None
            pool.reply(session, calls, FAST)
    assert len(chosen_sessions) <= 2


def test_a_process_that_keeps_up_gets_all_calls_of_a_fast_method() -> None:
    """Sending a hundred calls takes 0.8 ms, and the last reply comes 0.2 ms later."""
    pool = Pool(8)
    pool.learn_fast()
    chosen_sessions: Counter[Any] = Counter()
    for _ in range(100):
        sessions = Counter(pool.send(FAST) for _ in range(100))
        chosen_sessions += sessions
        for session, calls in sessions.items():
            assert session is not None
            pool.reply(session, calls, FAST, seconds=0.001, waited=0.0002)
    assert len(chosen_sessions) <= 2, "the last batch of learn_fast(), and one batch without an end"


def test_the_batch_of_a_process_that_keeps_up_has_no_end() -> None:
    pool = Pool(2)
    pool.learn_fast()
    session = pool.send(FAST)
    assert session is not None
    # Ten times as many calls as a bounded batch has. The call above stays in flight, so that the
    # process is never idle.
    for _ in range(process_choice._BATCH_CALLS):
        for _ in range(10):
            assert pool.send(FAST) is session
        pool.reply(session, 10, FAST, seconds=0.001, waited=0.0002)


def test_a_removed_process_that_keeps_up_gets_no_call() -> None:
    """The removed process answers its last calls."""
    pool = Pool(2)
    pool.learn_fast()
    session = pool.send(FAST)
    assert session is not None
    for _ in range(9):
        assert pool.send(FAST) is session
    pool.remove(session)
    pool.reply(session, 10, FAST, seconds=0.001, waited=0.0002)
    assert pool.send(FAST) is pool.members[0]


@pytest.mark.parametrize("group", [10, 50, 100])
def test_a_process_that_does_not_keep_up_shares_its_calls_with_others(group: int) -> None:
    """The process answers several calls at once, but more slowly than the host sends them. With 100
    calls in flight at least two processes get calls."""
    pool = Pool(8)
    pool.learn_fast()
    in_flight: list[FakeSession] = []
    chosen_sessions: Counter[Any] = Counter()
    for _ in range(100):
        while len(in_flight) < 100:
            session = pool.send(FAST)
            assert session is not None
            in_flight.append(session)
            chosen_sessions[session] += 1
        oldest = in_flight[0]
        count = min(group, in_flight.count(oldest))
        pool.reply(oldest, count, FAST, seconds=0.004, waited=0.003)
        for _ in range(count):
            in_flight.remove(oldest)
    assert len(chosen_sessions) >= 2
    assert max(chosen_sessions.values()) < 0.7 * sum(chosen_sessions.values())


def test_an_unknown_method_is_treated_as_slow() -> None:
    pool = Pool(4)
    pool.learn_fast()
    assert len({pool.send("never seen") for _ in range(4)}) == 4


def test_one_late_reply_ends_the_batches_of_its_method() -> None:
    pool = Pool(4)
    pool.learn_fast()
    session = pool.send(FAST)
    assert session is not None
    pool.reply(session, 1, FAST, seconds=1.0)
    assert len({pool.send(FAST) for _ in range(4)}) == 4


def test_the_number_of_recorded_methods_is_limited() -> None:
    pool = Pool(2)
    for n in range(5000):
        session = pool.send(f"method {n}")
        assert session is not None
        pool.reply(session, 1, f"method {n}")
    assert len(pool.choice._times) <= 1024  # the limit of the choice


def test_the_records_of_idle_processes_do_not_grow_with_the_calls() -> None:
    pool = Pool(2)
    for _ in range(500):
        pool.learn_fast()
    assert len(pool.choice._idle) <= 2


# -- the cost of a choice ----------------------------------------------------------------------


def count_reads_per_call(processes: int, method: str, in_flight: int) -> float:
    """Return how often a choice reads sessions, with always this many calls in flight."""
    random.seed(processes)
    pool = Pool(processes)
    if method == FAST:
        pool.learn_fast()
    chosen_sessions = [pool.send(method) for _ in range(in_flight)]
    ReadCounter.count = 0
    calls = 2000
    for _ in range(calls):
        session = chosen_sessions.pop(0)
        assert session is not None
        pool.reply(session, 1, method, seconds=0.0)
        chosen_sessions.append(pool.send(method))
    return ReadCounter.count / calls


@pytest.mark.parametrize("method", [SLOW, FAST])
@pytest.mark.parametrize("load", [0.5, 4])  # calls in flight per process
def test_a_choice_among_64_costs_as_much_as_among_2(method: str, load: float) -> None:
    reads_with_2 = count_reads_per_call(2, method, max(1, int(2 * load)))
    reads_with_64 = count_reads_per_call(64, method, int(64 * load))
    # Some reads more are noise: which sessions are looked at is partly random.
    assert reads_with_64 <= reads_with_2 + 4, (reads_with_2, reads_with_64)
    assert reads_with_64 < 8


# -- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [SLOW, FAST])
def test_a_pool_has_as_many_calls_in_flight_as_its_limit(method: str) -> None:
    random.seed(3)
    pool = Pool(5)
    pool.learn_fast()
    pool.max_in_flight = 3
    chosen_sessions = [pool.send(method) for _ in range(20)]
    assert chosen_sessions[15:] == [None] * 5
    assert Counter(chosen_sessions[:15]) == dict.fromkeys(pool.members, 3)
    pool.reply(pool.members[4], 1, method)
    assert pool.send(method) is pool.members[4], "the only process below the limit"
    assert pool.send(method) is None


def test_no_process_is_chosen_while_calls_are_paused() -> None:
    pool = Pool(3)
    assert pool.choice.choose(SLOW, 0) is None
    assert {pool.send() for _ in range(3)} == set(pool.members)


def test_an_empty_pool_chooses_nothing() -> None:
    pool = Pool(2)
    pool.send()
    pool.sessions.clear()
    pool.choice.clear()
    assert pool.send() is None and pool.send(FAST) is None


# -- processes come and go ---------------------------------------------------------------------


def test_a_new_process_gets_the_next_call() -> None:
    pool = Pool(2)
    for _ in range(10):
        pool.send()
    new_session = FakeSession(2)
    pool.add(new_session)
    assert pool.send() is new_session


def test_a_process_that_was_removed_is_never_chosen_again() -> None:
    pool = Pool(2)
    pool.learn_fast()  # each process becomes idle several times
    removed = pool.members[0]
    pool.remove(removed)
    assert {pool.send(method) for method in (SLOW, FAST) * 20} == {pool.members[0]}
    removed.pending.calls = 1
    pool.reply(removed)  # the reply was read before the removal
    assert removed not in {pool.send() for _ in range(20)}


def test_removing_a_process_twice_is_allowed() -> None:
    pool = Pool(2)
    removed = pool.members[0]
    pool.remove(removed)
    pool.choice.remove(cast("Session", removed))
    assert pool.send() is pool.members[0]


class ProcessChoiceModel(RuleBasedStateMachine):
    """Processes are added and removed, and calls are sent, answered or failed, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(0, max_in_flight=3)
        self.names = 0
        self.removed: list[FakeSession] = []  # their calls are still answered

    @rule()
    @precondition(lambda self: len(self.pool.members) < 6)
    def add(self) -> None:
        self.names += 1
        new_session = FakeSession(self.names)
        self.pool.members.append(new_session)
        self.pool.add(new_session)

    @rule(data=st.data())
    @precondition(lambda self: self.pool.members)
    def remove(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.pool.members))
        self.pool.remove(session)
        self.removed.append(session)

    @rule(method=st.sampled_from([SLOW, FAST]))
    def send(self, method: str) -> None:
        loads = {member: member.pending.calls for member in self.pool.members}
        chosen = self.pool.send(method)
        if chosen is None:
            assert all(load == 3 for load in loads.values())
            return
        assert loads[chosen] < 3, "the chosen process was removed or is full"
        times = self.pool.choice._times.get(method)
        is_slow = times is None or times.replies_per_read < 2.0
        if is_slow and 0 in loads.values():
            assert loads[chosen] == 0, "a slow call was queued though a process is idle"

    @rule(
        data=st.data(),
        method=st.sampled_from([SLOW, FAST]),
        is_late=st.booleans(),
        keeps_up=st.booleans(),
    )
    def reply(self, data: st.DataObject, method: str, is_late: bool, keeps_up: bool) -> None:
        members = [*self.pool.members, *self.removed]
        busy = [member for member in members if member.pending.calls]
        if busy:
            session = data.draw(st.sampled_from(busy))
            count = data.draw(st.integers(1, session.pending.calls))
            seconds = 1.0 if is_late else 0.001
            waited = 0.0 if keeps_up else seconds
            self.pool.reply(session, count, method, seconds, waited=waited)

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        busy = [member for member in self.pool.members if member.pending.calls]
        if busy:
            session = data.draw(st.sampled_from(busy))
            session.pending.calls -= 1
            self.pool.choice.record_end(cast("Session", session))

    @invariant()
    def idle_processes_are_remembered_once(self) -> None:
        idle: list[Any] = list(self.pool.choice._idle)
        assert len(idle) == len(set(idle)) and set(idle) <= set(self.pool.members)


ProcessChoiceModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestProcessChoice = ProcessChoiceModel.TestCase


# -- with processes ----------------------------------------------------------------------------
#
# The hostile extension of the tests: `pid` returns the pid of the process that got the call, `keep`
# is never answered, and `refuse` is answered with an error.


async def _cancel_call(ext: Extension) -> None:
    call = asyncio.ensure_future(ext.call("keep"))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def _make_failing_call(ext: Extension) -> None:
    assert isinstance(await error_of(ext.call("refuse", {"text": "no"})), CallFailed)


async def _make_timed_out_call(ext: Extension) -> None:
    assert isinstance(await error_of(ext.call("keep", timeout=0.01)), CallTimeout)


@pytest.mark.parametrize(
    "make_unsuccessful_call", [_cancel_call, _make_failing_call, _make_timed_out_call]
)
async def test_a_process_whose_call_has_no_result_is_idle_again(
    make_unsuccessful_call: Callable[[Extension], Awaitable[None]],
) -> None:
    async with extension_without_namespace(pool={"min": 2, "max": 2}) as ext:
        await wait_until(lambda: ext.stats.processes == 2)
        for _ in range(8):
            await make_unsuccessful_call(ext)
            pids = await asyncio.gather(ext.call("pid"), ext.call("pid"))
            assert len(set(pids)) == 2
