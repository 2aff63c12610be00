"""Compile `sandbox/init.c` for each architecture into `sandbox/initcode.py`.

    python scripts/build_init.py

Run it after a change of init.c; needs gcc and aarch64-linux-gnu-gcc. The digests of the source and
of each program, and the versions of compiler and linker, are stored beside the code. A test fails
if one was changed without the others, and builds the program again if the same compiler is
installed.
"""

import base64
import hashlib
import shutil
import subprocess
import tempfile
import textwrap
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "src" / "exthost" / "launch" / "sandbox"
COMPILERS = {"x86_64": ("gcc", "-fcf-protection=none"), "aarch64": ("aarch64-linux-gnu-gcc",)}
FLAGS = (
    *("-Os", "-static", "-nostdlib", "-no-pie", "-fno-pic", "-ffreestanding", "-s"),
    *("-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror"),
    *("-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,-z,noexecstack"),
)

HEAD = '''\
"""The first process of a namespace, compiled from `init.c` by `make init`. Generated: the source
is what to read and to change."""

import base64
from collections.abc import Mapping

__all__ = ["BUILT_BY", "INIT", "INIT_SHA256", "SOURCE_SHA256"]

SOURCE_SHA256 = "{digest}"

'''


def build(compiler: tuple[str, ...], source: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "init")
        subprocess.run([*compiler, *FLAGS, "-o", str(program), str(source)], check=True)
        return program.read_bytes()


def toolchain(compiler: tuple[str, ...]) -> tuple[str, ...]:
    """Return the machine that this compiler compiles for, its version and that of its linker; ()
    without the compiler."""
    if shutil.which(compiler[0]) is None:
        return ()
    first_lines = []
    for option in ("-dumpmachine", "--version", "-Wl,--version"):
        ran = subprocess.run([compiler[0], option], check=True, capture_output=True, text=True)
        first_lines.append(ran.stdout.partition("\n")[0])
    return tuple(first_lines)


def main() -> None:
    source = FOLDER / "init.c"
    text = HEAD.format(digest=hashlib.sha256(source.read_bytes()).hexdigest())
    digests, builders = "", ""
    for machine, compiler in COMPILERS.items():
        program = build(compiler, source)
        digests += f'    "{machine}": "{hashlib.sha256(program).hexdigest()}",\n'
        versions = "".join(f'        "{version}",\n' for version in toolchain(compiler))
        builders += f'    "{machine}": (\n{versions}    ),\n'
        code = base64.b85encode(program).decode()
        lines = "\n".join(f'    b"{line}"' for line in textwrap.wrap(code, 90))
        text += f"_{machine.upper()} = (\n{lines}\n)\n\n"
    names = "".join(
        f'    "{architecture}": base64.b85decode(_{architecture.upper()}),\n'
        for architecture in COMPILERS
    )
    text += (
        f"# By the machine's name, as uname has it.\nINIT: Mapping[str, bytes] = {{\n{names}}}\n"
        f"INIT_SHA256: Mapping[str, str] = {{\n{digests}}}\n"
        f"# What the compiler was for, its version, the linker's.\n"
        f"BUILT_BY: Mapping[str, tuple[str, ...]] = {{\n{builders}}}\n"
    )
    (FOLDER / "initcode.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
