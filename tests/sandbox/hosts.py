"""Trials of the host: a Python without some functions, deleted folders, loops that are closed too
early, two hosts with one config, and processes that outlive a host without a namespace.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. The
extension of most trials is the explorer, which runs the code of its calls (`explore`).
"""

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any
from unittest import mock

import exthost
from exthost.errors import ExthostError, Refused
from exthost.faces.http_server import token
from exthost.host.api.store import Store
from exthost.host.control.address import lock_folder
from exthost.host.control.server import ControlServer
from exthost.host.control.socket_path import config_key
from exthost.host.control.status_report import StatusReport
from exthost.launch import package_tree
from exthost.launch.package_tree import DigestedFile, file_digest, read_digest
from exthost.session.trace.trace_file import TraceFile
from tests.extensions.harness import error_of, wait_until
from tests.sandbox.confined import EXPLORER, explore, folder, shared_folder, system_explorer
from tests.sandbox.lifetime import pids_with_mark
from tests.sandbox.trial_host import started_extension
from tests.sandbox.trials import TRIES, trial

NO_RESTART = {"strategy": "never"}

# Values of the system call renameat2: paths from the working folder; both files must exist.
AT_FDCWD, RENAME_EXCHANGE = -100, 2


async def run_host(code: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run this code in a new process, and return its status, stdout and stderr."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *arguments),
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, **variables},
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


# A program that runs a host in a Python without memfd_create and pidfds.
WITHOUT_MEMFD = """
import os
del os.memfd_create, os.pidfd_open
import signal
del signal.pidfd_send_signal
import asyncio, json, sys, exthost

async def main(command):
    for settings in ({"lifetime": "tree"}, {"permissions": {}}):
        async with exthost.connect(command, dialect="morphir", **settings) as ext:
            code = "import os; result = os.getppid()"
            parent = await ext.call("explore", {"code": code})
            await ext.restart()
            print(json.dumps([parent, ext.enforced["pids"], ext.enforced["filesystem"]]))

asyncio.run(main(json.loads(sys.argv[1])))
"""


@trial
async def a_python_without_memfd_create_starts_and_contains_extensions() -> None:
    status, out, err = await run_host(WITHOUT_MEMFD, json.dumps(EXPLORER))
    assert status == 0 and "Traceback" not in err, err
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines == [[1, "pidns", "open"], [1, "pidns", "mountns"]], lines


@trial
async def a_folder_that_disappears_during_the_admission_is_a_refusal() -> None:
    loop, unhandled = asyncio.get_running_loop(), list[Any]()
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    before = Path.cwd()
    with folder() as place:
        deleted_folder = place / "gone"
        deleted_folder.mkdir()
        os.chdir(deleted_folder)
        deleted_folder.rmdir()
        try:
            entry = {
                "name": "late",
                "permissions": {},
                "source": {"command": EXPLORER[0], "args": EXPLORER[1:]},
            }
            async with exthost.Host.from_config({"extensions": [entry]}) as host:
                ext = host["late"]
                assert ext.state == "refused", ext.state
                assert isinstance(ext.cause, Refused) and ext.cause.code == "X0389", ext.cause
        finally:
            os.chdir(before)
            loop.set_exception_handler(None)
    gc.collect()
    await asyncio.sleep(0)
    assert not unhandled, unhandled


