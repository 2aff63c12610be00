"""Plans the start of a WebAssembly module (`source = { type = "wasm", path = … }`).

A runner process of ours executes the module (`wasm_runner`). For everything else the runner is the
program of the extension: it is started, watched and ended as any other.

The engine in the runner is the sandbox of the module, on every platform and without bubblewrap: the
module reads and writes the folders of `permissions.filesystem` and nothing else, has no network,
and its memory is limited by `max_memory`. This applies without a `permissions` table, too.

The engine compiles a module before it runs it, which takes seconds. So the host lets a separate
process do that before the first start, outside the time limits of the start (`Compilation`), and
keeps the machine code in its state folder. Nothing that a module may write is in that folder.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from exthost.errors import Evidence, Refused, SpawnFailed
from exthost.launch import wasm_runner
from exthost.launch.file_view import ViewRequest, resolve_grants
from exthost.model.spec import Permissions, Pins, Spec
from exthost.process.private_folders import make_folder
from exthost.process.small_files import open_regular_file
from exthost.process.state_root import state_root

# The memory of the runner without that of the module: the interpreter, the machine code, and the
# compiler if the machine code was lost. 90 MiB were measured.
_RUNNER_BYTES = 256 * 2**20

# A module of 3 MB takes two seconds on a quiet machine.
_COMPILE_SECONDS = 300

# The machine code of this many modules is kept, the last used ones.
_MAX_CODE_FILES = 64

# A larger module is not read: a sparse file may claim any size.
_MAX_MODULE_BYTES = 1 << 30

_BUILD_HELP = "build it for WASI preview 1 (wasip1), as a command with a main function"

_HEADER_BYTES = 8
_MODULE_HEADER, _COMPONENT_HEADER = b"\0asm\1\0\0\0", b"\0asm\x0d\0\1\0"


def is_module(spec: Spec) -> bool:
    """Return whether the extension is a WebAssembly module."""
    return spec.source == "wasm"


def check_module_permissions(spec: Spec) -> tuple[str, ...]:
    """Raise Refused if the engine is missing, or if a permission cannot be given to a module.
    Return the folders that the module may write."""
    if find_spec("wasmtime") is None:
        raise Refused(
            "X0336",
            "it is a WebAssembly module, and the package wasmtime is not installed",
            extension=spec.id,
            help="pip install 'exthost[wasm]'",
        )
    if spec.pool.engine is not None:
        raise _permission_error(
            spec, "it is a WebAssembly module, which runs on this machine only", "pool.engine"
        )
    if spec.permissions is not None and spec.permissions.network:
        raise _permission_error(spec, "a WebAssembly module has no network", "permissions.network")
    grants = [*_granted_folders(spec)]
    for folder, _ in grants:
        if not os.path.isdir(folder):  # noqa: PTH112
            raise _permission_error(
                spec,
                f"a WebAssembly module can be granted folders only, and {folder} is a file",
                "permissions.filesystem",
            )
    return tuple(folder for folder, may_write in grants if may_write)


def runner_command(spec: Spec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that runs the module of an extension."""
    pins = spec.sha256
    digest = pins.program if isinstance(pins, Pins) else pins
    policy = spec.permissions or Permissions()
    options = ["--sha256", digest] if digest else []
    if policy.max_memory is not None:
        options += ["--memory", str(policy.max_memory)]
    for folder, may_write in _granted_folders(spec):
        options += ["--write" if may_write else "--read", folder]
    return (*_runner(spec, environ), *options, "--", *spec.argv[1:])


def with_runner_memory(policy: Permissions | None) -> Permissions | None:
    """Return the permissions for the runner process: `max_memory` limits the memory of the module
    inside it, so the process may have more."""
    if policy is None or policy.max_memory is None:
        return policy
    return replace(policy, max_memory=policy.max_memory + _RUNNER_BYTES)


def describe_engine(spec: Spec) -> dict[str, Any]:
    """Return how the engine restricts a module, as data for users."""
    has_limit = spec.permissions is not None and spec.permissions.max_memory is not None
    return {
        "network": "wasm",
        "filesystem": "wasm",
        "memory": "wasm" if has_limit else "open",
        "paths": [
            {"path": folder, "access": "write" if may_write else "read", "source": "granted"}
            for folder, may_write in _granted_folders(spec)
        ],
    }


