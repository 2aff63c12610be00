"""The committed programs of `sandbox/initcode.toml` are built from their source.

Another compiler would build another program, so a program is compared only if the compiler and the
linker are those that built it. It must always have its recorded digest.
"""

import hashlib
from pathlib import Path

import pytest

from exthost.launch.sandbox.initcode import BUILT_BY, INIT, INIT_SHA256
from scripts.build_init import COMPILERS, FOLDER, build, toolchain


@pytest.mark.parametrize("machine", INIT)
def test_each_program_has_its_recorded_digest(machine: str) -> None:
    assert hashlib.sha256(INIT[machine]).hexdigest() == INIT_SHA256[machine]


def compiler_of(machine: str) -> tuple[str, ...]:
    """Return the compiler that built the program. Skip the test if it is missing or another one."""
    compiler = COMPILERS[machine]
    versions = toolchain(compiler)
    if not versions:
        pytest.skip(f"no {compiler[0]} here: the {machine} program is not built again")
    if versions != BUILT_BY[machine]:
        pytest.skip(
            f"the {machine} program is by {BUILT_BY[machine]}, the compiler here is {versions}"
        )
    return compiler


@pytest.mark.parametrize("machine", INIT)
def test_each_program_is_built_again_byte_for_byte(machine: str) -> None:
    compiler = compiler_of(machine)
    assert build(compiler, FOLDER / "init.c") == INIT[machine], "run `make init`"


@pytest.mark.more
@pytest.mark.parametrize("machine", INIT)
def test_another_source_makes_another_program(machine: str, tmp_path: Path) -> None:
    compiler = compiler_of(machine)
    changed = tmp_path / "init.c"
    source = (FOLDER / "init.c").read_text(encoding="utf-8")
    changed.write_text(source + '\nconst char more[] = "more";\n', encoding="utf-8")
    assert build(compiler, changed) != INIT[machine]


def test_every_machine_is_recorded() -> None:
    assert set(INIT) == set(COMPILERS) == set(BUILT_BY) == set(INIT_SHA256)


@pytest.mark.parametrize("machine", INIT)
def test_each_program_names_its_recorded_compiler(machine: str) -> None:
    """A wrong record would prevent the comparison of a changed program."""
    _, compiler, _ = BUILT_BY[machine]
    version = compiler.partition(" ")[2]
    assert b"GCC: " + version.encode() in INIT[machine]
