"""Reads secrets that a config refers to: from a file, from the output of a command, or from the
keyring of the desktop:

    [extensions.env]
    TOKEN = { file = "~/.config/app/token" }
    PASSWORD = { command = ["pass", "show", "app"] }

Secrets are read before each start, so that a changed one is used. A command runs without a shell
and has a time limit. No error contains the secret, nor the output of the command. Everything here
blocks: call it in a thread.
"""

import os
import select
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec

from exthost.errors import Refused
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.spec import SecretSource, SecretValue, Spec

# How long a command may take. It may wait for a person who touches a key.
COMMAND_SECONDS = 30.0

# How often the host looks whether a command has exited, without output of it: first soon, and then
# less often.
_FIRST_TICK_SECONDS, _MAX_TICK_SECONDS = 0.001, 0.05

# The largest secret. A variable of a process can have 128 KiB.
_MAX_BYTES = 64 * 1024

# Others must not have any access to the file of a secret, and its group must not write it.
_FORBIDDEN_MODES = 0o027
# The folders in which container engines put secrets. Every process of the container can read them.
_CONTAINER_FOLDERS = ("/run/secrets/", "/var/run/secrets/")
_CONTAINER_FORBIDDEN_MODES = 0o022

# A program that asks the keyring. It runs in a separate process, because the keyring may wait for a
# person, and loads plugins that are installed.
_READ_KEYRING = (
    "import keyring, sys; secret = keyring.get_password(*sys.argv[1:]); "
    "sys.exit(3) if secret is None else sys.stdout.write(secret)"
)
# The exit status of that program if the keyring has no such entry.
_NO_ENTRY = 3


def with_secrets(spec: Spec, values: Mapping[str, str]) -> Spec:
    """Return the spec with these values of variables in place of the references to them."""
    if not values:
        return spec
    secrets = dict[str, str]()
    for name, value in values.items():
        source = spec.env[name]
        assert isinstance(source, SecretSource)
        secrets[name] = SecretValue.make(value, source)
    return replace(spec, env={**spec.env, **secrets})


