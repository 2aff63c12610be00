"""Two extensions cannot report the same name in their handshakes, even if they start together.

In some dialects, such as cigen, the host routes calls by the name that an extension itself reports.
`ReportedNames` accepts the name of each extension at the end of its handshake, or fails its start.
In others, tools are registered under their own names, so two extensions cannot have one tool name.
"""

from dataclasses import dataclass, field

import pytest

from exthost.dialects.base import Dialect
from exthost.dialects.nexo.second_contract import DIALECT as NEXO
from exthost.errors import HandshakeFailed
from exthost.extension.lifecycle import State
from exthost.host.extension_factory import ReportedNames
from exthost.model.offer import NO_OFFER, Offer, Tool
from exthost.model.spec import Spec
from tests.dialects.requirements import shows

OFFER_WITH_NAME = Offer(name="provider/test")


@dataclass
class FakeExtension:
    """The attributes of an extension that ReportedNames uses."""

    id: str
    state: State = State.STARTING
    offer: Offer = NO_OFFER
    dialect_name: str = "cigen"
    dialect: Dialect = NEXO
    spec: Spec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = Spec(id=self.id, argv=("x",), dialect=self.dialect_name)

    @property
    def tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self.offer.tools}


def reported_names(*extensions: FakeExtension) -> ReportedNames:
    return ReportedNames(lambda: extensions)


def test_of_two_extensions_that_start_together_the_second_is_refused() -> None:
    first, second = FakeExtension("first"), FakeExtension("second")
    names = reported_names(first, second)
    names.accept_name(first.spec, OFFER_WITH_NAME)
    with pytest.raises(
        HandshakeFailed, match="calls itself provider/test, and so does first"
    ) as caught:
        names.accept_name(second.spec, OFFER_WITH_NAME)
    assert caught.value.code == "X0524"  # the name is taken


def test_a_second_extension_is_refused_while_the_first_is_ready() -> None:
    first, second = FakeExtension("first", State.READY, OFFER_WITH_NAME), FakeExtension("second")
    with pytest.raises(HandshakeFailed):
        reported_names(first, second).accept_name(second.spec, OFFER_WITH_NAME)


@pytest.mark.parametrize("state", [State.FAILED, State.STOPPED, State.REFUSED])
def test_the_name_is_free_again_when_the_first_has_ended(state: State) -> None:
    first, second = FakeExtension("first"), FakeExtension("second")
    names = reported_names(first, second)
    names.accept_name(first.spec, OFFER_WITH_NAME)
    first.state, first.offer = state, OFFER_WITH_NAME
    names.accept_name(second.spec, OFFER_WITH_NAME)


def test_the_same_extension_and_other_dialects_may_have_the_name() -> None:
    first = FakeExtension("first", State.READY, OFFER_WITH_NAME)
    other = FakeExtension("other", State.READY, OFFER_WITH_NAME, "mcp")
    names = reported_names(first, other)
    names.accept_name(first.spec, OFFER_WITH_NAME)
    names.accept_name(first.spec, OFFER_WITH_NAME)
    names.accept_name(other.spec, OFFER_WITH_NAME)


TIDES = Offer(tools=(Tool("tide_next"), Tool("tide_last")))


@pytest.mark.parametrize("state", [State.STARTING, State.READY, State.FAILED])
@shows("nexo-second-07")
def test_a_tool_whose_name_is_taken_fails_the_start(state: State) -> None:
    first = FakeExtension("tide")
    names = reported_names(first)
    names.accept_tools(first.spec, NEXO, TIDES)
    first.state, first.offer = state, NO_OFFER if state is State.STARTING else TIDES
    with pytest.raises(HandshakeFailed, match="its tool tide_last has the name of a tool of tide"):
        names.accept_tools(Spec(id="other", argv=()), DialectWithPlainNames(**vars(NEXO)), TIDES)
    names.accept_tools(first.spec, NEXO, TIDES)  # the next process of the same extension


class DialectWithPlainNames(Dialect):
    """A dialect that registers tools under their own names."""

    def registered_name(self, extension: str, tool: str) -> str:
        return tool