# A program that runs a host whose extension leaves a process in a new session.
PLAIN_HOST = """
import asyncio, exthost, os, sys
from tests.sandbox.confined import EXPLORER

async def main():
    async with exthost.connect(EXPLORER, dialect="morphir", lifetime=sys.argv[1]) as ext:
        code = "import os, time\\nif os.fork() == 0:\\n    os.setsid()\\n    time.sleep(600)"
        await ext.call("explore", {"code": code})
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@trial
async def only_a_plain_lifetime_lets_processes_outlive_a_killed_host() -> None:
    for lifetime in ("tree", "plain"):
        mark = uuid.uuid4().hex
        host = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PLAIN_HOST, lifetime),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "EXTHOST_TRIAL": mark},
        )
        try:
            assert host.stdout is not None
            assert await host.stdout.readline() == b"ready\n"
            # The extension and the process that it left; with a namespace also its first process.
            expected = 2 if lifetime == "plain" else 3
            await wait_until(lambda mark=mark, count=expected: len(pids_with_mark(mark)) >= count)  # type: ignore[misc]
            host.kill()
            await host.wait()
            # A process that reads stdin ends with the host. The other one does not.
            remaining = 1 if lifetime == "plain" else 0
            await wait_until(lambda mark=mark, left=remaining: len(pids_with_mark(mark)) == left)  # type: ignore[misc]
        finally:
            for pid in pids_with_mark(mark):
                os.kill(pid, signal.SIGKILL)
    text = Path(__file__).parents[2].joinpath("docs", "security.md").read_text()
    assert "nothing ends them" in " ".join(text.split()), "the documentation mentions it"


@trial
async def a_pinned_program_that_is_swapped_during_its_starts_does_not_run() -> None:
    with shared_folder() as place, shared_folder() as out:
        program = system_explorer(place / "run")
        evil = system_explorer(place / "evil")
        evil_ran = out / "ran"
        evil.write_text(f"#!/usr/bin/python3 -SE\nopen({str(evil_ran)!r}, 'w')\nimport time\n")
        pin = file_digest(str(program))
        settings: dict[str, Any] = {
            "permissions": {"filesystem": [f"{out}:rw"]},
            "sha256": pin,
            "restart": NO_RESTART,
            "limits": {"handshake": "5s"},
        }
        swapping = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", "-c", SWAP, str(program), str(evil)),
        )
        try:
            for _ in range(TRIES):
                try:
                    async with started_extension([str(program)], **settings) as ext:
                        assert await explore(ext, "result = 1") == 1
                except ExthostError:
                    pass
                assert not evil_ran.exists(), "the other file ran"
        finally:
            swapping.kill()
            await swapping.wait()


@trial
async def a_pinned_program_that_is_swapped_whenever_it_is_read_does_not_run() -> None:
    libc = ctypes.CDLL(None)
    with shared_folder() as place, shared_folder() as out:
        good, evil, evil_ran = system_explorer(place / "good"), place / "run", out / "ran"
        system_explorer(evil).write_text(f"#!/usr/bin/python3 -SE\nopen({str(evil_ran)!r}, 'w')\n")
        reads = 0

        def exchange() -> None:
            libc.renameat2(
                AT_FDCWD, os.fsencode(good), AT_FDCWD, os.fsencode(evil), RENAME_EXCHANGE
            )

        def swapped(path: str) -> DigestedFile:
            """Read the digest of the pinned file, which is at this path only during the read."""
            nonlocal reads
            reads += 1
            exchange()
            try:
                return read_digest(path)
            finally:
                exchange()

        settings: dict[str, Any] = {
            "permissions": {"filesystem": [f"{out}:rw"]},
            "sha256": file_digest(str(good)),
            "restart": NO_RESTART,
        }
        with mock.patch.object(package_tree, "read_digest", swapped):
            error = await error_of(started_extension([str(evil)], **settings).__aenter__())
        assert reads and not evil_ran.exists(), "the other file ran"
        assert isinstance(error, Refused) and error.code == "X0386", error


# A program that exchanges two files by RENAME_EXCHANGE without a pause.
SWAP = """
import ctypes, sys
libc = ctypes.CDLL(None)
AT_FDCWD, RENAME_EXCHANGE = -100, 2
first, second = (path.encode() for path in sys.argv[1:])
while True:
    libc.renameat2(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE)
