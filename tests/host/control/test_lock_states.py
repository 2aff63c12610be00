"""The word for how an extension stands with the lock, from its last error and its tools."""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.host.control.lock_state import lock_state


@pytest.mark.parametrize(
    ("code", "quarantined", "has_record", "expected"),
    [
        ("", {}, False, ""),
        ("", {}, True, "locked"),
        ("", {"get": "changed"}, True, "quarantined"),
        ("X0401", {}, True, "locked"),
        ("X1820", {}, True, "changed"),
        ("X1821", {"get": "changed"}, True, "changed"),
        ("X1823", {}, False, "unlocked"),
    ],
)
def test_the_state_of_an_extension(
    code: str, quarantined: dict[str, str], has_record: bool, expected: str
) -> None:
    extension: Any = SimpleNamespace(
        cause=SimpleNamespace(code=code) if code else None,
        quarantined=quarantined,
        spec=SimpleNamespace(lock=object() if has_record else None),
    )
    assert lock_state(extension) == expected
