"""The cost of the event bus without subscribers.

Two builds of the host, with and without its bus, cannot be compared to one percent: the noise of a
call is larger. So this row counts the look-ups that a call makes on the bus, times one look-up
alone, and compares the product with a call at its cheapest: a hundred in flight.

The count depends on how the host asks the bus: it sees look-ups and tests for emptiness. A count of
zero means a look-up that it cannot see, and fails the row. The timed look-up is the most expensive
form, through two attributes, so the value errs upwards.
"""

import importlib
import time
from typing import Any

from bench import cores, subject
from bench.measures.calls import IN_FLIGHT_CALLS, in_flight, small_call
from bench.rounds import duration, read_values
from bench.row import Reading, Setting

COUNTED_CALLS = 1000
QUESTIONS = 50_000


class Counting(dict[type, Any]):
    """The subscriptions of a bus without subscribers. Counts the look-ups."""

    asked = 0

    def __contains__(self, kind: object) -> bool:
        self.asked += 1
        return super().__contains__(kind)

    def __len__(self) -> int:
        # `if listeners` calls this as well.
        self.asked += 1
        return super().__len__()

    def get(self, kind: type, default: Any = None) -> Any:
        """Count a call of `publish`: an event was built although no subscriber wants it."""
        raise AssertionError(f"{kind.__name__} was published without a subscriber")


class _BusHolder:
    """Has a bus as the objects of a session do, so that the attribute access is timed as well."""

    __slots__ = ("bus",)

    def __init__(self, bus: Any) -> None:
        self.bus = bus

    def ask(self, kind: type) -> None:
        for _ in range(QUESTIONS):
            if kind in self.bus.listeners:
                raise AssertionError("there is a listener")

    def idle(self) -> None:
        for _ in range(QUESTIONS):
            pass


def _question_s(holder: _BusHolder, kind: type) -> float:
    start = time.perf_counter()
    holder.ask(kind)
    between = time.perf_counter()
    holder.idle()
    return max(0.0, (2 * between - start - time.perf_counter()) / QUESTIONS)


def unread_events(setting: Setting) -> Reading:
    """The percentage of a call that is spent on look-ups of subscribers."""

    async def work() -> Reading:
        subject.public("connect")
        events: Any = importlib.import_module("exthost.events")
        counted, quiet = events.Bus(), events.Bus()
        counted.listeners = Counting()
        async with subject.connect(setting.child, events=counted) as extension:
            before = counted.listeners.asked
            for _ in range(COUNTED_CALLS):
                await small_call(extension)()
            each = (counted.listeners.asked - before) / COUNTED_CALLS
            if each == 0:
                raise AssertionError("saw no question to the bus: the way the host asks changed")
        pair = cores.apart()
        percents: list[float] = []
        calls_s: list[float] = []
        questions_s: list[float] = []
        async with subject.connect(setting.child, events=quiet) as extension:
            note = cores.pin(pair)
            holder, block = _BusHolder(quiet), in_flight(small_call(extension))
            await block()
            for _ in range(setting.rounds):
                start = time.perf_counter()
                await block()
                calls_s.append((time.perf_counter() - start) / IN_FLIGHT_CALLS)
                questions_s.append(_question_s(holder, events.CallEnded))
                percents.append(100 * each * questions_s[-1] / calls_s[-1])
        absolute = (
            ("questions a call", f"{each:g}"),
            ("each", f"{1e9 * sorted(questions_s)[len(questions_s) // 2]:.0f} ns"),
            ("call", duration(calls_s)),
        )
        return read_values(percents, absolute, note)

    return subject.run(work())
