"""PID namespaces and sandboxes work on a Python that lacks functions of the kernel.

A CPython that was built with glibc before 2.27 has no `os.memfd_create`, and old versions have no
`os.pidfd_open`. Each test runs a new Python that deletes these functions before it imports exthost.
"""

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.model.launch_plan import Wrapper
from exthost.process.init_channel import InitChannel, TemplateEnds, split_loader_variables
from exthost.process.memory_file import memory_file

# An extension that runs the Python code of its calls.
EXPLORER = [
    sys.executable,
    "-S",
    "-E",
    str(Path(__file__).parents[1] / "sandbox" / "explorer.py"),
]

DELETE_FUNCTIONS = {
    "memfd_create": "del os.memfd_create",
    "memfd_create and pidfd_open": "del os.memfd_create, os.pidfd_open; "
    "import signal; del signal.pidfd_send_signal",
}

# A program that connects to the explorer and restarts it. It prints the parent pid that the
# explorer has, and what is enforced.
CONNECT = """
import asyncio, json, sys, exthost

async def main(command, settings):
    async with exthost.connect(command, **settings) as ext:
        parent = await ext.call("explore", {"code": "import os; result = os.getppid()"})
        await ext.restart()
        print(json.dumps({"parent": parent, "enforced": dict(ext.enforced)}))

asyncio.run(main(*json.loads(sys.argv[1])))
"""

# A program that runs `exthost doctor` with the file mcp.json.
DOCTOR = (
    "import sys; from exthost.faces.cli import main;"
    " sys.exit(main(['doctor', '--json', '--config', 'mcp.json']))"
)


def run_without_functions(delete_code: str, code: str, *args: str, cwd: Path) -> Any:
    """Run the code in a Python without these functions, and return the JSON that it prints."""
    result = subprocess.run(
        [sys.executable, "-c", f"import os; {delete_code}\n{code}", *args],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
    )
    assert "Traceback" not in result.stderr and result.stdout, result.stderr
    return json.loads(result.stdout)


@pytest.mark.more
@pytest.mark.parametrize("functions", DELETE_FUNCTIONS)
def test_pid_namespace_works_without_these_functions(functions: str, tmp_path: Path) -> None:
    arguments = json.dumps([EXPLORER, {"lifetime": "tree"}])
    report = run_without_functions(DELETE_FUNCTIONS[functions], CONNECT, arguments, cwd=tmp_path)
    assert report["parent"] == 1 and report["enforced"]["pids"] == "pidns"


@pytest.mark.more
@pytest.mark.parametrize("functions", DELETE_FUNCTIONS)
def test_permissions_are_enforced_without_these_functions(functions: str, tmp_path: Path) -> None:
    arguments = json.dumps([EXPLORER, {"permissions": {}}])
    report = run_without_functions(DELETE_FUNCTIONS[functions], CONNECT, arguments, cwd=tmp_path)
    assert report["parent"] == 1 and report["enforced"]["filesystem"] == "mountns"


# The function exists, but calling it fails.
BREAK_FUNCTION = "os.memfd_create = None"


@pytest.mark.sampled
@pytest.mark.parametrize("delete_code", [*DELETE_FUNCTIONS.values(), BREAK_FUNCTION])
def test_doctor_reports_the_missing_parts_of_a_python_instead_of_failing(
    delete_code: str, tmp_path: Path
) -> None:
    servers = {"one": {"command": EXPLORER[0], "args": EXPLORER[1:]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    report = run_without_functions(delete_code, DOCTOR, cwd=tmp_path)
    works = report["sandbox"]["strict"]["works"], report["sandbox"]["tree"]["works"]
    assert works == ((False, False) if delete_code == BREAK_FUNCTION else (True, True)), report
    failed_probes = [
        finding
        for finding in report["findings"]
        if "probe could not be started" in finding["message"]
    ]
    assert bool(failed_probes) == (delete_code == BREAK_FUNCTION), report["findings"]


def test_a_memory_file_without_memfd_create_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    fd = memory_file("test", b"some bytes")
    try:
        assert os.read(fd, 99) == b"some bytes" and not os.get_inheritable(fd)
    finally:
        os.close(fd)


def test_only_variables_of_the_loader_are_on_the_command_line_of_a_wrapper() -> None:
    env = {"LD_PRELOAD": "evil.so", "LD_SDK_KEY": "s3cret", "MALLOC_TRACE": "f", "PATH": "/bin"}
    others, loader_variables = split_loader_variables(env)
    assert loader_variables == {"LD_PRELOAD": "evil.so", "MALLOC_TRACE": "f"}
    assert dict(others) == {"LD_SDK_KEY": "s3cret", "PATH": "/bin"}


@pytest.mark.parametrize("failing", ["dup", "pipe"])
def test_a_channel_that_cannot_be_made_closes_its_descriptors_and_that_of_the_template(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, inits = socket.socketpair()
    with ours:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        template = TemplateEnds(under=ours.fileno(), join=inits.detach())

        def fail(*arguments: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        with monkeypatch.context() as patch, pytest.raises(OSError, match="Too many open files"):
            patch.setattr(os, failing, fail)
            InitChannel(Wrapper(options=(), init=b""), 0, 1, {}, template=template)
        assert len(os.listdir("/proc/self/fd")) == before - 1  # noqa: PTH208
        assert ours.recv(1) == b""  # the other end of the socket is closed
