"""The pure state of a session against a model: numbers, answers by id or by order, named streams.

Nothing of it does I/O, so thousands of steps take a second. What the model keeps are plain lists.
"""

from types import MappingProxyType
from typing import Any

from exthost.session.state import PHASES, Call, Phase, SessionState, StreamQueue
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exthost.dialects.dialect import StreamEvent, StreamKind

NAMED = StreamKind(
    notices=MappingProxyType({"event": "key", "other": "key"}),
    decode=lambda method, params: StreamEvent(params),
    key="key",
)
NAMELESS = StreamKind(
    notices=MappingProxyType({"said": None}), decode=lambda method, params: StreamEvent(params)
)


class Tables(RuleBasedStateMachine):
    """Calls are made, answered, given up; streams open and close; the session moves on and ends."""

    @initialize(by_order=st.booleans(), first=st.integers(0, 5))
    def begin(self, by_order: bool, first: int) -> None:
        self.state = SessionState(first, [NAMED, NAMELESS], by_order=by_order)
        self.by_order = by_order
        self.next = self.heard_up_to = first
        self.calls: list[tuple[int, Call]] = []  # under way, the oldest first
        self.streams: list[StreamQueue] = []
        self.phase = Phase.SHAKING

    @rule()
    def ask(self) -> None:
        """As the driver does."""
        call = Call()
        call.id = self.state.next_id
        self.state.pending[call.id] = call
        self.state.next_id += 1
        assert call.id == self.next  # never used before
        self.calls.append((self.next, call))
        self.next += 1

    @rule()
    def read(self) -> None:
        """Something is read: it cannot answer what is asked from here on."""
        self.state.asked_so_far = self.state.next_id
        self.heard_up_to = self.next

    @rule()
    def answer_without_an_id(self) -> None:
        expected = None
        if self.by_order and self.calls and self.calls[0][0] < self.heard_up_to:
            expected = self.calls.pop(0)[1]
        assert self.state.oldest() is expected

    @rule(ahead=st.integers(-6, 3))
    def answer_to(self, ahead: int) -> None:
        id = self.next + ahead
        expected = next((call for number, call in self.calls if number == id), None)
        assert self.state.pending.pop(id, None) is expected
        if expected is None:
            late = id < self.next
            assert ("late" in self.state.stray_reply(id)) == late
        self.calls = [(number, call) for number, call in self.calls if number != id]

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), twice=st.booleans())
    def give_up(self, data: st.DataObject, twice: bool) -> None:
        number, call = data.draw(st.sampled_from(self.calls))
        self.calls.remove((number, call))
        assert self.state.forget(call) is True
        if twice:
            assert self.state.forget(call) is False

    @rule(kind=st.sampled_from([NAMED, NAMELESS]), key=st.sampled_from(["a", "b", 1]))
    def open_stream(self, kind: StreamKind, key: Any) -> None:
        stream = StreamQueue(kind, key)
        self.state.open_stream(stream)
        self.streams.append(stream)

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def close_stream(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from(self.streams))
        self.streams.remove(stream)
        assert self.state.close_stream(stream) is True
        assert self.state.close_stream(stream) is False

    @rule(
        method=st.sampled_from(["event", "other", "said"]),
        params=st.sampled_from([{"key": "a"}, {"key": 1}, {"key": ["a"]}, {"key": None}, {}, 7]),
    )
    def event(self, method: str, params: Any) -> None:
        if method == "said":
            expected = [one for one in self.streams if one.kind is NAMELESS]
        else:
            key = params.get("key") if isinstance(params, dict) else None
            named = [one for one in self.streams if one.kind is NAMED]
            expected = [one for one in named if type(key) in (str, int) and one.key == key]
        assert list(self.state.streams_for(method, params)) == expected

    @rule(event=st.sampled_from(["shook hands", "drain", "end"]))
    def move(self, event: str) -> None:
        try:
            self.state.move(event)
        except KeyError:
            assert (self.phase, event) not in PHASES
        else:
            self.phase = PHASES[self.phase, event]

    @rule()
    def end(self) -> None:
        calls, streams = self.state.end()
        assert calls == [call for _, call in self.calls]
        assert streams == set(self.streams)
        self.calls, self.streams = [], []
        self.phase = Phase.CLOSED

    @invariant()
    def the_tables_hold_what_the_model_holds(self) -> None:
        if not hasattr(self, "state"):
            return
        assert list(self.state.pending.items()) == self.calls
        assert self.state.streams() == set(self.streams)
        assert self.state.phase is self.phase


TestTables = Tables.TestCase
TestTables.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