"""


@trial
async def one_config_has_one_host_under_any_variables() -> None:
    with folder() as place:
        config = place / "exthost.toml"
        config.touch()
        host = exthost.Host()
        environments = []
        for name in ("one", "other"):
            (place / name).mkdir(mode=0o700)
            environments.append(
                {"EXTHOST_HOME": str(place / name), "XDG_RUNTIME_DIR": str(place / name)}
            )
        first_server = ControlServer(host, StatusReport(host), str(config), environments[0])
        try:
            error = await error_of(make_control_server(host, config, environments[1]))
            assert error.code == "X1375" and f"process {os.getpid()}" in error.message, error
        finally:
            await first_server.close()
        await make_control_server(host, config, environments[1])
        assert not [*lock_folder().glob(f"{config_key(config)}.*")]


async def make_control_server(host: exthost.Host, config: Path, environ: dict[str, str]) -> None:
    await ControlServer(host, StatusReport(host), str(config), environ).close()


CONFIG = """
audit = {{ path = "{place}/audit" }}
[[extensions]]
name = "explorer"
dialect = "morphir"
start = "eager"
source = {{ command = "{program}" }}
"""


@trial
async def files_of_the_host_are_unreadable_for_others_under_any_umask() -> None:
    with shared_folder() as place:
        program, home = system_explorer(place / "run"), place / "home"
        config = place / "exthost.toml"
        config.write_text(CONFIG.format(place=place, program=program))
        # Files that the host reads but did not create.
        input_files = {program, config}
        variables = {**os.environ, "EXTHOST_HOME": str(home), "XDG_RUNTIME_DIR": ""}
        command = (sys.executable, "-m", "exthost", "run", "--config", str(config))
        before = os.umask(0)
        try:
            host = await asyncio.create_subprocess_exec(
                *command, env=variables, stderr=asyncio.subprocess.DEVNULL
            )
            store = Store(str(home))
            await asyncio.wrap_future(store.write(lambda c: c.execute("SELECT 1").rowcount))
            store.close()
            token.find_token(str(place / "token"), variables)
            TraceFile(str(place / "trace"), {}).close()
        finally:
            os.umask(before)
        key = config_key(config)
        files = ("audit", "token", "trace", "home/exthost.sqlite3", f"home/run/{key}.sock")
        try:
            await wait_until(lambda: all((place / name).exists() for name in files))
            created_paths = [path for path in place.rglob("*") if path not in input_files]
            modes = {path: path.stat().st_mode for path in (*created_paths, lock_folder())}
            enter_bits = 0o11 if os.geteuid() == 0 else 0
            for path, mode in modes.items():
                access_of_others = mode & (0o077 & ~enter_bits if path.is_dir() else 0o077)
                assert not access_of_others, (path, oct(mode))
        finally:
            host.terminate()
            await host.wait()


# A program that closes its event loop without closing the extension, and waits for its process.
CLOSED_LOOP = """
import asyncio, gc, json, os, sys, time, exthost

loop = asyncio.new_event_loop()
command, settings = json.loads(sys.argv[1])
connection = exthost.connect(command, dialect="morphir", **settings)
ext = loop.run_until_complete(connection.__aenter__())
assert loop.run_until_complete(ext.call("echo", 1)) == 1
process = f"/proc/{ext.stats.pid}"
loop.run_until_complete(loop.shutdown_default_executor())
loop.close()
del connection, ext, loop
gc.collect()
gc.collect()
end = time.monotonic() + 30
while os.path.exists(process) and time.monotonic() < end:
    time.sleep(0.01)
print("it runs on" if os.path.exists(process) else "done")
"""


@trial
async def a_loop_that_is_closed_before_its_extension_is_quiet_and_leaves_no_process() -> None:
    no_permissions: dict[str, Any] = {}
    watched = {"permissions": {"max_memory": 2**30}}
    for settings in (no_permissions, {"permissions": no_permissions}, watched):
        mark = uuid.uuid4().hex
        arguments = json.dumps([EXPLORER, settings])
        status, out, err = await run_host(CLOSED_LOOP, arguments, EXTHOST_TRIAL=mark)
        assert (status, out) == (0, "done\n"), err
        assert "Exception ignored" not in err and "Traceback" not in err, err
        await wait_until(lambda mark=mark: not pids_with_mark(mark))  # type: ignore[misc]


# A program that runs a host with low resource limits.
WITH_LOW_LIMITS = """
import asyncio, json, resource, sys, exthost
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
resource.setrlimit(resource.RLIMIT_NPROC, (400, 400))

async def main(command):
    async with exthost.connect(command, dialect="morphir", permissions={}) as ext:
        code = "import resource; result = resource.getrlimit(resource.RLIMIT_NOFILE)"
        print(json.dumps([await ext.call("explore", {"code": code}), ext.enforced["limits"]]))

asyncio.run(main(sys.argv[1:]))
"""


@trial
async def a_host_with_low_limits_of_its_own_runs_a_sandboxed_extension() -> None:
    status, out, err = await run_host(WITH_LOW_LIMITS, *EXPLORER)
    assert status == 0, err
    limits, enforced = json.loads(out)
    assert limits == [64, 64] and enforced["nofile"] == 64
