"""The sentence about a program for another machine or operating system, by its first bytes."""

import os
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from exthost.process.spawn_errors import describe_foreign_program


def elf_header(machine: int, order: str = "<") -> bytes:
    """Return the start of an ELF file for the machine of this number, in this byte order."""
    return (
        b"\x7fELF\x02"
        + (b"\1" if order == "<" else b"\2")
        + bytes(12)
        + struct.pack(f"{order}H", machine)
    )


@pytest.mark.parametrize(
    ("uname_machine", "head", "expected"),
    [
        ("x86_64", elf_header(62), ""),
        ("x86_64", elf_header(183), "a Linux program for aarch64"),
        ("x86_64", elf_header(22, ">"), "a Linux program for s390x"),
        ("x86_64", elf_header(9999), "a Linux program for machine 9999 of the ELF standard"),
        # `uname -m` has several names for some machines.
        ("i686", elf_header(3), ""),
        ("armv7l", elf_header(40), ""),
        ("riscv64", elf_header(243), ""),
        ("ppc64le", elf_header(21), ""),
        ("x86_64", b"MZ\x90\x00", "a Windows program"),
        ("x86_64", b"\xcf\xfa\xed\xfe", "a macOS program"),
        ("x86_64", b"\xca\xfe\xba\xbe\0\0\0\2", "a macOS program"),
        ("x86_64", b"\xca\xfe\xba\xbe\0\0\0\x41", "a Java class file"),
        # Files that are cut off.
        ("x86_64", b"\x7fELF", ""),
        ("x86_64", b"\xca\xfe\xba\xbe", ""),
        ("x86_64", b"", ""),
    ],
)
def test_a_program_for_another_system_is_described(
    uname_machine: str, head: bytes, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "uname", lambda: SimpleNamespace(sysname="Linux", machine=uname_machine)
    )
    program = tmp_path / "x"
    program.write_bytes(head)
    described = describe_foreign_program(str(program))
    assert (expected in described) if expected else described == ""
