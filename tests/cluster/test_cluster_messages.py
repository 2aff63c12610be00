"""The messages of the control connection are the same after encoding, cutting and decoding."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.cluster.messages import (
    HEARTBEAT,
    MAX_LINE_BYTES,
    LineDecoder,
    Order,
    SentFolder,
    StateFolder,
    decode_exit,
    decode_order,
    encode_exit,
    encode_order,
)
from exthost.model.launch_plan import Ceiling, ExpectedPath, LaunchPlan, ResourceLimit, Wrapper
from exthost.model.spec import Pins
from exthost.process.environment import Variables
from exthost.process.exit_status import ExitStatus

TEXT = st.text(max_size=20)
COUNT = st.integers(0, 2**40)
WORDS = st.lists(TEXT, max_size=4).map(tuple)
PLANS = st.builds(
    LaunchPlan,
    argv=WORDS,
    cwd=st.none() | TEXT,
    env=st.dictionaries(TEXT, TEXT, max_size=4).map(Variables),
    before=WORDS,
    # NaN is excluded because it is not equal to itself.
    ceiling=st.builds(Ceiling, st.none() | COUNT, cpu=st.none() | st.floats(0, 1000)),
    wrapper=st.none()
    | st.builds(
        Wrapper,
        options=WORDS,
        init=st.binary(max_size=20),
        limits=st.lists(st.builds(ResourceLimit, TEXT, COUNT), max_size=3).map(tuple),
        filter=st.binary(max_size=20),
        private_mounts=WORDS,
        paths=st.lists(st.builds(ExpectedPath, TEXT, COUNT, COUNT), max_size=2).map(tuple),
    ),
)
ORDERS = st.builds(
    Order,
    extension=TEXT,
    plan=PLANS,
    streams=st.tuples(TEXT, TEXT, TEXT),
    silence=st.floats(0.1, 1000),
    folder=st.none() | st.builds(SentFolder, TEXT, TEXT, TEXT),
    pins=st.builds(Pins, TEXT, TEXT),
    root=TEXT,
    manifest=TEXT,
    state=st.none() | st.builds(StateFolder, TEXT, COUNT),
)
STATUSES = st.builds(ExitStatus, st.none() | COUNT, st.none() | COUNT, TEXT, TEXT, TEXT)


@settings(max_examples=25)
@given(ORDERS, STATUSES, st.integers(1, 200))
def test_orders_and_exits_are_the_same_after_any_cuts(
    order: Order, status: ExitStatus, size: int
) -> None:
    data = encode_order(order) + HEARTBEAT + encode_exit(status)
    lines = LineDecoder()
    messages = [
        message
        for start in range(0, len(data), size)
        for message in lines.feed(data[start : start + size])
    ]
    assert len(messages) == 3
    assert decode_order(messages[0]) == order
    assert decode_exit(messages[2]) == status


@pytest.mark.parametrize("line", [b"{\n", b"[1]\n", b"\xff\n", b"x" * (MAX_LINE_BYTES + 1)])
def test_bytes_that_are_not_a_message_are_an_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        LineDecoder().feed(line)
