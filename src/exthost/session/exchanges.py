"""Operations of more than one exchange: the generator that a dialect wrote is led step by step.

What it yields is said, what is heard is sent to it, and its end is the end of the call. It never
waits and does no I/O; the session does both, and serves everything else meanwhile. A dialect that
trips over what the child said costs that one call.
"""

import logging
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from exthost.dialects.dialect import Heard, Inquiry, Offered, Spent, Standing, Tentative
from exthost.errors import ExthostError
from exthost.messages import Failure, Reply, Request
from exthost.session import causes
from exthost.session.state import Call

if TYPE_CHECKING:
    from exthost.session.session import Session

_log = logging.getLogger("exthost.session")


def advance(session: "Session", call: Call, heard: Heard) -> None:
    """Let an operation of several exchanges take its next step."""
    steps = call.steps
    assert steps is not None
    try:
        while True:
            said = steps.send(heard)
            if type(said) is Request:
                if call.each:
                    call.tentative = False
                    call.deadline = session.desk.now() + call.timeout
                session.ask(call, said.method, said.params, said.id)
                return
            heard = None
            if isinstance(said, Offered):
                heard = session.offer
            elif isinstance(said, Spent):
                call.spent = True
            elif isinstance(said, Tentative):
                _try(session, call, said)
                return
            elif isinstance(said, Inquiry):
                _inquire(session, call, said)
                return
            elif isinstance(said, Standing):
                session.standing.ask(said)
            else:
                session.tell(said)
    except StopIteration as done:
        session.retire(call)
        session.desk.settle(call, done.value)
    except ExthostError as error:
        session.retire(call)
        session.desk.fail(call, error)
    except Exception as error:  # the dialect tripped over what the child said
        _log.exception("the %s dialect could not follow its own operation", session.dialect.name)
        session.desk.fail(call, causes.not_understood(session.witness, error)(call.method))


def _try(session: "Session", call: Call, said: Tentative) -> None:
    """Ask what may stay unanswered: `unanswered` is what becomes of it then."""
    call.tentative = True
    call.deadline = session.desk.now() + min(said.seconds, call.timeout / 2)
    session.ask(call, said.request.method, said.request.params, said.request.id)
    session.desk.watch(call)


def unanswered(session: "Session", call: Call) -> None:
    """A tentative question has had its time: its operation goes on without the answer."""
    session.state.forget(call)
    call.tentative = False
    advance(session, call, None)


def _inquire(session: "Session", call: Call, said: Inquiry) -> None:
    """Put a question that came inside an answer to the handlers. Its call waits meanwhile like
    any other, under an id that no child can say."""
    with session.lock:
        number: Any = (session.state.next_id,)
        session.state.next_id += 1
    call.id = number
    session.pending[number] = call

    def told(answer: Reply | Failure) -> None:
        if session.pending.pop(number, None) is call:
            advance(session, call, answer)

    session.inquire(Request(said.method, said.params, number), told)


def settle_once(session: "Session", call: Call, result: Any) -> None:
    """The first answer of an operation that mostly has no second."""
    assert call.once is not None
    try:
        value = call.once.settle(call.params, result)
    except ExthostError as error:
        session.desk.fail(call, error)
    except Exception as error:  # the dialect tripped over what the child said
        _log.exception("the %s dialect could not read an answer", session.dialect.name)
        session.desk.fail(call, causes.not_understood(session.witness, error)(call.method))
    else:
        if type(value) is GeneratorType:
            call.once = None
            advance(session, call.through(value), None)
        else:
            session.desk.settle(call, value)
