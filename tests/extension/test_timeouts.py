"""The texts of timeout errors, and the error of a hook whose time is over.

The reply to a call may have been written in a form that the host cannot read, so the help mentions
the stray lines on stdout: lines that are not messages.
"""

import sys
from typing import Any

import pytest

import exthost
from exthost.errors import CallTimeout, ExtensionGone
from exthost.extension.calls import Calls
from exthost.extension.timeouts import not_ready_in_time_error, timeout_error
from exthost.model.messages import Noise
from exthost.session.call import Call
from exthost.session.replies import DELIVER
from tests.extensions.clock import Clock
from tests.extensions.harness import closed_at_end, error_of, unstarted_extension
from tests.extensions.morphir_program import morphir_program

# A program that answers each request except "hang". Before it answers "stray", it writes lines that
# are not messages.
STRAY_LINE_WRITER = morphir_program(
    r"""
    if method == "hang":
        continue
    if method == "stray":
        print("stray\n" * params["lines"], end="")
    """
)


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        (3, "its answer may be among the 3 stray lines on stdout: the log has them"),
        (300, "among the 300 stray lines on stdout, or behind them and still unread"),
    ],
)
async def test_a_timeout_after_stray_output_refers_to_the_log(lines: int, advice: str) -> None:
    command = [sys.executable, "-S", "-E", "-c", STRAY_LINE_WRITER]
    async with exthost.connect(command, dialect="morphir") as extension:
        await extension.call("stray", {"lines": lines})
        with pytest.raises(CallTimeout) as caught:
            await extension.call("hang", timeout=0.1)
    assert advice in caught.value.help
    # The host logs at most 100 stray lines.
    assert ("the log has the first 100" in caught.value.help) == (lines > 100)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(600.0, "600 s"), (9.99951, "10 s"), (0.0123456, "0.012 s"), (0.00012345, "0.0001 s")],
)
def test_a_limit_is_shown_with_few_digits_and_never_as_zero(seconds: float, text: str) -> None:
    error = not_ready_in_time_error("a", "echo", seconds, None)  # for a call of `echo`
    assert error.message == f"echo took longer than {text}: the extension was not ready"


@pytest.mark.parametrize(
    ("id_of_reply", "reason"),
    [(7, "its answer is not a message (not JSON)"), (6, "it was still waiting for its turn")],
    ids=["of_this_request", "of_an_earlier_request"],
)
def test_an_unreadable_reply_to_an_earlier_request_is_not_mentioned(
    id_of_reply: int, reason: str
) -> None:
    call = Call("echo", None, DELIVER, 1.0, 0.0)
    call.id = 7
    call.unreadable_reply = id_of_reply, Noise(b"{", "not JSON")
    assert reason in timeout_error("x", call, has_process=True).message


async def test_a_hook_whose_process_ended_after_its_time_is_not_sent_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Any] = []

    async def lose_process(calls: Calls, *arguments: Any) -> Any:
        attempts.append(arguments)
        clock.move(3600)
        raise ExtensionGone("X1001", "it ended")

    monkeypatch.setattr(Calls, "run_operation", lose_process)
    async with closed_at_end(unstarted_extension()) as ext:
        error = await error_of(ext.run_hook("hook", {}, timeout=600))
    assert error.message == "it ended" and len(attempts) == 1
