"""The ruleset of the Landlock sandbox, by the version of Landlock in the kernel.

Landlock restricts only the rights that a ruleset "handles". Later versions of the kernel know more
rights, and scopes; an older kernel refuses a ruleset that names them. The argument of the system
call is three numbers of 64 bits: bits of the rights for files, of those for the network, of scopes.
"""

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
    all_rights = (1 << last_right + 1) - 1
    assert struct.unpack("=QQQ", attributes) == (all_rights, 0, scopes)
    assert size == (24 if scopes else 8)  # an older kernel knows only the first number
