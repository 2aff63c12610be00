"""A client does not join a host of another user. It runs its own host, and prints why.

Clients (`exthost gateway`) join the host of their config by its socket. A socket that belongs to
another user, or is in a folder of another user, could be a trap.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exthost.host.control.socket_path import socket_paths
from tests.faces.relay.relay_process import joined, shared_config

NOBODY = 65534

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

# Listens on a socket as another user, and answers each client as a host would. It prints "asked" if
# a client has sent it a request.
LISTENER = """
import os, socket, sys
path, uid = sys.argv[1], int(sys.argv[2])
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o777)
os.setuid(uid)
listener.listen()
print("listening", flush=True)
while True:
    connected, _ = listener.accept()
    request = connected.recv(65536)
    print("asked" if request else "left", flush=True)
    connected.sendall(b"joined\\t0\\t00\\n")
"""


@contextmanager
def listener_of(uid: int, path: str) -> Iterator["subprocess.Popen[str]"]:
    """Run LISTENER as this user until the end of the block."""
    command = [sys.executable, "-c", LISTENER, path, str(uid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "listening\n"
            yield process
        finally:
            process.kill()


def make_socket_folder(config: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the folder of the preferred socket, and return the path of the socket."""
    runtime = config.parent / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    path = Path(socket_paths(config, os.environ)[0])
    path.parent.mkdir(mode=0o755)
    return path


def test_a_socket_of_another_user_is_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = shared_config(tmp_path)
    path = make_socket_folder(config, monkeypatch)
    with listener_of(NOBODY, str(path)) as process:
        with joined(config) as client:
            assert client.text("ext_child_echo", a=1) == '{"a": 1}'
        assert (
            f"the socket {path} is one of another user; it runs its own host"
            in client.read_stderr()
        )
        assert process.stdout is not None
        process.kill()
        assert "asked" not in process.stdout.read(), "a foreign process got the request"


def test_a_socket_in_a_folder_of_another_user_is_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = shared_config(tmp_path)
    path = make_socket_folder(config, monkeypatch)
    with listener_of(0, str(path)):
        os.chown(path.parent, NOBODY, NOBODY)
        with joined(config) as client:
            assert client.text("ext_child_echo", a=1) == '{"a": 1}'
        assert f"the socket {path} is in a folder of another user" in client.read_stderr()
