"""Trials of refusals: an extension that cannot be contained is refused before it is spawned.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. The
extension of most trials is the explorer, which runs the code of its calls (`explore`).
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import exthost
from exthost.config.extension_settings import PermissionSettings, RestartSettings
from exthost.errors import HandshakeFailed, Refused
from exthost.events import Bus, Spawned
from tests.sandbox.confined import EXPLORER, explore, folder, shared_folder, started_explorer
from tests.sandbox.trial_host import started_extension
from tests.sandbox.trials import trial

EXPLORER_SOURCE = Path(EXPLORER[-1]).read_text()


@contextlib.asynccontextmanager
async def check_refused(code: str, **settings: Any) -> AsyncIterator[Refused]:
    """Check that a start is refused with this code without a process, and yield the error."""
    spawned: list[Spawned] = []
    bus = Bus()
    bus.subscribe(Spawned, spawned.append)
    try:
        async with exthost.connect(EXPLORER, dialect="morphir", events=bus, **settings):
            raise AssertionError("it was started")
    except Refused as refused:
        assert refused.code == code and refused.exit_code == 4 and refused.help, refused
        assert not spawned
        yield refused


@trial
async def without_bwrap_an_extension_is_refused_and_not_spawned() -> None:
    with folder() as place:
        place.chmod(0o755)
        forbidden = place / "bwrap"
        forbidden.write_text(
            "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
        )
        forbidden.chmod(0o755)
        for program, reason in (
            (str(place / "missing"), "cannot be executed"),
            (str(forbidden), "No permissions to create new namespace"),
        ):
            os.environ["EXTHOST_BWRAP"] = program
            try:
                async with check_refused("X0302", permissions={}) as refused:
                    assert reason in refused.message, refused
                async with started_extension(
                    EXPLORER, permissions={}, sandbox="best-effort", restart={"strategy": "never"}
                ) as ext:
                    assert ext.enforced["network"] == "open"
                    assert ext.enforced["sandbox"] == "best-effort"
            finally:
                del os.environ["EXTHOST_BWRAP"]


@trial
async def an_impossible_grant_is_refused_with_the_correct_form() -> None:
    with folder() as place:
        (place / "link").symlink_to("/etc")
        (place / "root").symlink_to("/")
        for entry, code in (
            ("/", "X0381"),
            ("/proc", "X0381"),
            ("/proc/self", "X0381"),
            ("/sys", "X0381"),
            ("/dev/shm", "X0381"),
            ("/usr/..", "X0381"),
            (f"{place}/root", "X0381"),
            (f"{place}/missing", "X0382"),
            (f"{place}/link", "X0383"),
            (f"{place}/link/passwd:rw", "X0383"),
        ):
            async with check_refused(code, permissions={"filesystem": [entry]}) as refused:
                assert refused.evidence.key == "permissions.filesystem"


@trial
async def a_path_swapped_for_a_link_between_load_and_spawn_is_refused() -> None:
    with folder() as place:
        granted = place / "granted"
        granted.mkdir()
        program_folder = place / "own"
        program_folder.mkdir()
        (program_folder / "explorer.py").write_bytes(Path(EXPLORER[-1]).read_bytes())
        for swapped_folder in (granted, program_folder):
            config = {
                "extensions": [
                    {
                        "name": "late",
                        "start": "lazy",
                        "permissions": {"filesystem": [str(granted)]},
                        "source": {
                            "command": sys.executable,
                            "args": ["-S", "-E", str(program_folder / "explorer.py")],
                        },
                    }
                ]
            }
            async with exthost.Host.from_config(config) as host:
                assert host["late"].state == "admitted"
                elsewhere = swapped_folder.rename(place / "elsewhere")
                swapped_folder.symlink_to(elsewhere)
                try:
                    await host["late"].call("explore", {"code": "result = 1"})
                    raise AssertionError("it ran")
                except Refused as refused:
                    assert refused.code == "X0384", refused
                finally:
                    swapped_folder.unlink()
                    elsewhere.rename(swapped_folder)


@trial
async def names_cannot_smuggle_options_in() -> None:
    with folder() as place:
        odd_folder = place / "--share-net\n--dev-bind"
        odd_folder.mkdir()
        (odd_folder / "file").write_text("inside")
        settings = {"permissions": {"filesystem": [str(odd_folder)]}, "cwd": str(odd_folder)}
        async with started_explorer(**settings) as ext:
            code = """
                import os, sys
                result = {"cwd": os.getcwd(), "file": open("file").read(),
                          "root": os.path.exists("/root/.ssh") or os.path.exists("/boot")}
            """
            assert await explore(ext, code) == {
                "cwd": str(odd_folder),
                "file": "inside",
                "root": False,
            }


@trial
async def an_unreachable_file_is_named_with_the_path_to_add() -> None:
    with folder() as place:
        (place / "lib").mkdir()
        (place / "lib" / "needed").write_text("needed")
        (place / "own").mkdir()
        script = place / "own" / "ext.py"
        script.write_text(f"open({str(place / 'lib' / 'needed')!r})\n" + EXPLORER_SOURCE)
        argv = [sys.executable, "-S", "-E", str(script)]
        try:
            async with exthost.connect(
                argv, dialect="morphir", permissions={}, restart={"strategy": "never"}
            ):
                raise AssertionError("it was started")
        except HandshakeFailed as failed:
            assert f'hides {place}/lib/needed: add "{place}/lib/needed"' in failed.help, failed
        granted: PermissionSettings = {"filesystem": [f"{place}/lib/needed"]}
        async with exthost.connect(argv, dialect="morphir", permissions=granted) as ext:
            assert ext.state == "ready"


@trial
async def a_read_only_file_is_named_with_the_right_to_add() -> None:
    with shared_folder() as place:
        (place / "cache").mkdir()
        (place / "cache").chmod(0o777)
        (place / "own").mkdir()
        script = place / "own" / "ext.py"
        argv = ["/usr/bin/python3", "-S", "-E", str(script)]
        no_restart: RestartSettings = {"strategy": "never"}
        readable: PermissionSettings = {"filesystem": [f"{place}/cache"]}
        writing_line = f"open('{place}/cache/lock', 'w')\n"
        # Some programs print warnings first, and their error over several lines.
        writing_with_long_error = f"""
