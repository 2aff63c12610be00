"""A program under observation, from which `exthost learn` proposes permissions.

The observer must see the files, addresses and look-ups of names in every process of the program,
which must work as without observation. The kernel reports each system call of a list to the
observer (seccomp), before the call is executed. The programs here are real.
"""

import os
import select
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from exthost.launch.sandbox.observed_calls import observed_calls, observer_filter
from exthost.model.launch_plan import LaunchPlan
from exthost.model.observed_access import Destination, Observations
from exthost.process.access_observer import AccessObserver

WAIT_SECONDS = 120
MACHINE = os.uname().machine


def observe(argv: Sequence[str | Path], cwd: Path) -> tuple[Observations, bytes]:
    """Run a program to its end, and return what was observed and what it printed."""
    observer = AccessObserver(observer_filter(MACHINE), observed_calls(MACHINE))
    plan = LaunchPlan(argv=tuple(map(str, argv)), cwd=str(cwd), env={"PATH": os.defpath})
    child = observer.spawn(plan)
    try:
        child.close_stdin()
        poll = select.poll()
        poll.register(child.exit_fd, select.POLLIN)
        assert poll.poll(WAIT_SECONDS * 1000), "the program did not end"
        output = os.read(child.stdout, 65536)
        os.set_blocking(child.stderr, False)
        assert str(child.poll_exit()) == "exited with 0", os.read(child.stderr, 65536)
    finally:
        child.kill()
        child.reap()
        child.close_outputs()
        observer.close()
    return observer.observations(), output


def run_python(code: str, cwd: Path) -> tuple[Observations, bytes]:
    return observe([sys.executable, "-I", "-S", "-c", code], cwd)


def test_files_are_seen_with_their_uses_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("text")
    (tmp_path / "folder").mkdir()
    script = "cat in > out; ls folder; mv out new; test -e missing || exec /bin/echo done"
    observations, output = observe(["/bin/sh", "-c", script], tmp_path)
    assert output == b"done\n"
    uses = {Path(path).name: set(use) for path, use in observations.files.items()}
    assert uses["in"] == {"read"}
    assert {"create"} <= uses["out"]
    assert "list" in uses["folder"]
    assert "create" in uses["new"]
    assert "execute" in uses["echo"]
    assert "missing" not in uses
    assert {Path(path).name for path in observations.created} >= {"out", "new"}
    assert observations.unseen == 0


def test_relative_paths_and_descriptors_of_folders_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("text")
    code = "import os; fd = os.open('sub', os.O_RDONLY); os.close(os.open('a', 0, dir_fd=fd))"
    observations, _ = run_python(code, tmp_path)
    assert observations.files[str(tmp_path / "sub" / "a")] == {"read"}


def test_addresses_ports_and_unix_sockets_are_seen(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as unix_server,
    ):
        port = server.getsockname()[1]
        path = tmp_path / "s.sock"
        unix_server.bind(str(path))
        unix_server.listen()
        code = f"""
import socket
socket.create_connection(("127.0.0.1", {port})).close()
unix = socket.socket(socket.AF_UNIX); unix.connect({str(path)!r})
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.sendto(b"x", ("127.0.0.1", {port}))
"""
        observations, _ = run_python(code, tmp_path)
    assert set(observations.destinations) == {
        Destination("127.0.0.1", port, "tcp"),
        Destination("127.0.0.1", port, "udp"),
    }
    assert observations.unix_sockets == (str(path),)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve port 53")
def test_the_name_of_an_address_is_known_from_the_look_up(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as name_server,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        name_server.bind(("127.0.0.253", 53))
        name_server.settimeout(WAIT_SECONDS)

        def answer() -> None:
            question, client = name_server.recvfrom(512)
            # An address record (type 1) for the name in the question.
            record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + bytes((127, 0, 0, 1))
            header = question[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0)
            name_server.sendto(header + question[12:] + record, client)

        thread = threading.Thread(target=answer)
        thread.start()
        code = f"""
import socket
query = bytes((0, 7, 1, 0, 0, 1)) + bytes(6) + b"\\x03api\\x07example\\x00" + bytes((0, 1, 0, 1))
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.settimeout({WAIT_SECONDS})
names.connect(("127.0.0.253", 53))
names.send(query)
address = socket.inet_ntoa(names.recv(512)[-4:])
socket.create_connection((address, {server.getsockname()[1]})).close()
"""
        observations, _ = run_python(code, tmp_path)
        thread.join(WAIT_SECONDS)
    assert observations.names == ("api.example",)
    assert [item.name for item in observations.destinations] == ["api.example"]


def test_io_uring_does_not_exist_for_an_observed_program(tmp_path: Path) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(425, 8, ctypes.create_string_buffer(256)), ctypes.get_errno())
"""
    assert run_python(code, tmp_path)[1] == b"-1 38\n"  # 38 is ENOSYS


@pytest.mark.more
def test_a_program_that_uses_many_paths_is_observed_to_its_end(tmp_path: Path) -> None:
    code = """
import os
for number in range(5000):
    os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY)); os.unlink(f"f{number}")
"""
    observations, _ = run_python(code, tmp_path)
    assert len([path for path in observations.created if path.startswith(str(tmp_path))]) == 5000


def test_a_call_with_an_invalid_address_is_counted_and_the_next_one_is_seen(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").write_text("text")
    code = """
import ctypes, os
libc = ctypes.CDLL(None)
for address in (1, 2**63, 2**64 - 1):
    libc.open(ctypes.c_void_p(address), 0)
    libc.connect(0, ctypes.c_void_p(address), 16)
os.close(os.open("in", os.O_RDONLY))
"""
    observations, _ = run_python(code, tmp_path)
    assert observations.unseen >= 4
    assert observations.files[str(tmp_path / "in")] == {"read"}


def test_a_long_path_to_temporary_files_does_not_prevent_observation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    (tmp_path / "in").write_text("text")
    observations, _ = observe(["/bin/cat", "in"], tmp_path)
    assert observations.files[str(tmp_path / "in")] == {"read"}
