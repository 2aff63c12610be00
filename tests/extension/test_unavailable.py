"""The error of calls to an extension that has ended and is not started again.

The host gives up after some restarts. The error is that of the last process, `cause`. If that
process crashed, the help also says why there is no further restart; if it could not be started, the
help of that error is more useful.
"""

import pytest

from exthost.errors import ExtensionGone, ExthostError, SpawnFailed
from exthost.extension.unavailable import given_up_error

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
