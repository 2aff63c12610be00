"""The pipes to the first process of a namespace, on Pythons that lack what the kernel has.

A CPython that was built against glibc before 2.27 has no `os.memfd_create`, and an old enough one
no `os.pidfd_open`. Each is tried in a process of its own: what a Python lacks, it lacks from its
start.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.process.memory_file import memory_file

EXPLORER = [
    sys.executable,
    "-S",
    "-E",
    str(Path(__file__).parents[1] / "sandbox" / "explorer.py"),
]

LACKS = {
    "memfd_create": "del os.memfd_create",
    "memfd_create and pidfd_open": "del os.memfd_create, os.pidfd_open; "
    "import signal; del signal.pidfd_send_signal",
}

CONNECT = """
import asyncio, json, sys, exthost

async def main(words, settings):
    async with exthost.connect(words, **settings) as ext:
        first = await ext.call("explore", {"code": "import os; result = os.getppid()"})
        await ext.restart()
        print(json.dumps({"parent": first, "enforced": dict(ext.enforced)}))

asyncio.run(main(*json.loads(sys.argv[1])))
"""

DOCTOR = "import sys; from exthost.faces.cli import main; sys.exit(main(['doctor', '--json']))"


def run(lacks: str, code: str, *words: str, cwd: Path) -> Any:
    """Run the code in a Python that lacks this; return the JSON that it prints."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import os; {lacks}\n{code}", *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
    )
    assert "Traceback" not in ran.stderr and ran.stdout, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("lacks", LACKS)
def test_a_python_that_lacks_it_keeps_the_processes_together(lacks: str, tmp_path: Path) -> None:
    asked = json.dumps([EXPLORER, {"lifetime": "tree"}])
    report = run(LACKS[lacks], CONNECT, asked, cwd=tmp_path)
    assert report["parent"] == 1 and report["enforced"]["pids"] == "pidns"


@pytest.mark.parametrize("lacks", LACKS)
def test_a_python_that_lacks_it_enforces_permissions(lacks: str, tmp_path: Path) -> None:
    asked = json.dumps([EXPLORER, {"permissions": {}}])
    report = run(LACKS[lacks], CONNECT, asked, cwd=tmp_path)
    assert report["parent"] == 1 and report["enforced"]["filesystem"] == "mountns"


# It is there, and fails in a way that nobody expects.
BROKEN = "os.memfd_create = None"


@pytest.mark.parametrize("lacks", [*LACKS.values(), BROKEN])
def test_doctor_reports_the_missing_parts_of_a_python_instead_of_failing(
    lacks: str, tmp_path: Path
) -> None:
    servers = {"one": {"command": EXPLORER[0], "args": EXPLORER[1:]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    code = DOCTOR.replace("'--json'", "'--json', '--config', 'mcp.json'")
    report = run(lacks, code, cwd=tmp_path)
    works = report["sandbox"]["strict"]["works"], report["sandbox"]["tree"]["works"]
    assert works == ((False, False) if lacks == BROKEN else (True, True)), report
    failed = [
        finding
        for finding in report["findings"]
        if "probe could not be started" in finding["message"]
    ]
    assert bool(failed) == (lacks == BROKEN), report["findings"]


def test_a_memory_file_by_number_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    fd = memory_file("test", b"some bytes")
    try:
        assert os.read(fd, 99) == b"some bytes" and not os.get_inheritable(fd)
    finally:
        os.close(fd)
