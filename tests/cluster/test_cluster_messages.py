"""The messages between a host and an agent, the program that starts processes on another node.

An Order has everything that the agent needs for a start. It must be the same after encoding and
decoding, for any values. A hello has the version, and says whether both can work together.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.cluster.messages import (
    Order,
    SentFolder,
    StateFolder,
    decode_exit,
    decode_order,
    encode_exit,
    encode_order,
    hello,
    is_compatible,
)
from exthost.cluster.multiplexer import Multiplexer
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
    inherited=WORDS,
    variables=st.dictionaries(TEXT, TEXT, max_size=4),
    folder=st.none() | st.builds(SentFolder, TEXT, TEXT),
    pins=st.builds(Pins, TEXT, TEXT),
    root=TEXT,
    manifest=TEXT,
    state=st.none() | st.builds(StateFolder, TEXT, COUNT),
)
STATUSES = st.builds(ExitStatus, st.none() | COUNT, st.none() | COUNT, TEXT, TEXT, TEXT)


@settings(max_examples=25)
@given(ORDERS, STATUSES)
def test_orders_and_exits_are_the_same_after_the_transfer(order: Order, status: ExitStatus) -> None:
    sender, receiver = Multiplexer(), Multiplexer()
    sender.send_message(4, encode_order(order))
    sender.send_message(4, encode_exit(status))
    first, second = receiver.receive(b"".join(sender.take_output()))
    assert decode_order(first[2]) == order
    assert decode_exit(second[2]) == status


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.1.0", True), ("0.2.7", True), ("0.0.9", True), ("0.3.0", False), ("1.1.0", False)],
)
def test_the_minor_versions_may_differ_by_one(
    monkeypatch: pytest.MonkeyPatch, version: str, expected: bool
) -> None:
    monkeypatch.setattr("exthost.cluster.messages.__version__", version)
    hello_of_agent = hello()
    monkeypatch.setattr("exthost.cluster.messages.__version__", "0.1.5")
    assert is_compatible(hello_of_agent) is expected


@pytest.mark.parametrize("version", ["", "1", "new", "1.x", 1.0, None, ["1", "2"], "²." * 2])
def test_an_unknown_version_is_not_compatible(version: object) -> None:
    message = {"hello": {**hello()["hello"], "version": version}}
    assert not is_compatible(message)


def test_another_protocol_is_not_compatible() -> None:
    hello_of_agent = hello()
    hello_of_agent["hello"]["protocol"] += 1
    assert not is_compatible(hello_of_agent)
