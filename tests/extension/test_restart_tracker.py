"""The text about a restart that follows the end of a process."""

from exthost.extension.restart_tracker import Retry


def test_a_restart_names_the_largest_number_only_if_there_is_one() -> None:
    assert str(Retry(2, 5, 0.5)) == "restart 2 of 5 in 0.5 s"
    assert str(Retry(2, None, 0.5)) == "restart 2 in 0.5 s"