import sys
try:
    {writing_line}
except OSError as error:
    sys.exit(f'warning: no /etc/hostname\\n{{error.strerror}} at\\n   "{{error.filename}}"')
"""
        for code_that_writes in (writing_with_long_error, writing_line):
            script.write_text(code_that_writes + EXPLORER_SOURCE)
            try:
                async with exthost.connect(
                    argv, dialect="morphir", permissions=readable, restart=no_restart
                ):
                    raise AssertionError("it was started")
            except HandshakeFailed as failed:
                assert f'add "{place}/cache:rw"' in failed.help, failed
        granted: PermissionSettings = {"filesystem": [f"{place}/cache:rw"]}
        async with exthost.connect(argv, dialect="morphir", permissions=granted) as ext:
            assert ext.state == "ready"


@trial
async def a_configured_lifetime_that_is_impossible_is_refused() -> None:
    # In a new user namespace its first user can set these limits.
    forbid = 'echo 0 >/proc/sys/user/max_pid_namespaces && exec "$@"'
    command = ("unshare", "-Ur", "sh", "-c", forbid, "sh", sys.executable, "-c", WITHOUT_NAMESPACES)
    pipe = asyncio.subprocess.PIPE
    host = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await host.communicate()
    assert host.returncode == 0, err.decode()
    report = json.loads(out)
    assert report["code"] == "X0380" and "plain" in report["help"], report
    assert "no PID namespace could be made" in report["message"], report
    assert "user namespaces" in report["help"], report
    assert report["pids"] == "process group", "by default a process group is enough"


# A program that runs hosts with and without lifetime = "tree", and prints the results.
WITHOUT_NAMESPACES = """
import asyncio, json, exthost
from tests.sandbox.confined import EXPLORER

async def main():
    try:
        async with exthost.connect(EXPLORER, dialect="morphir", lifetime="tree"):
            raise SystemExit("it was started")
    except exthost.errors.Refused as refused:
        report = {"code": refused.code, "message": refused.message, "help": refused.help}
    async with exthost.connect(EXPLORER, dialect="morphir") as ext:
        print(json.dumps({**report, "pids": ext.enforced["pids"]}))

asyncio.run(main())
"""


@trial
async def without_bubblewrap_its_processes_are_still_contained() -> None:
    os.environ["EXTHOST_BWRAP"] = "/nowhere/bwrap"
    try:
        async with exthost.connect(EXPLORER, dialect="morphir", lifetime="tree") as ext:
            assert ext.enforced["pids"] == "pidns"
            assert await explore(ext, "import os; result = os.getppid()") == 1
    finally:
        del os.environ["EXTHOST_BWRAP"]
