"""Of extensions that report the same name only one is accepted, also if they start together."""

from dataclasses import dataclass, field

import pytest

from exthost.errors import HandshakeFailed
from exthost.extension.lifecycle import State
from exthost.host.reported_names import ReportedNames
from exthost.offer import NO_OFFER, Offer
from exthost.spec import Spec

NAMED = Offer(name="provider/test")


@dataclass
class Named:
    id: str
    state: State = State.STARTING
    offer: Offer = NO_OFFER
    dialect: str = "cigen"
    spec: Spec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = Spec(id=self.id, argv=("x",), dialect=self.dialect)

    @property
    def serves(self) -> bool:
        return self.state is State.READY


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
