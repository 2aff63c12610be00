"""The restart history of one extension, and the text in logs about a restart."""

from exthost.errors import ExtensionGone
from exthost.extension.restart import GiveUp
from exthost.extension.restart_tracker import RestartTracker, Retry
from exthost.model.spec import Restart


def test_a_failed_start_is_no_crash_although_another_process_of_the_pool_is_ready() -> None:
    now = [0.0]
    tracker = RestartTracker(Restart(strategy="immediate", max_retries=0), lambda: now[0])
    tracker.started()
    tracker.started()
    tracker.ready()
    now[0] = 1000.0  # the process that is ready has long been running
    tracker.start_failed()
    decision = tracker.decide_next(ExtensionGone("X0502", "it ended"))
    assert isinstance(decision, GiveUp)
    assert decision.reason.startswith("it was never ready, and no restart is allowed")
    assert not tracker.has_crashed and tracker.crashes == 0


def test_the_text_names_the_limit_of_restarts_only_if_there_is_one() -> None:
    number, limit, delay = 2, 5, 0.5
    assert str(Retry(number, limit, delay)) == "restart 2 of 5 in 0.5 s"
    assert str(Retry(number, None, delay)) == "restart 2 in 0.5 s"