class SecretReading:
    """Reads the secrets of one extension. `values` are the variables, after `run`."""

    def __init__(self, spec: Spec, environ: Mapping[str, str]) -> None:
        self._spec = spec
        self._environ = environ
        self._sources = {
            name: value for name, value in spec.env.items() if isinstance(value, SecretSource)
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_stopped = False
        self.values: Mapping[str, str] = EMPTY_MAPPING

    @property
    def is_needed(self) -> bool:
        """Whether the config refers to such a secret."""
        return bool(self._sources)

    def run(self) -> None:
        """Read all of them. Raises Refused."""
        self.values = {name: self._read(name, source) for name, source in self._sources.items()}

    def stop(self) -> None:
        """Let `run` end soon, from another thread."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                _kill(self._process)

    def _read(self, name: str, source: SecretSource) -> str:
        """Return one secret, without the newline at its end. Raises Refused."""
        match source.kind:
            case "file":
                data = self._read_file(name, source.place)
            case "command":
                data = self._run(name, tuple(source.place), f"the command {source.place[0]}")
            case _:
                data = self._read_keyring(name, source.place)
        # Checked before the newline is removed, because a secret that was cut may end with one.
        is_too_long = len(data) > _MAX_BYTES
        data = data.removesuffix(b"\n").removesuffix(b"\r")
        if b"\0" in data or not data or is_too_long:
            if b"\0" in data:
                problem = "contains a NUL byte, which no variable can have"
            elif is_too_long:
                problem = f"is longer than {_MAX_BYTES} bytes"
            else:
                problem = "is empty"
            raise self._error("X1862", name, f"the secret {problem}", "check the secret")
        return os.fsdecode(data)

    def _read_file(self, name: str, path: str) -> bytes:
        """Return the content of the file of a secret, which other users must not be able to
        read."""
        folder = os.path.dirname(self._spec.config_file) or os.getcwd()  # noqa: PTH109, PTH120
        path = os.path.join(folder, os.path.expanduser(path))  # noqa: PTH111, PTH118
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                self._check_mode(name, path, os.fstat(fd))
                with open(fd, "rb", closefd=False) as file:
                    return file.read(_MAX_BYTES + 1)
            finally:
                os.close(fd)
        except OSError as error:
            text = f"the file {path} cannot be read: {error.strerror}"
            raise self._error("X1860", name, text, "correct the path, or create the file") from None

    def _check_mode(self, name: str, path: str, status: os.stat_result) -> None:
        """Raise Refused unless the file of a secret is safe from other users."""
        if not stat.S_ISREG(status.st_mode):
            raise self._error("X1860", name, f"{path} is not a file", "name a file")
        is_mounted = os.path.realpath(path).startswith(_CONTAINER_FOLDERS)
        forbidden = _CONTAINER_FORBIDDEN_MODES if is_mounted else _FORBIDDEN_MODES
        if status.st_mode & forbidden:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            text = f"others can read or change the file {path} (mode {mode})"
            raise self._error("X1861", name, text, f"chmod 600 {shlex.quote(path)}")
        if status.st_uid not in (os.geteuid(), 0):
            text = f"the file {path} belongs to another user ({status.st_uid})"
            raise self._error("X1861", name, text, "use a file of your own")

    def _read_keyring(self, name: str, entry: str) -> bytes:
        if find_spec("keyring") is None:
            text = "the package keyring is not installed"
            raise self._error("X1864", name, text, "pip install keyring")
        service, _, user = entry.rpartition("/")
        command = (sys.executable, "-P", "-c", _READ_KEYRING, service, user)
        return self._run(name, command, f"the keyring entry {entry}")

    def _run(self, name: str, command: tuple[str, ...], title: str) -> bytes:
        """Return the output of a command. `title` names the command in errors."""
        help = "run it where the host is started, and see what it prints"
        with self._lock:
            if self._is_stopped:
                raise self._error("X1863", name, f"{title} was not run", help)
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=dict(self._environ),
                    cwd=os.path.dirname(self._spec.config_file) or None,  # noqa: PTH120
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                text = f"{title} cannot be run: {error}"
                raise self._error("X1863", name, text, help) from None
        process = self._process
        try:
            return self._read_output(name, process, title, help)
        finally:
            with self._lock:
                _kill(process)
                self._process = None

    def _read_output(
        self, name: str, process: "subprocess.Popen[bytes]", title: str, help: str
    ) -> bytes:
        """Return the output of a running command, which is killed if it takes too long."""
        assert process.stdout is not None
        with process.stdout as stdout:
            data, is_late = _collect_output(process, stdout.fileno())
        code = 0
        if not is_late and len(data) <= _MAX_BYTES:
            _kill(process)  # it has exited, but not what it has started
            code = process.returncode
        if is_late:
            text = f"{title} took longer than {COMMAND_SECONDS:g} s"
            raise self._error("X1863", name, text, help)
        if code == _NO_ENTRY and title.startswith("the keyring"):
            text = f"{title} does not exist"
            raise self._error("X1864", name, text, "keyring set SERVICE USER")
        if code < 0:
            raise self._error("X1863", name, f"{title} was ended by signal {-code}", help)
        if code:
            raise self._error("X1863", name, f"{title} failed with exit status {code}", help)
        return data

    def _error(self, code: str, name: str, problem: str, help: str) -> Refused:
        return Refused(code, f"its variable {name}: {problem}", extension=self._spec.id, help=help)


def _collect_output(process: "subprocess.Popen[bytes]", fd: int) -> tuple[bytes, bool]:
    """Return the output of a command until its exit, and whether the command took too long. `fd` is
    the pipe, which the command may have passed on to a program that goes on running."""
    os.set_blocking(fd, False)
    readable = select.poll()
    readable.register(fd, select.POLLIN)
    deadline = time.monotonic() + COMMAND_SECONDS
    data, is_at_end, tick = b"", False, _FIRST_TICK_SECONDS
    while len(data) <= _MAX_BYTES:
        is_late = time.monotonic() >= deadline
        has_exited = _has_exited(process)  # before the read, which then finds the whole output
        try:
            chunk = os.read(fd, _MAX_BYTES + 1)
            is_at_end = not chunk
        except BlockingIOError:
            chunk = b""
        data += chunk
        if has_exited and not chunk:
            break
        if is_late:
            return data, True
        if chunk:
            continue
        if is_at_end:
            time.sleep(tick)
        else:
            readable.poll(tick * 1000)
        tick = min(2 * tick, _MAX_TICK_SECONDS)
    return data, False


def _has_exited(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether a command has exited. It is not reaped: its pid must not be reused before
    `_kill` signals the group."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:  # `stop` has reaped it
        return True


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a command and what it has started, and reap it. A command that was reaped before is not
    signalled: its pid may be that of another process."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
