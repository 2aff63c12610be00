"""Whether an extension agrees with its record in `exthost.lock`, in one word for status reports.

The word is derived from the code of the error that stopped the extension, if there is one, and from
the tools that are quarantined because they differ from the record.
"""

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
        ("X0401", {}, True, "locked"),  # the program is missing: not an error of the lock
        ("X1820", {}, True, "changed"),  # the extension differs from the lock
        ("X1821", {"get": "changed"}, True, "changed"),  # its files cannot be compared
        ("X1823", {}, False, "unlocked"),  # the lock is not valid
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
