"""Of extensions that report the same name only one is accepted, also if they start together."""

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

NAMED = Offer(name="provider/test")


@dataclass
class Named:
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


def names_of(*extensions: Named) -> ReportedNames:
    return ReportedNames(lambda: extensions)


def test_of_two_that_start_together_the_second_is_refused() -> None:
    one, two = Named("one"), Named("two")
    names = names_of(one, two)
    names.accept(one.spec, NAMED)
    with pytest.raises(HandshakeFailed, match="calls itself provider/test, and so does one") as at:
        names.accept(two.spec, NAMED)
    assert at.value.code == "X0524"


def test_a_second_is_refused_while_the_first_is_ready() -> None:
    one, two = Named("one", State.READY, NAMED), Named("two")
    with pytest.raises(HandshakeFailed):
        names_of(one, two).accept(two.spec, NAMED)


@pytest.mark.parametrize("state", [State.FAILED, State.STOPPED, State.REFUSED])
def test_the_name_is_free_again_when_the_first_has_ended(state: State) -> None:
    one, two = Named("one"), Named("two")
    names = names_of(one, two)
    names.accept(one.spec, NAMED)
    one.state, one.offer = state, NAMED
    names.accept(two.spec, NAMED)


def test_the_same_extension_and_other_dialects_may_have_the_name() -> None:
    one, other = Named("one", State.READY, NAMED), Named("other", State.READY, NAMED, "mcp")
    names = names_of(one, other)
    names.accept(one.spec, NAMED)
    names.accept(one.spec, NAMED)
    names.accept(other.spec, NAMED)


TIDES = Offer(tools=(Tool("tide_next"), Tool("tide_last")))


@pytest.mark.parametrize("state", [State.STARTING, State.READY, State.FAILED])
@shows("nexo-second-07")
def test_a_tool_whose_name_is_taken_fails_the_start(state: State) -> None:
    first = Named("tide")
    names = names_of(first)
    names.accept_tools(first.spec, NEXO, TIDES)
    first.state, first.offer = state, NO_OFFER if state is State.STARTING else TIDES
    with pytest.raises(HandshakeFailed, match="its tool tide_last has the name of a tool of tide"):
        names.accept_tools(Spec(id="other", argv=()), PlainNames(**vars(NEXO)), TIDES)
    names.accept_tools(first.spec, NEXO, TIDES)  # its own next process


class PlainNames(Dialect):
    def registered_name(self, extension: str, tool: str) -> str:
        return tool
