"""Compiles the modules of a locked, sandboxed Python extension once for each content of its folder.

Python must not run the compiled files in the folder of a locked extension, which no lock covers
(`bytecode`), and cannot write others in a sandbox. So its modules are compiled before the first
start, by its own interpreter, in its sandbox, without running any of them (`bytecode_compiler`).
The result is in the host's state folder, which no extension can write, and is mounted read-only.

For the standard library, the result has links to the compiled files that are installed with it.
Other modules outside the folder are compiled at each start.

If anything fails, there is no result, or an empty one: Python then compiles at each start.
"""

import hashlib
import json
import logging
import os
import select
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from exthost.errors import ExthostError
from exthost.launch import bytecode_compiler
from exthost.launch.command_code import find_interpreter_command
from exthost.launch.known_programs import program_name
from exthost.launch.locked_code import read_start_state
from exthost.model.launch_plan import LaunchPlan
from exthost.model.lock_record import Bytecode
from exthost.model.spec import Spec
from exthost.process.child import Child
from exthost.process.private_folders import make_shared_root
from exthost.process.private_mounts import can_open_folders
from exthost.process.state_dirs import bytecode_root
from exthost.process.user_ids import can_read, find_inaccessible_path

_log = logging.getLogger("exthost.launch")

# Thousands of modules take this long on a busy machine.
_COMPILE_SECONDS = 300.0

# How many results are kept of each extension.
_MAX_RESULTS = 3

# More than the compiled modules of any package.
_MAX_BYTES = 512 * 1024 * 1024


def find_sealed(
    spec: Spec, plan: LaunchPlan, environ: Mapping[str, str], bytecode: Bytecode, uid: int | None
) -> Path | None:
    """Return the folder with the compiled modules of a package for a start in a strict sandbox;
    None if there is none, or if the user cannot read it."""
    folder = _sealed_folder(spec, plan, environ, bytecode)
    if folder is None or not folder.is_dir():
        return None
    if uid is None or not find_inaccessible_path(str(folder), uid):
        return folder
    return folder if can_read(str(folder), uid) and can_open_folders() else None


def _interpreter(plan: LaunchPlan) -> str:
    """Return the path of the Python that a command runs; "" if it runs another program."""
    inner = find_interpreter_command(plan.argv, plan.cwd, plan.env)
    if inner is None or program_name(os.path.realpath(inner.argv[0])) != "python":
        return ""
    path = inner.path_of(inner.argv[0]) if "/" in inner.argv[0] else inner.argv[0]
    return path if os.path.isabs(path) else shutil.which(path, path=inner.env.get("PATH")) or ""  # noqa: PTH117


def _sealed_folder(
    spec: Spec, plan: LaunchPlan, environ: Mapping[str, str], bytecode: Bytecode
) -> Path | None:
    """Return where the compiled modules are, or will be; None if they are not needed."""
    lock = spec.lock
    is_strict = plan.wrapper is not None and plan.wrapper.is_strict
    if lock is None or lock.mode == "warn" or not lock.record.package:
        return None
    if bytecode.is_small or not bytecode.folder or not is_strict:
        return None
    if not (interpreter := _interpreter(plan)):
        return None
    key = json.dumps(
        [bytecode.folder, lock.record.package, interpreter, os.path.realpath(interpreter)]
    )
    name = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:32]
    return bytecode_root(environ, spec.id) / f"sealed-{name}"


