"""The compiled C programs in `sandbox/initcode.toml` and `process/splicercode.toml` are built from
their sources, `init.c` and `splicer.c`.

The files have the machine code for each architecture (`make init` writes them), so that users need
no compiler. Another compiler would build another program, so a program is compared only if the
compiler and the linker are those that built it. It must always have its recorded digest.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import pytest

from exthost.launch.sandbox import initcode
from exthost.process import splicercode
from scripts.build_init import COMPILERS, PROGRAMS, build, toolchain


class Program(NamedTuple):
    """A committed program of one machine, and its record."""

    source: Path
    source_sha256: str
    machine: str
    code: bytes
    sha256: str
    built_by: tuple[str, ...]


SOURCES = [source for source, _, _ in PROGRAMS]
RECORDS = {"init.c": initcode.PROGRAM, "splicer.c": splicercode.PROGRAM}


def programs_of(source: Path) -> list[Program]:
    """Return the committed programs of a source, one for each machine."""
    source_sha256, codes, digests, built_by = RECORDS[source.name]
    return [
        Program(source, source_sha256, machine, codes[machine], digests[machine], built_by[machine])
        for machine in codes
    ]


ALL_PROGRAMS = [program for source in SOURCES for program in programs_of(source)]

each_program = pytest.mark.parametrize(
    "program",
    ALL_PROGRAMS,
    ids=[f"{program.source.stem}-{program.machine}" for program in ALL_PROGRAMS],
)


@each_program
def test_each_program_has_its_recorded_digest(program: Program) -> None:
    assert hashlib.sha256(program.code).hexdigest() == program.sha256


@each_program
def test_each_program_was_built_from_its_source(program: Program) -> None:
    digest = hashlib.sha256(program.source.read_bytes()).hexdigest()
    assert digest == program.source_sha256, "a source was changed: run `make init`"


def compiler_of(program: Program) -> tuple[str, ...]:
    """Return the compiler that built the program. Skip the test if it is missing or another one."""
    compiler = COMPILERS[program.machine]
    versions = toolchain(compiler)
    if not versions:
        pytest.skip(f"no {compiler[0]} here: the {program.machine} program is not built again")
    if versions != program.built_by:
        pytest.skip(
            f"the {program.machine} program is by {program.built_by}, "
            f"the compiler here is {versions}"
        )
    return compiler


@each_program
def test_each_program_is_built_again_byte_for_byte(program: Program) -> None:
    compiler = compiler_of(program)
    assert build(compiler, program.source) == program.code, "run `make init`"


@pytest.mark.more
@each_program
def test_another_source_makes_another_program(program: Program, tmp_path: Path) -> None:
    compiler = compiler_of(program)
    changed = tmp_path / program.source.name
    source = program.source.read_text(encoding="utf-8")
    changed.write_text(source + '\nconst char more[] = "more";\n', encoding="utf-8")
    assert build(compiler, changed) != program.code


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_every_machine_is_recorded(source: Path) -> None:
    _, codes, digests, built_by = RECORDS[source.name]
    assert set(codes) == set(COMPILERS) == set(built_by) == set(digests)


@each_program
def test_each_program_names_its_recorded_compiler(program: Program) -> None:
    """A wrong record would prevent the comparison of a changed program."""
    _, compiler, _ = program.built_by
    version = compiler.partition(" ")[2]
    assert b"GCC: " + version.encode() in program.code
