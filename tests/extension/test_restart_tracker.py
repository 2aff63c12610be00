"""The text in logs about the restart that follows the end of a process."""

from exthost.extension.restart_tracker import Retry


def test_the_text_names_the_limit_of_restarts_only_if_there_is_one() -> None:
    number, limit, delay = 2, 5, 0.5
    assert str(Retry(number, limit, delay)) == "restart 2 of 5 in 0.5 s"
    assert str(Retry(number, None, delay)) == "restart 2 in 0.5 s"
