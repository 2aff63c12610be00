"""The error of calls to an extension that has ended and is not started again.

The host gives up after some restarts. The error is that of the last process, `cause`. If that
process crashed, the help also says why there is no further restart; if it could not be started, the
help of that error is more useful.
"""

import pytest

from exthost.errors import ExtensionGone, ExthostError, SpawnFailed
from exthost.extension.lifecycle import State
from exthost.extension.unavailable import given_up_error, not_ready_error, starting_again_error

CRASH = ExtensionGone("X1001", "it crashed", extension="x", help="see its log")
START_HINT = "restart(), or `exthost restart x`, starts it"
FAILURE = SpawnFailed("X0401", "there is no program", extension="x", help="check the spelling")


@pytest.mark.parametrize(
    ("cause", "reason", "help"),
    [
        (
            CRASH,
            "3 restarts were used",
            f"it is not started again: 3 restarts were used; {START_HINT}",
        ),
        (CRASH, "", "see its log"),
        (FAILURE, "3 restarts were used", "check the spelling"),
    ],
)
def test_only_the_help_of_a_crash_gets_the_reason(
    cause: ExthostError, reason: str, help: str
) -> None:
    error = given_up_error(cause, reason)
    # A copy, so that each call raises its own exception.
    assert error is not cause and error.message == cause.message
    assert error.help == help


@pytest.mark.parametrize(
    ("state", "reason", "help"),
    [
        (State.ADMITTED, "the extension is admitted", "`exthost start x`"),
        (State.STOPPED, "the extension is stopped", "`exthost start x`"),
        (State.STARTING, "the extension is starting", "wait until it is ready"),
        (State.READY, "each process of the extension works on a call", "wait for their replies"),
    ],
)
def test_a_caller_who_does_not_wait_gets_the_reason_and_what_to_do(
    state: State, reason: str, help: str
) -> None:
    error = not_ready_error("x", "echo", state)
    assert error.code == "X1007" and error.message == f"echo is not available: {reason}"
    assert help in error.help
    assert ("start it" in error.help) == (state in (State.ADMITTED, State.STOPPED))


def test_the_error_during_a_restart_has_the_cause_and_says_that_it_is_started_again() -> None:
    error = starting_again_error(CRASH, "echo")
    assert error is not CRASH and error.code == CRASH.code
    assert error.message == "it crashed; it is being started again, and echo is not available yet"
    assert error.help.startswith("wait until it is ready") and error.help.endswith(CRASH.help)
