"""Trials of the sandbox: packages that change between discovery, pin, start and restart, a full
store, and many extensions that misbehave at the same time.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. A package
is an extension that the host found in a folder, with a manifest that is not trusted. `Package` has
a secret `key` that its sandbox must not show. A pin is a digest of the code in the config.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import exthost
from exthost.errors import ExthostError, Refused
from exthost.events import Bus, LogLine, Spawned
from exthost.launch.package_tree import file_digest, read_tree
from exthost.process.procfs import descendants
from tests.extensions import synaps_tree
from tests.extensions.harness import error_of, pid_of, wait_until
from tests.sandbox.confined import folder, shared_folder, system_explorer
from tests.sandbox.packages import SECRET, Package
from tests.sandbox.programs import IN_PLACE
from tests.sandbox.trials import trial

# Shell programs that misbehave.
HOSTILE_PROGRAMS = (
    "exit 3",
    "exec sleep 60",
    "exec 1>&-; sleep 60",
    "exec 0<&-; sleep 60",
    "printf '{\"id\":'; sleep 60",
    "while read line; do echo nonsense; done",
    "i=0; while [ $i -lt 20000 ]; do echo junk $i; i=$((i+1)); done; sleep 60",
    "i=0; while [ $i -lt 20000 ]; do echo junk $i >&2; i=$((i+1)); done; sleep 60",
    "trap '' TERM INT HUP; sleep 60 & sleep 60 & wait",
    "kill -STOP $$; sleep 60",
)
EXTENSION_COUNT = 200


# Changes by which a package could get its key into the sandbox, or run other code.


def link_program(package: Package) -> None:
    (package.root / "ext.py").unlink()
    (package.root / "ext.py").symlink_to(package.key)


def link_folder(package: Package) -> None:
    package.root.rename(package.search_path.parent / "moved")
    package.root.symlink_to(package.keys)


def swap_folder(package: Package) -> None:
    moved = package.search_path.parent / "moved"
    package.root.rename(moved)
    shutil.copytree(moved, package.root)
    package.write("ext.py", str(package.key))


def name_key(package: Package) -> None:
    package.write("ext.py", str(package.key))


CHANGES: tuple[Callable[[Package], None], ...] = (link_program, link_folder, swap_folder, name_key)


@trial
async def a_package_that_changes_at_any_moment_is_judged_before_it_runs() -> None:
    for change in CHANGES:
        for moment in ("after discovery", "after a start"):
            with folder() as place:
                await check_change(Package(place), change, moment)


async def check_change(package: Package, change: Callable[[Package], None], moment: str) -> None:
    """Check that a changed package is refused, or runs as it was admitted, and cannot read the
    key."""
    package.write("ext.py")
    config = package.config(start="lazy", restart={"strategy": "immediate", "max_retries": 2})
    host, output = exthost.Host.from_config(config), list[str]()
    host.events.subscribe(LogLine, lambda line: output.append(line.text))
    async with host:
        ext = host["toy"]
        if moment == "after a start":
            await ext.start()
            assert ext.state == "ready", ext.cause
        change(package)
        if moment == "after a start":
            os.kill(pid_of(ext), signal.SIGKILL)
            await wait_until(lambda: ext.state != "ready")
            await wait_until(lambda: ext.state in ("ready", "refused", "failed"))
        else:
            outcome = await wait_for_error(ext.start())
            assert outcome is None or isinstance(outcome, ExthostError), outcome
        shown_paths = (
            [item["path"] for item in ext.enforced["paths"]] if ext.state == "ready" else []
        )
        context = (change.__name__, moment, ext.state, ext.cause)
        # A changed manifest is read only at a reload.
        assert ext.state == "refused" or change is name_key, context
        if ext.state == "refused":
            assert isinstance(ext.cause, Refused) and ext.cause.code in ("X0384", "X0390"), context
        assert not any(path.startswith(str(package.keys)) for path in shown_paths), context
    assert SECRET not in "\n".join(output)


def open_descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def wait_for_error(work: Any) -> BaseException | None:
    """Wait until the work is done, and return its error, if any."""
    try:
        await work
    except ExthostError as error:
        return error
    return None


@trial
async def a_file_among_the_arguments_does_not_stand_in_for_a_pinned_program() -> None:
    with shared_folder() as place:
        program = system_explorer(place / "run.py")
        pin = file_digest(str(program))
        data_file = shutil.copy(program, place / "data.txt")
        argv = ["/usr/bin/python3", "-S", "-E", str(program), str(data_file)]
        no_permissions: dict[str, Any] = {}
        # Without a sandbox, and in one.
        for settings in (no_permissions, {"permissions": no_permissions}):
            async with exthost.connect(argv, dialect="morphir", **settings) as ext:
                assert ext.digests["program"] == pin, "the reported digest can be pinned"
        program.write_text(program.read_text() + "# another program\n")
        bus, spawned = Bus(), list[Spawned]()
        bus.subscribe(Spawned, spawned.append)
        for settings in (no_permissions, {"permissions": no_permissions}):
            for sha256 in (pin, {"program": pin}):
                connection = exthost.connect(
                    argv, dialect="morphir", sha256=sha256, events=bus, **settings
                )
                error = await error_of(connection.__aenter__())
                assert isinstance(error, Refused) and error.code == "X0386", error
                assert error.evidence.path == str(program) and not spawned, error


# Commands that start the file `app/__main__.py` indirectly.
INDIRECT = (
    "/usr/bin/python3 -S -E -m app",
    "/usr/bin/python3 -S -E app",
    "/usr/bin/timeout 600 /usr/bin/python3 -S -E app/__main__.py",
    "/usr/bin/env -C app /usr/bin/python3 -S -E __main__.py",
    "/usr/bin/nice -n 1 /usr/bin/stdbuf -oL /usr/bin/python3 -S -E -m app",
    "/usr/bin/setsid -w /usr/bin/python3 -S -E -m app.__main__",
)


@trial
async def changed_code_does_not_run_under_a_pin_however_it_is_started() -> None:
    no_permissions: dict[str, Any] = {}
    for command in INDIRECT:
        for settings in (no_permissions, {"permissions": no_permissions}):
            with shared_folder() as place:
                await check_changed_code(command.split(), place, settings)


async def check_changed_code(argv: list[str], place: Path, settings: Any) -> None:
    """Check that a pinned command does not start after a change of its code, and that commands
    whose code cannot be known are refused with a pin."""
    (place / "app").mkdir(mode=0o755)
    code = system_explorer(place / "app" / "__main__.py")
    (place / "app" / "__init__.py").touch()
    bus, spawned = Bus(), list[Spawned]()
    connect: Any = partial(exthost.connect, argv, dialect="morphir", cwd=str(place), **settings)
    async with connect() as ext:
        pin = ext.digests["program"]
    async with connect(sha256=pin) as ext:
        assert ext.state == "ready", ext.cause
    code.write_text(code.read_text() + "# another program\n")
    bus.subscribe(Spawned, spawned.append)
    error = await error_of(connect(sha256=pin, events=bus).__aenter__())
    assert isinstance(error, Refused) and error.code == "X0386" and not spawned, (argv, error)
    for unknown_command in (["/bin/sh", "-c", " ".join(argv)], ["/usr/bin/npx", "-y", "app"]):
        unknown = exthost.connect(
            unknown_command, dialect="morphir", cwd=str(place), sha256=pin, events=bus
        )
        error = await error_of(unknown.__aenter__())
        assert isinstance(error, Refused) and error.code == "X0341" and not spawned, error


@trial
async def a_changed_module_of_a_pinned_package_is_not_run() -> None:
    with folder() as place:
        package = Package(place)
        package.write("ext.py")
        (package.root / "helper.py").write_text("X = 1\n")
        pin = {"package": read_tree(str(package.root)).digest}
        environ = {**os.environ, "EXTHOST_HOME": str(place / "home")}
        host = exthost.Host.from_config(package.config(sha256=pin), environ=environ)
        async with host:
            assert host["toy"].state == "ready", host["toy"].cause
            (package.root / "helper.py").write_text("X = 2\n")
            error = await error_of(host["toy"].restart())
            assert isinstance(error, Refused) and "helper.py has changed" in error.message, error
        spawned = list[Spawned]()
        host = exthost.Host.from_config(package.config(sha256=pin), environ=environ)
        host.events.subscribe(Spawned, spawned.append)
        async with host:
            cause = host["toy"].cause
            assert host["toy"].state == "refused" and not spawned, host["toy"].state
            assert isinstance(cause, Refused) and "helper.py has changed" in cause.message, cause


@trial
async def the_store_of_a_sandboxed_extension_is_full_at_its_limit() -> None:
    with folder() as place:
        shutil.copy(
            synaps_tree.CHILD, synaps_tree.write_plugin(place / "p" / "toy", **IN_PLACE) / "ext.py"
        )
        defaults = {"permissions": {}, "start": "eager", "limits": {"store": "64KB"}}
        config = {"discovery": {"search_paths": [str(place / "p")]}, "defaults": defaults}
        environ = {**os.environ, "EXTHOST_HOME": str(place / "home")}
        async with exthost.Host.from_config(config, environ=environ) as host:
            assert host["toy"].state == "ready", host["toy"].cause
            params = {"namespace": "toy", "content": "x" * 1000, "meta": "y" * 10_000}
            codes = []
            for _ in range(12):
                request = {"method": "memory.append", "params": params}
                answer = (await host.call_tool("toy:ask", request)).data
                codes.append(answer.get("error", {}).get("code"))
            assert codes == [None] * 5 + [-32000] * 7, codes
        assert (place / "home" / "exthost.sqlite3").stat().st_size < 2**20


@trial
async def two_hundred_extensions_misbehave_and_one_is_served() -> None:
    honest = Path(__file__).with_name("explorer.py")
    source = {"command": sys.executable, "args": ["-S", "-E", str(honest)]}
    defaults: dict[str, Any] = {
        "limits": {"start": "20s", "handshake": "3s", "stop": "100ms"},
        "restart": {"strategy": "immediate", "max_retries": 1},
        "start": "lazy",
    }
    entries: list[dict[str, Any]] = [{"name": "honest", "source": source, "start": "eager"}]
    for number in range(EXTENSION_COUNT):
        code = HOSTILE_PROGRAMS[number % len(HOSTILE_PROGRAMS)]
        entry = {"name": f"bad{number}", "source": {"command": "/bin/sh", "args": ["-c", code]}}
        # Only a tenth of each kind is sandboxed, because bubblewrap takes most of the time.
        strict: dict[str, Any] = (
            {"permissions": {}} if number // len(HOSTILE_PROGRAMS) % 10 == 0 else {}
        )
        entries.append({**entry, **defaults, **strict})
    before = open_descriptors()
    async with exthost.Host.from_config({"extensions": entries}) as host:
        hostile_extensions = [host[f"bad{number}"] for number in range(EXTENSION_COUNT)]
        starting = asyncio.gather(*(wait_for_error(item.start()) for item in hostile_extensions))
        answers = 0
        while not starting.done():
            assert await host["honest"].call("echo", answers, timeout=60) == answers
            answers += 1
            await asyncio.sleep(0.02)
        outcomes = await starting
        assert answers and all(isinstance(item, ExthostError) for item in outcomes), outcomes
        states = {item.state for item in hostile_extensions}
        assert states <= {"failed", "backoff"}, states
    await wait_until(lambda: [*descendants(os.getpid())] == [os.getpid()])
    await wait_until(lambda: open_descriptors() <= before + 1)
