"""Checks a program before a wrapper (the command that makes its sandbox) executes it.

The host cannot see the error of an `execve` inside a wrapper. So it checks the program first, and
raises the error that `execve` would give.
"""

import errno
import os

from exthost.model.launch_plan import LaunchPlan
from exthost.process.small_files import FIRST_LINE_BYTES, read_start

# The first bytes of a WebAssembly module.
WASM_MAGIC = b"\0asm"


def check_program(plan: LaunchPlan) -> None:
    """Raise the OSError that executing the program would raise."""
    program = plan.argv[0]
    if "/" not in program:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if plan.cwd is not None and not os.path.isdir(plan.cwd):  # noqa: PTH112 - on every start
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), plan.cwd)
    _check_executable(program)
    try:
        head = read_start(program, FIRST_LINE_BYTES)
    except OSError:
        return  # a file may be executable and not readable
    if head.startswith(b"#!"):
        # As the kernel reads it: a carriage return before the newline is part of the name.
        interpreter = head[2:].split(b"\n", 1)[0].replace(b"\t", b" ").strip(b" ").split(b" ")[0]
        if interpreter:
            _check_executable(os.fsdecode(interpreter))
    elif b"\0" not in head or head.startswith(WASM_MAGIC):
        # Not machine code: only a shell, or the engine of `launch.wasm`, would run it.
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), program)


def _check_executable(program: str) -> None:
    os.stat(program)  # noqa: PTH116 - raises if there is no such file
    if not os.path.isfile(program) or not os.access(program, os.X_OK):  # noqa: PTH113
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)
