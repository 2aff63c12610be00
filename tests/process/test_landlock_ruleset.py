"""The rights that a Landlock ruleset handles, by the version of the kernel's Landlock."""

import os
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from exthost.process import landlocked_program


@pytest.mark.parametrize(
    ("version", "last_right", "scopes"),
    [(3, 14, 0), (4, 14, 0), (5, 15, 0), (6, 15, 3), (7, 15, 3)],
)
def test_a_ruleset_handles_what_the_kernel_knows(
    version: int, last_right: int, scopes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[tuple[bytes, int]] = []

    def syscall(number: int, attributes: bytes, size: Any, flags: int) -> int:
        created.append((attributes, size.value))
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(landlocked_program, "_libc", SimpleNamespace(syscall=syscall))
    os.close(landlocked_program._make_ruleset(version, []))
    ((attributes, size),) = created
    assert struct.unpack("=QQQ", attributes) == ((1 << last_right + 1) - 1, 0, scopes)
    assert size == (24 if scopes else 8)