class BytecodeCompilation:
    """Compiles the modules of an extension before its start. `plan` is the plan of the start, and
    `bytecode` are the compiled files that must not be run."""

    def __init__(
        self, spec: Spec, plan: LaunchPlan, environ: Mapping[str, str], bytecode: Bytecode
    ) -> None:
        self._spec = spec
        self._plan = plan
        self._environ = environ
        self._package = bytecode.folder
        self._folder = _sealed_folder(spec, plan, environ, bytecode)
        self._is_stopped = threading.Event()

    @property
    def is_needed(self) -> bool:
        return self._folder is not None and not self._folder.is_dir()

    def stop(self) -> None:
        """End the compilation. Call it from any thread."""
        self._is_stopped.set()

    def run(self) -> None:
        """Compile the modules, unless that is not possible. Blocks: call it in a thread."""
        assert self._folder is not None
        try:
            output = self._compile()
            if self._is_stopped.is_set():
                return
            # The folder is compared after the compilation: it must be the locked one all the time.
            state = read_start_state(self._spec, self._plan, self._environ)
            assert self._spec.lock is not None
            if state.record.package != self._spec.lock.record.package:
                return
            covered = {f"{state.folder}/{path}" for path in state.list_package()}
            _store(self._folder, output, self._package, covered)
        except (OSError, ValueError, ExthostError) as error:
            _log.warning("[%s] its modules are compiled at each start: %s", self._spec.id, error)

    def _compile(self) -> bytes:
        """Return the output of the compiler; nothing if it fails. Raises ExthostError."""
        text = Path(bytecode_compiler.__file__).read_text(encoding="utf-8")
        options = ("-I", "-S", "-B", "-W", "ignore", "-c", text, self._package)
        child = Child(replace(self._plan, argv=(_interpreter(self._plan), *options)), self._spec.id)
        try:
            child.close_stdin()
            output = self._read(child)
            status = child.poll_exit()
            return output if status is not None and status.code == 0 else b""
        finally:
            for _ in range(2):  # the first kill requests our init to exit, the second sends SIGKILL
                if child.poll_exit() is None:
                    child.kill()
                    _wait(child.exit_fd, 1.0)
            child.reap()
            child.close_outputs()

    def _read(self, child: Child) -> bytes:
        """Return what the compiler writes until it ends; less if it takes too long."""
        chunks, size = [], 0
        poll = select.poll()
        for fd in (child.stdout, child.stderr):
            poll.register(fd, select.POLLIN)
        open_fds = {child.stdout, child.stderr}
        deadline = time.monotonic() + _COMPILE_SECONDS
        while open_fds and size <= _MAX_BYTES and not self._is_stopped.is_set():
            if time.monotonic() > deadline:
                break
            for fd, _ in poll.poll(100):
                chunk = os.read(fd, 1 << 20)
                if not chunk:
                    poll.unregister(fd)
                    open_fds.discard(fd)
                elif fd == child.stdout:
                    chunks.append(chunk)
                    size += len(chunk)
        if not open_fds:
            _wait(child.exit_fd, 5.0)
        return b"".join(chunks)


def _wait(fd: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(seconds * 1000)


def _store(folder: Path, output: bytes, root: str, covered: set[str]) -> None:
    """Write compiled modules to a folder, atomically, and delete those of other contents. `output`
    is what `bytecode_compiler` has written: lines of JSON, each followed by a module. Only modules
    whose sources are in `covered` count. The interpreter may be one of the extension, so the output
    is not trusted. Raises OSError and ValueError."""
    make_shared_root(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as temp:
        new = Path(os.path.realpath(temp), "sealed")
        new.mkdir()
        start = 0
        while start < len(output):
            end = output.index(b"\n", start)
            place, name, size = _read_row(output[start:end])
            start = end + 1 + (size or 0)
            path = f"{new}{place}/{name}".rstrip("/")
            folder_of_path = os.path.dirname(path)  # noqa: PTH120
            if os.path.realpath(folder_of_path) != folder_of_path:  # below a link of an earlier row
                raise ValueError(f"{place}/{name} is not a module")
            source = f"{place}/{name.partition('.')[0]}.py"
            if size is None and not f"{place}/".startswith(f"{root}/"):
                os.makedirs(folder_of_path, exist_ok=True)  # noqa: PTH103
                os.symlink(f"{place}/__pycache__/{name}".rstrip("/"), path)  # noqa: PTH211
            elif size is not None and source in covered:
                os.makedirs(folder_of_path, exist_ok=True)  # noqa: PTH103
                Path(path).write_bytes(output[end + 1 : start])
        if os.geteuid() == 0:  # the extension may run as a user of its own
            _open_to_all(new)
        new.rename(folder)
    _delete_oldest(folder.parent)


def _read_row(line: bytes) -> tuple[str, str, int | None]:
    """Return the folder, the name and the size in a line of the compiler. Raises ValueError."""
    try:
        place, name, size = json.loads(line)
    except (RecursionError, TypeError) as error:
        raise ValueError(f"the compiler wrote a wrong line: {error}") from None
    is_module = (
        isinstance(place, str)
        and isinstance(name, str)
        and (size is None or (isinstance(size, int) and size >= 0))
        and place.startswith("/")
        and os.path.normpath(place) == place
        and "/" not in name
    )
    if not is_module:
        raise ValueError(f"the compiler wrote a wrong line: {line[:80]!r}")
    return place, name, size


def _delete_oldest(parent: Path) -> None:
    """Delete the results for contents of long ago. Hosts of several configs may share a folder."""
    results = sorted(parent.glob("sealed-*"), key=lambda path: path.stat().st_mtime)
    for result in results[:-_MAX_RESULTS]:
        shutil.rmtree(result, ignore_errors=True)


def _open_to_all(root: Path) -> None:
    for folder, _, names in os.walk(root):
        os.chmod(folder, 0o755)  # noqa: PTH101
        for name in names:
            if not os.path.islink(path := f"{folder}/{name}"):  # noqa: PTH114
                os.chmod(path, 0o644)  # noqa: PTH101
