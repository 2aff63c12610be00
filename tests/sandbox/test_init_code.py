"""The committed programs of `sandbox/initcode.toml` are what their source compiles to.

Another compiler makes another program of the same source, so a program is only compared where the
compiler and the linker are those that made it. Everywhere it must have its recorded digest.
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
    """The compiler that made the program. Skips the test where it is another, or missing."""
    compiler = COMPILERS[machine]
    found = toolchain(compiler)
    if not found:
        pytest.skip(f"no {compiler[0]} here: the {machine} program is not built again")
    if found != BUILT_BY[machine]:
        pytest.skip(
            f"the {machine} program is by {BUILT_BY[machine]}, the compiler here is {found}"
        )
    return compiler


@pytest.mark.parametrize("machine", INIT)
def test_each_program_is_built_again_byte_for_byte(machine: str) -> None:
    compiler = compiler_of(machine)
    assert build(compiler, FOLDER / "init.c") == INIT[machine], "run `make init`"


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
    """A wrong record cannot keep a changed program from being compared."""
    _, compiler, _ = BUILT_BY[machine]
    version = compiler.partition(" ")[2]
    assert b"GCC: " + version.encode() in INIT[machine]
