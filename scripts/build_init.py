"""Compile `sandbox/init.c` for each architecture into `sandbox/initcode.toml`, and
`process/splicer.c` into `process/splicercode.toml`.

    python scripts/build_init.py

Run it after a change of a source; needs gcc and aarch64-linux-gnu-gcc. The digests of the source
and of each program, and the versions of compiler and linker, are stored beside the code. A test
fails if one was changed without the others, and builds the program again if the same compiler is
installed.
"""

import base64
import hashlib
import shutil
import subprocess
import tempfile
import textwrap
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "exthost"
FOLDER = PACKAGE / "launch" / "sandbox"
COMPILERS = {"x86_64": ("gcc", "-fcf-protection=none"), "aarch64": ("aarch64-linux-gnu-gcc",)}
FLAGS = (
    *("-Os", "-static", "-nostdlib", "-no-pie", "-fno-pic", "-ffreestanding", "-s"),
    *("-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror"),
    *("-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,-z,noexecstack"),
)

# Each source, where its programs are stored, and what the program is.
PROGRAMS = (
    (FOLDER / "init.c", FOLDER / "initcode.toml", "The first process of a namespace"),
    (
        PACKAGE / "process" / "splicer.c",
        PACKAGE / "process" / "splicercode.toml",
        "The process that moves large transfers",
    ),
)

HEAD = """\
# {title}, compiled from `{source}` by `make init`. Generated: the source is
# what to read and to change. A program is encoded in base 85.

source_sha256 = "{digest}"
"""


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
    for source, tables, title in PROGRAMS:
        write_tables(source, tables, title)


def write_tables(source: Path, tables: Path, title: str) -> None:
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    text = HEAD.format(title=title, source=source.name, digest=digest)
    for machine, compiler in COMPILERS.items():
        program = build(compiler, source)
        versions = "".join(f'  "{version}",\n' for version in toolchain(compiler))
        code = "\n".join(textwrap.wrap(base64.b85encode(program).decode(), 98))
        text += (
            f"\n[programs.{machine}]\n"
            f'sha256 = "{hashlib.sha256(program).hexdigest()}"\n'
            f"# What the compiler was for, its version, the linker's.\n"
            f"built_by = [\n{versions}]\n"
            f"code = '''\n{code}\n'''\n"
        )
    tables.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