class Compilation:
    """Makes the machine code of a module before its start, in a process of its own."""

    def __init__(self, spec: Spec, environ: Mapping[str, str]) -> None:
        self._spec = spec
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def run(self) -> None:
        """Compile the module unless its machine code is there. Raises SpawnFailed if the file is
        not a module, or if it cannot be compiled. Blocks: call it in a thread."""
        path = _module_path(self._spec)
        try:
            with open(open_regular_file(path), "rb") as file:  # noqa: PTH123 - a descriptor
                if os.fstat(file.fileno()).st_size > _MAX_MODULE_BYTES:
                    raise OSError(0, f"it has more than {_MAX_MODULE_BYTES >> 20} MiB")
                module = file.read()
        except OSError as error:
            reason = f"its module {path} cannot be read: {error.strerror}"
            raise self._error("X0401", reason, "correct source.path, or build the module") from None
        if not module.startswith(_MODULE_HEADER):
            reason = f"{path} is not a WebAssembly module{_describe_header(module)}"
            raise self._error("X0404", reason)
        folder = _code_folder(self._environ)
        code = wasm_runner.code_file(folder, module)
        try:
            make_folder(folder)
            if code.is_file():
                os.utime(code)
                return
            _delete_oldest(Path(folder))
        except OSError:
            return  # nothing can be kept here: the runner compiles the module itself
        self._compile(path)

    def stop(self) -> None:
        """End the compilation. Call it from any thread."""
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()

    def _compile(self, path: str) -> None:
        """Run the compiler, and wait for it. Raises SpawnFailed."""
        command = (*_runner(self._spec, self._environ), "--compile")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as self._process:
            if self._is_stopped:
                self._process.kill()
            try:
                # Without closing stdin, whose end makes the process exit.
                self._process.wait(_COMPILE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise self._error(
                    "X0406",
                    f"its module {path} was not compiled within {_COMPILE_SECONDS} s",
                    "start it again when the machine is less busy, or build a smaller module",
                ) from None
            assert self._process.stderr is not None
            stderr = self._process.stderr.read().decode(errors="replace").strip()
        if self._process.returncode and not self._is_stopped:
            reason = stderr or f"the compiler ended with {self._process.returncode}"
            raise self._error("X0404", f"its module cannot be used: {reason}")

    def _error(self, code: str, message: str, help: str = _BUILD_HELP) -> SpawnFailed:
        return SpawnFailed(
            code,
            message,
            permanent=True,
            extension=self._spec.id,
            help=help,
            evidence=Evidence(path=_module_path(self._spec), key="source.path"),
        )


def _runner(spec: Spec, environ: Mapping[str, str]) -> tuple[str, ...]:
    code = _code_folder(environ)
    # Isolated: variables of the extension, such as PYTHONPATH, must not change what the runner is.
    return (sys.executable, "-I", wasm_runner.__file__, _module_path(spec), "--code", code)


def _module_path(spec: Spec) -> str:
    return os.path.join(spec.cwd or os.getcwd(), spec.argv[0])  # noqa: PTH109, PTH118


def _code_folder(environ: Mapping[str, str]) -> str:
    return os.path.join(os.path.abspath(state_root(environ)), "wasm")  # noqa: PTH100, PTH118


def _granted_folders(spec: Spec) -> Iterator[tuple[str, bool]]:
    """Yield the real path of each folder that the module may use, and whether it may write there.
    Raises Refused for an entry that cannot be granted."""
    if spec.permissions is not None:
        cwd = spec.cwd or os.getcwd()  # noqa: PTH109
        granted = spec.permissions.filesystem
        yield from resolve_grants(
            ViewRequest(extension=spec.id, argv=spec.argv, cwd=cwd, granted=granted)
        )


def _describe_header(module: bytes) -> str:
    """Return what the first bytes show about a file that is not a module."""
    if module.startswith(_COMPONENT_HEADER):
        return " but a component, which this host cannot run"
    return f": it begins with {module[:_HEADER_BYTES]!r}"


def _delete_oldest(folder: Path) -> None:
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
    for file in files[: -_MAX_CODE_FILES + 1]:
        file.unlink(missing_ok=True)


def _permission_error(spec: Spec, message: str, key: str) -> Refused:
    return Refused(
        "X0337",
        message,
        extension=spec.id,
        help=f"change {key} of this extension, or build it as a native program",
        evidence=Evidence(key=key),
    )
