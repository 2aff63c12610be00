"""Runs a WebAssembly module as a program: its stdin, stdout and stderr are those of this process.

The host executes this file (see `launch.wasm`) in an isolated interpreter, which need not find the
package exthost. So the file imports the standard library and the package `wasmtime` only, and
`wasmtime` only when it runs.

    wasm_runner.py MODULE --code FOLDER --compile
        Compile the module, and keep its machine code in FOLDER. End when stdin is closed, which
        happens if the host dies.
    wasm_runner.py MODULE --code FOLDER [--sha256 DIGEST] [--memory BYTES]
                   [--read FOLDER]… [--write FOLDER]… -- ARGUMENTS
        Run the function `_start` of the module. The module reads and writes the named folders,
        under the same paths, and no other file. It has no network and cannot start a process.

The exit code is that of the module. A module that fails (a trap, such as an access outside its
memory) has the exit code of a program that calls abort().
"""

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import argparse

    import wasmtime

# The exit codes that a shell gives to a program that SIGABRT ended, and to a file that cannot be
# executed.
_ABORTED = 128 + signal.SIGABRT
_NOT_EXECUTABLE = 126


def code_file(folder: str, module: bytes) -> Path:
    """Return where the machine code of a module is kept. Another version of wasmtime cannot load
    it."""
    from importlib.metadata import version  # not at every start of a host: it loads 40 modules

    digest = hashlib.sha256(module).hexdigest()
    return Path(folder, f"{digest}-{version('wasmtime')}")


def main(words: Sequence[str]) -> None:
    """Run the command line."""
    import wasmtime

    arguments = _parse_arguments(words)
    try:
        module = Path(arguments.module).read_bytes()
    except OSError as error:
        _fail(f"cannot read {arguments.module}: {error.strerror}")
    if arguments.sha256 and hashlib.sha256(module).hexdigest() != arguments.sha256:
        _fail(f"{arguments.module} is not the module that was pinned")
    config = wasmtime.Config()
    # With threads a module could have shared memory, to which the limit of the store does not
    # apply.
    config.wasm_threads = False
    engine = wasmtime.Engine(config)
    code = code_file(arguments.code, module)
    if arguments.compile:
        threading.Thread(target=_exit_with_host, daemon=True).start()
        _write(code, bytes(_compile(engine, module, arguments.module).serialize()))
        return
    _run(engine, _load(engine, code) or _compile(engine, module, arguments.module), arguments)


def _parse_arguments(words: Sequence[str]) -> "argparse.Namespace":
    import argparse

    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("module")
    parser.add_argument("--code", required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--sha256", default="")
    parser.add_argument("--memory", type=int, default=-1)
    parser.add_argument("--read", action="append", default=[])
    parser.add_argument("--write", action="append", default=[])
    # argparse would read some of the module's arguments as options, even after "--".
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:end])
    arguments.rest = [*words[end + 1 :]]
    return arguments


def _exit_with_host() -> None:
    while os.read(0, 64):
        pass
    os._exit(_ABORTED)


def _compile(engine: "wasmtime.Engine", module: bytes, name: str) -> "wasmtime.Module":
    import wasmtime

    try:
        return wasmtime.Module(engine, module)
    except wasmtime.WasmtimeError as error:
        _fail(f"{name} cannot be compiled: {error}")


def _write(code: Path, data: bytes) -> None:
    """Write a file whole or not at all, since two hosts may compile one module at the same time."""
    unfinished = code.with_name(f"{code.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        unfinished.replace(code)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def _load(engine: "wasmtime.Engine", code: Path) -> "wasmtime.Module | None":
    """Return the module from its machine code; None if there is none, or if somebody else could
    have written it, since machine code is not confined by the engine."""
    import wasmtime

    try:
        with code.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return None
            return wasmtime.Module.deserialize(engine, file.read())
    except (OSError, wasmtime.WasmtimeError):
        return None


def _run(
    engine: "wasmtime.Engine", module: "wasmtime.Module", arguments: "argparse.Namespace"
) -> None:
    """Run the function `_start` of the module, and end this process."""
    import wasmtime

    wasi = wasmtime.WasiConfig()
    wasi.argv = [arguments.module, *arguments.rest]
    # WASI has no working folder. Programs of Go resolve relative paths with this variable.
    wasi.env = [*({"PWD": str(Path.cwd())} | os.environ).items()]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    for folders, is_mutable in ((arguments.read, False), (arguments.write, True)):
        for folder in folders:
            if os.path.realpath(folder) != folder:
                _fail(f"{folder} was replaced by a link while the module was started")
            wasi.preopen_dir(folder, folder, is_mutable)
    store = wasmtime.Store(engine)
    store.set_wasi(wasi)
    store.set_limits(memory_size=arguments.memory)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    try:
        exports = linker.instantiate(store, module).exports(store)
    except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
        _fail(f"{arguments.module} cannot be run: {error}")
    start, memory = exports.get("_start"), exports.get("memory")
    if not isinstance(start, wasmtime.Func):
        _fail(f"{arguments.module} has no function _start: build it as a command of WASI")
    # From here on an interrupt ends the process: Python's handler would wait for the module.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        start(store)
    except wasmtime.ExitTrap as exit:
        _end(exit.code)
    except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
        print(f"exthost: the module failed: {error}", file=sys.stderr)
        if isinstance(memory, wasmtime.Memory) and arguments.memory >= 0:
            used, limit = memory.data_len(store), arguments.memory
            print(f"exthost: it used {used} of {limit} bytes of max_memory", file=sys.stderr)
        _end(_ABORTED)
    _end(0)


def _fail(reason: str) -> NoReturn:
    print(f"exthost: {reason}", file=sys.stderr)
    _end(_NOT_EXECUTABLE)


def _end(code: int) -> NoReturn:
    """End the process at once. The threads of the engine may still wait for stdin."""
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1:])
