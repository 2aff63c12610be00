"""`start_method = "template"`: programs that are forked from a template cannot tell it from an
ordinary start, and an ordinary start replaces what a template cannot do.

A template is a Python process that has imported the modules of a program, and from which processes
are forked, so that a start need not import them. The host learns the modules in the first run: the
first process is forked from an empty template, later ones from a full template. When a process is
ready, the next one is also started in advance, and waits before the first line of the program.

The program is LOOKS. Its method `look` returns what a program can see of its process (arguments,
variables, signals, limits), `read` returns an attribute of a module, and the variable
LOOKS_IMPORTS has the modules that it imports.
"""

import asyncio
import hashlib
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.extension.templates import Learned, TemplateStarter
from exthost.process.child import Child
from exthost.process.procfs import children_of, descendants
from exthost.process.template import Template
from tests.extensions.harness import SHORT_SHUTDOWN, wait_until

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's"),
]

LOOKS = Path(__file__).parent.parent / "extensions" / "looks.py"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test uses the modules that another one has recorded."""
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))


def new_extension(*argv: str, method: str = "template", **settings: Any) -> Extension:
    source = {"type": "process", "command": argv[0], "args": list(argv[1:])}
    return Extension(
        spec_from_mapping({"name": "looks", "source": source, "start_method": method, **settings}),
        SHORT_SHUTDOWN,
    )


@asynccontextmanager
async def started(
    *argv: str, method: str = "template", **settings: Any
) -> AsyncIterator[Extension]:
    extension = new_extension(*argv, method=method, **settings)
    try:
        yield await extension.start()
    finally:
        await extension.close()


def templates(extension: Extension) -> TemplateStarter:
    """Return the part of the extension that starts its processes from templates."""
    starter = extension._starter.templates
    assert starter is not None
    return starter


async def restart_from_full_template(extension: Extension) -> None:
    """Restart the extension from a template that has the modules of its first run."""
    starter = templates(extension)
    await wait_until(lambda: has_recorded_modules(starter))
    starter._learn(extension._starter.prepared().plan)
    await extension.restart()
    assert starter.last.method == "template", starter.last


def has_recorded_modules(starter: TemplateStarter) -> bool:
    """Return whether the modules of the program are known, or are recorded. In a pool, another
    process can be ready before the one that records them."""
    return starter._is_recorded or (starter._learned is not None and bool(starter._learned.modules))


def start_method(extension: Extension) -> dict[str, Any]:
    """Return what the status shows: how the last process was started, and why not otherwise."""
    return extension.internals.describe_start_method()


def full_templates(extension: Extension) -> list[Template]:
    """Return the templates with modules. The empty template of the first start is another one."""
    entries = templates(extension)._templates._entries.items()
    return [entry.template for inputs, entry in entries if inputs.modules]


def template_pid(extension: Extension) -> int:
    (template,) = full_templates(extension)
    init = template.child.init_pid
    assert init is not None
    # The wrappers of the extensions' processes are also children of that process.
    return next(pid for pid in children_of(init) if b"exthost template" in _cmdline(pid))


def only_child(extension: Extension) -> Child:
    child = extension._supervisor.processes.sessions[0].lifetime.child
    assert isinstance(child, Child)
    return child


async def start_next(extension: Extension) -> Child:
    """Start the next process in advance, and return it when it has joined its namespace."""
    starter = templates(extension)
    (template,) = full_templates(extension)
    starter._start_next(template, extension._starter.prepared().plan, only_child(extension))
    assert template.copied_pages
    prepared = starter._next
    assert prepared is not None
    await wait_until(lambda: prepared.start.is_waiting)
    return prepared.child


def _cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """A virtual environment in a folder that every user can reach."""
    folder = Path("/var/tmp") / f"exthost-templates-{os.getpid()}"
    venv.create(folder, symlinks=True, with_pip=False)
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def site_packages(environment: Path) -> Path:
    (folder,) = environment.glob("lib/python3*/site-packages")
    return folder


async def test_locked_or_pinned_code_is_executed_as_usual() -> None:
    """A template keeps the code that it has imported."""
    digest = hashlib.sha256(LOOKS.read_bytes()).hexdigest()
    async with started(sys.executable, "-S", "-E", str(LOOKS), sha256=digest) as extension:
        assert "locked or pinned" in start_method(extension)["reason"]


COMMANDS = {
    "script": (sys.executable, str(LOOKS), "one", "two"),
    "options": (sys.executable, "-B", "-W", "error::UserWarning", "-X", "dev", str(LOOKS)),
    "isolated": (sys.executable, "-I", str(LOOKS), "--flag"),
    "no site": (sys.executable, "-S", "-E", str(LOOKS)),
    "module": (sys.executable, "-m", "looks"),
}


async def test_signals_that_only_the_template_ignores_have_their_usual_handlers() -> None:
    numbers = (signal.SIGINT, signal.SIGUSR2)
    async with started(sys.executable, str(LOOKS)) as extension:
        expected = (await extension.call("look"))["signals"]
        before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
        try:
            await restart_from_full_template(extension)  # makes the template
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
        await extension.restart()
        assert start_method(extension)["last"] == "template"
        assert (await extension.call("look"))["signals"] == expected


@pytest.mark.parametrize("permissions", [None, {}], ids=["namespace", "sandbox"])
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_program_sees_the_same_in_both_ways_to_start(
    command: str, permissions: dict[str, Any] | None
) -> None:
    settings: dict[str, Any] = {
        "cwd": str(LOOKS.parent),
        "env": {"PYTHONHASHSEED": "7", "LC_ALL": "C.UTF-8", "COLOUR": "blue", "API_KEY": "s3cret"},
        "limits": {"nofile": 99},
    }
    if permissions is not None:
        settings["permissions"] = permissions
    argv = COMMANDS[command]
    async with started(*argv, method="execute", **settings) as extension:
        expected = await extension.call("look")
    async with started(*argv, **settings) as extension:
        from_empty_template = await extension.call("look")
        assert templates(extension).last.method == "template"
        await restart_from_full_template(extension)
        from_full_template = await extension.call("look")
        await start_next(extension)
        await extension.restart()
        started_in_advance = await extension.call("look")
    assert from_empty_template == expected
    assert from_full_template == expected
    assert started_in_advance == expected


async def test_processes_of_a_template_have_their_own_random_numbers() -> None:
    modules = {"LOOKS_IMPORTS": "random tempfile uuid multiprocessing.process"}
    async with started(sys.executable, str(LOOKS), env=modules) as extension:
        await extension.call("numbers")
        await restart_from_full_template(extension)
        first = await extension.call("numbers")
        await extension.restart()
        second = await extension.call("numbers")
        assert start_method(extension)["last"] == "template"
    # The seed of hashes belongs to the interpreter of the template, and cannot change.
    assert not set(first.values()) & (set(second.values()) - {first["hash"]})


async def test_a_configured_hash_seed_is_used() -> None:
    hashes = set()
    for method in ("execute", "template"):
        env = {"PYTHONHASHSEED": "42"}
        async with started(sys.executable, str(LOOKS), method=method, env=env) as extension:
            hashes.add((await extension.call("numbers"))["hash"])
    assert len(hashes) == 1


async def test_the_program_has_the_pid_that_the_host_reports() -> None:
    async with started(sys.executable, str(LOOKS)) as extension:
        child = extension._supervisor.processes.sessions[0].lifetime.child
        assert isinstance(child, Child)
        (pid,) = child.program_pids
        outside = extension.stats.pid
        status = Path(f"/proc/{pid}/status").read_text()
        # NSpid has the pid in each namespace, that of the program last.
        (line,) = [line for line in status.splitlines() if line.startswith("NSpid:")]
        if os.geteuid() == 0:  # only root can choose the pid of a new process
            assert int(line.split()[-1]) == outside


async def test_status_shows_the_start_method_and_the_shared_memory() -> None:
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        shown = start_method(extension)
    assert shown["configured"] == shown["last"] == "template"
    assert shown["shared_memory"] > 1_000_000
    assert shown["modules"] > 10


@pytest.mark.parametrize(
    ("argv", "settings", "reason"),
    [
        ((sys.executable, "-c", f"exec(open({str(LOOKS)!r}).read())"), {}, "option -c"),
        (("timeout", "600", sys.executable, str(LOOKS)), {}, "started by timeout"),
        ((sys.executable, str(LOOKS)), {"lifetime": "plain"}, "no PID namespace"),
    ],
)
async def test_a_program_that_cannot_use_a_template_is_executed_and_the_reason_is_shown(
    argv: tuple[str, ...], settings: dict[str, Any], reason: str
) -> None:
    async with started(*argv, **settings) as extension:
        assert reason in start_method(extension)["reason"]
        assert start_method(extension)["last"] == "execute"
        assert await extension.call("echo", {"a": 1}) == {"a": 1}


# -- modules that cannot be in a template ----------------------------------------------------------

# Modules that do something in their import that a fork does not copy, or that two processes must
# not share.
BAD_MODULES = {
    "starts_thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n",
    "opens_file": "import os\nfile = open(os.devnull)\n",
    "opens_socket": "import socket\nsocket_ = socket.socketpair()\n",
    "shares_memory": "import mmap\nboard = mmap.mmap(-1, 4096)\n",
    "shares_lock": "import multiprocessing\nlock = multiprocessing.Lock()\n",
    "creates_folder": "import tempfile\nfolder = tempfile.mkdtemp()\n",
    "creates_file": "import tempfile\nos_file, path = tempfile.mkstemp()\n"
    "import os\nos.close(os_file)\n",
}


@pytest.mark.parametrize("name", BAD_MODULES)
async def test_a_module_that_each_process_must_import_itself_is_left_out(
    name: str, environment: Path
) -> None:
    module = site_packages(environment) / f"{name}.py"
    module.write_text(BAD_MODULES[name])
    importer = site_packages(environment) / f"imports_{name}.py"
    importer.write_text(f"import colorsys, {name}\nvalue = 1\n")
    python = str(environment / "bin/python")
    async with started(python, str(LOOKS), env={"LOOKS_IMPORTS": importer.stem}) as extension:
        await restart_from_full_template(extension)
        refused = start_method(extension)["refused"]
        assert list(refused) == [name], refused
        assert {name, importer.stem, "colorsys"} <= set(await extension.call("modules"))


async def test_the_own_files_of_a_program_are_not_in_its_template(
    environment: Path, tmp_path: Path
) -> None:
    """A module beside the script is read by each process, also after a change."""
    shutil.copy(LOOKS, tmp_path / "run.py")
    own = tmp_path / "own_module.py"
    own.write_text("value = 1\n")
    argv = (str(environment / "bin/python"), "-B", str(tmp_path / "run.py"))
    async with started(*argv, env={"LOOKS_IMPORTS": "own_module"}) as extension:
        await restart_from_full_template(extension)
        own.write_text("value = 'changed'\n")
        await extension.restart()
        wanted = {"module": "own_module", "name": "value"}
        assert await extension.call("read", wanted) == "changed"
        assert start_method(extension)["last"] == "template"


async def test_a_module_of_the_program_hides_a_module_of_its_environment(
    environment: Path, tmp_path: Path
) -> None:
    """The template has the environment's module of that name: it cannot be used."""
    (site_packages(environment) / "twice.py").write_text("value = 'environment'\n")
    shutil.copy(LOOKS, tmp_path / "run.py")
    argv = (str(environment / "bin/python"), str(tmp_path / "run.py"))
    async with started(*argv, env={"LOOKS_IMPORTS": "twice"}) as extension:
        await restart_from_full_template(extension)
        (tmp_path / "twice.py").write_text("value = 'own'\n")
        await extension.restart()
        assert "a module twice of its own" in start_method(extension)["reason"]
        assert await extension.call("read", {"module": "twice", "name": "value"}) == "own"


async def test_a_change_of_the_environment_retires_the_template(environment: Path) -> None:
    module = site_packages(environment) / "changes.py"
    module.write_text("value = 'old'\n")
    argv = (str(environment / "bin/python"), "-B", str(LOOKS))
    async with started(*argv, env={"LOOKS_IMPORTS": "changes"}) as extension:
        await restart_from_full_template(extension)
        template = template_pid(extension)
        (report,) = (item.report for item in full_templates(extension))
        # The time of the folder changes when a package is installed.
        assert report is not None
        assert {str(module), str(module.parent)} <= report.files.keys()
        module.write_text("value = 'newer'\n")
        await extension.restart()
        wanted = {"module": "changes", "name": "value"}
        assert await extension.call("read", wanted) == "newer"
        assert start_method(extension)["last"] == "template"
        assert template_pid(extension) != template


# Files that Python executes when it starts; here they set `sys.colour`.
STARTUP_FILES = {
    "sitecustomize.py": "import sys; sys.colour = {!r}\n",
    "colours.pth": "import sys; sys.colour = {!r}\n",
}


@pytest.mark.parametrize("name", STARTUP_FILES)
async def test_a_file_that_the_interpreter_reads_retires_the_template(
    name: str, environment: Path
) -> None:
    """The interpreter has read it before the template begins to record files."""
    (site_packages(environment) / "colour_reader.py").write_text("from sys import colour\n")
    file = site_packages(environment) / name
    file.write_text(STARTUP_FILES[name].format("old"))
    argv = (str(environment / "bin/python"), "-B", str(LOOKS))
    try:
        async with started(*argv, env={"LOOKS_IMPORTS": "colour_reader"}) as extension:
            await restart_from_full_template(extension)
            file.write_text(STARTUP_FILES[name].format("newer"))
            await extension.restart()
            wanted = {"module": "colour_reader", "name": "colour"}
            assert await extension.call("read", wanted) == "newer"
            assert start_method(extension)["last"] == "template"
    finally:
        file.unlink()


# A module that looks for a file in the working folder, as modules do that read settings.
SETTINGS_READER = """
import os, pathlib
if {condition}:
    value = open(".settings").read()
else:
    value = "none"
"""
CONDITIONS = {
    "by_os": "os.path.isfile('.settings')",
    "by_pathlib": "pathlib.Path('.settings').exists()",
}


def write_settings_reader(environment: Path, kind: str) -> str:
    module = f"settings_{kind}"
    text = SETTINGS_READER.format(condition=CONDITIONS[kind])
    (site_packages(environment) / f"{module}.py").write_text(text)
    return module


@pytest.mark.parametrize("permissions", [None, {}], ids=["namespace", "sandbox"])
@pytest.mark.parametrize("kind", CONDITIONS)
async def test_a_file_that_a_module_looks_for_retires_the_template(
    kind: str, permissions: dict[str, Any] | None, environment: Path
) -> None:
    module = write_settings_reader(environment, kind)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        settings: dict[str, Any] = {"cwd": folder, "env": {"LOOKS_IMPORTS": module}}
        if permissions is not None:
            settings["permissions"] = {"filesystem": [folder]}
        argv = (str(environment / "bin/python"), "-B", str(LOOKS))
        async with started(*argv, **settings) as extension:
            await restart_from_full_template(extension)
            wanted = {"module": module, "name": "value"}
            values = [await extension.call("read", wanted)]
            for text in ("one", "another"):
                Path(folder, ".settings").write_text(text)
                await extension.restart()
                values.append(await extension.call("read", wanted))
                assert start_method(extension)["last"] == "template"
            Path(folder, ".settings").unlink()
            await extension.restart()
            values.append(await extension.call("read", wanted))
            assert not start_method(extension).get("refused")
    assert values == ["none", "one", "another", "none"]


async def test_extensions_with_other_working_folders_have_other_templates(
    environment: Path, tmp_path: Path
) -> None:
    """A module may have read a secret of one extension there when it was imported."""
    module = write_settings_reader(environment, "by_os")
    argv = (str(environment / "bin/python"), "-B", str(LOOKS))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".settings").write_text(name)
    env = {"LOOKS_IMPORTS": module}
    async with (
        started(*argv, cwd=str(tmp_path / "a"), env=env) as first,
        started(*argv, cwd=str(tmp_path / "b"), env=env) as second,
    ):
        for name, extension in (("a", first), ("b", second)):
            await restart_from_full_template(extension)
            assert await extension.call("read", {"module": module, "name": "value"}) == name


async def test_a_module_that_keeps_a_function_of_os_can_use_it(environment: Path) -> None:
    """The template replaces os.stat while it imports modules."""
    (site_packages(environment) / "keeps_stat.py").write_text(
        "import functools, os\nfrom os import stat\n"
        "class Keeper:\n    stat = os.stat\n"
        "wrapped = functools.wraps(os.stat)(lambda path: stat(path))\n"
        "value = [stat in os.supports_fd, {os.stat, os.open} <= os.supports_dir_fd,\n"
        "    stat == os.stat, wrapped.__name__, Keeper().stat('/').st_mode == stat('/').st_mode]\n"
        "def __getattr__(name):\n"
        "    return [stat in os.supports_fd, stat('/').st_ino == os.stat('/').st_ino]\n"
    )
    argv = (str(environment / "bin/python"), str(LOOKS))
    async with started(*argv, env={"LOOKS_IMPORTS": "keeps_stat"}) as extension:
        await restart_from_full_template(extension)
        imported = await extension.call("read", {"module": "keeps_stat", "name": "value"})
        assert imported == [True, True, True, "stat", True]
        now = await extension.call("read", {"module": "keeps_stat", "name": "now"})
        assert now == [True, True]


async def test_a_module_that_was_deleted_is_left_out(environment: Path) -> None:
    module = site_packages(environment) / "leaves.py"
    module.write_text("")
    argv = (str(environment / "bin/python"), "-B", str(LOOKS))
    async with started(*argv, env={"LOOKS_IMPORTS": "leaves"}) as extension:
        templates(extension)._take_recorded()
        assert "leaves" in templates(extension)._learned.modules  # type: ignore[union-attr]
    module.unlink()
    async with started(*argv) as extension:
        assert start_method(extension)["last"] == "template"
        assert "leaves" not in await extension.call("modules")


async def test_a_variable_that_a_module_reads_has_its_value(environment: Path) -> None:
    (site_packages(environment) / "settings_reader.py").write_text(
        "import os\nvalue = os.environ.get('COLOUR')\nkey = os.environ.get('READER_API_KEY')\n"
    )
    argv = (str(environment / "bin/python"), str(LOOKS))
    for colour in ("blue", "green"):
        env = {"LOOKS_IMPORTS": "settings_reader", "COLOUR": colour, "READER_API_KEY": colour}
        async with started(*argv, env=env) as extension:
            await restart_from_full_template(extension)
            for name in ("value", "key"):
                wanted = {"module": "settings_reader", "name": name}
                assert await extension.call("read", wanted) == colour


# -- templates that end or hang --------------------------------------------------------------------


async def test_no_secret_is_in_the_template() -> None:
    env = {"API_KEY": "the-secret-of-a", "OTHER": "configured"}
    async with started(sys.executable, str(LOOKS), env=env) as extension:
        await restart_from_full_template(extension)
        assert (await extension.call("look"))["environ"]["API_KEY"] == "the-secret-of-a"
        pid = template_pid(extension)
        assert b"the-secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert b"the-secret-of-a" not in _memory(pid)


def _memory(pid: int) -> bytes:
    """Return the writable memory of a process."""
    content = []
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            extent, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(address, 16) for address in extent.split("-"))
                memory.seek(start)
                content.append(memory.read(end - start))
    return b"".join(content)


async def test_a_killed_template_is_replaced_and_its_processes_continue() -> None:
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        os.kill(template_pid(extension), signal.SIGKILL)
        assert await extension.call("echo", {"a": 1}) == {"a": 1}
        await extension.restart()
        assert await extension.call("echo", {"a": 2}) == {"a": 2}


async def test_a_stopped_template_delays_a_start_and_does_not_prevent_it() -> None:
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        stopped = template_pid(extension)
        os.kill(stopped, signal.SIGSTOP)
        try:
            await extension.restart()
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert start_method(extension)["last"] == "execute"
        assert await extension.call("echo", {"a": 1}) == {"a": 1}


async def test_a_restart_uses_the_process_that_was_started_in_advance() -> None:
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        prepared = await start_next(extension)
        await extension.restart()
        assert only_child(extension) is prepared
        assert start_method(extension)["last"] == "template"
        await extension.restart()  # without one
        assert start_method(extension)["last"] == "template"


@pytest.mark.parametrize("permissions", [None, {}])
async def test_a_process_that_was_started_in_advance_runs_nothing_of_the_program(
    tmp_path: Path, permissions: dict[str, Any] | None
) -> None:
    """The next process reads the script when it is needed."""
    program = tmp_path / "program.py"
    text = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    result = [] if 'capabilities' in line else {!r}\n"
        "    print(json.dumps({{'id': json.loads(line)['id'], 'result': result}}), flush=True)\n"
    )
    program.write_text(text.format("old"))
    settings: dict[str, Any] = {} if permissions is None else {"permissions": permissions}
    async with started(sys.executable, str(program), **settings) as extension:
        await restart_from_full_template(extension)
        prepared = await start_next(extension)
        program.write_text(text.format("new"))
        await extension.restart()
        assert only_child(extension) is prepared
        assert await extension.call("read") == "new"


async def test_limits_apply_to_a_process_that_was_started_in_advance() -> None:
    async with started(sys.executable, str(LOOKS), limits={"nproc": 20}) as extension:
        await restart_from_full_template(extension)
        prepared = await start_next(extension)
        stop_watchdog = prepared._stop_watchdog
        assert stop_watchdog is not None
        await extension.restart()
        assert only_child(extension) is prepared
        assert prepared._stop_watchdog is stop_watchdog


async def test_the_next_process_ends_with_the_last_one() -> None:
    restart = {"strategy": "never"}
    async with started(sys.executable, str(LOOKS), restart=restart) as extension:
        await restart_from_full_template(extension)
        prepared = await start_next(extension)
        only_child(extension).kill()
        await wait_until(lambda: prepared.poll_exit() is not None)
        assert templates(extension)._next is None
        assert templates(extension)._preparing is None


async def test_a_process_that_was_started_in_advance_and_killed_is_not_used() -> None:
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        prepared = await start_next(extension)
        # It is a child of our init as soon as the process between them has ended.
        await wait_until(lambda: bool(prepared.program_pids))
        os.kill(prepared.program_pids[0], signal.SIGKILL)
        await wait_until(lambda: prepared.poll_exit() is not None)
        await extension.restart()
        assert only_child(extension) is not prepared
        assert start_method(extension)["last"] == "template"


async def test_a_process_that_cannot_be_forked_in_advance_is_not_executed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our init executes the program of another start if no process of the template joins."""

    def fail(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        starter = templates(extension)
        (template,) = full_templates(extension)
        plan = extension._starter.prepared().plan
        with monkeypatch.context() as patch:
            patch.setattr(Template, "send", fail)
            starter._start_next(template, plan, only_child(extension))
        prepared = starter._next
        assert prepared is not None
        await wait_until(lambda: prepared.child.poll_exit() is not None)
        status = prepared.child.status
        assert status is not None and "EACCES" in str(status)
        await extension.restart()
        assert start_method(extension)["last"] == "template"


async def test_the_next_process_is_started_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exthost.extension.templates._LEARN_SECONDS", 0.01)
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        starter = templates(extension)
        for _ in range(3):
            await wait_until(lambda: (next := starter._next) is not None and next.start.is_waiting)
            prepared = starter._next
            assert prepared is not None
            await extension.restart()
            assert only_child(extension) is prepared.child


async def test_a_folder_with_many_files_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extension may write there, and the host waits for the list."""
    program = tmp_path / "program.py"
    program.write_text(LOOKS.read_text("utf-8"))
    async with started(sys.executable, str(program)) as extension:
        await restart_from_full_template(extension)
        prepared = await start_next(extension)
        monkeypatch.setattr("exthost.extension.templates._MAX_ENTRIES", 1)
        (tmp_path / "other").touch()
        await extension.restart()
        assert only_child(extension) is not prepared
        assert start_method(extension)["last"] == "template"
        (template,) = full_templates(extension)
        starter = templates(extension)
        starter._start_next(template, extension._starter.prepared().plan, only_child(extension))
        assert starter._next is None


@pytest.mark.parametrize("change", ["environment", "module", "umask", "limit", "folder"])
async def test_a_process_started_in_advance_is_not_used_after_a_change(
    change: str, tmp_path: Path
) -> None:
    """A process that is started now would see the change."""
    environ = {"PATH": os.defpath, "VALUE": "old"}
    folder = tmp_path / "folder"
    folder.mkdir()
    program = folder / "program.py"
    program.write_text(LOOKS.read_text("utf-8"))
    source = {"type": "process", "command": sys.executable, "args": ["program.py"]}
    entry = {"name": "looks", "source": source, "start_method": "template", "cwd": str(folder)}
    extension = Extension(spec_from_mapping(entry), SHORT_SHUTDOWN, environ=environ)
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    umask = None
    try:
        await extension.start()
        await restart_from_full_template(extension)
        prepared = await start_next(extension)
        if change == "environment":
            environ["VALUE"] = "new"
        elif change == "module":
            (folder / "colorsys.py").touch()
        elif change == "umask":
            umask = os.umask(0o027)
        elif change == "limit":
            resource.setrlimit(resource.RLIMIT_CORE, (0 if soft else hard, hard))
        else:
            folder.rename(tmp_path / "moved")
            shutil.copytree(tmp_path / "moved", folder)
        await extension.restart()
        assert only_child(extension) is not prepared
        assert start_method(extension)["last"] == "template"
    finally:
        if umask is not None:
            os.umask(umask)
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        await extension.close()


async def test_the_process_started_in_advance_ends_when_its_template_is_not_used(
    environment: Path,
) -> None:
    module = site_packages(environment) / "retires.py"
    module.write_text("value = 'old'\n")
    argv = (str(environment / "bin/python"), "-B", str(LOOKS))
    async with started(*argv, env={"LOOKS_IMPORTS": "retires"}) as extension:
        await restart_from_full_template(extension)
        prepared = await start_next(extension)
        starter = templates(extension)
        plan = extension._starter.prepared().plan
        starter._checked_at = -math.inf
        module.write_text("value = 'newer'\n")
        assert starter.spawn(plan) is None
        await wait_until(lambda: prepared.poll_exit() is not None)


# A program that cannot start while the file `flag` exists.
FAILING_PROGRAM = """
import json, os, sys
if os.path.exists({flag!r}):
    sys.exit("the database does not answer")
for line in sys.stdin:
    print(json.dumps({{"id": json.loads(line)["id"], "result": []}}), flush=True)
"""


async def test_a_start_that_failed_once_does_not_end_the_use_of_the_template(
    tmp_path: Path,
) -> None:
    flag, program = tmp_path / "down", tmp_path / "program.py"
    program.write_text(FAILING_PROGRAM.format(flag=str(flag)))
    restart = {"strategy": "never"}
    async with started(sys.executable, "-S", "-E", str(program), restart=restart) as extension:
        await restart_from_full_template(extension)
        flag.touch()
        with pytest.raises(ExthostError):
            await extension.restart()
        flag.unlink()
        await extension.restart()
        assert "last start from the template failed" in start_method(extension)["reason"]
        await extension.restart()
        assert start_method(extension)["last"] == "template"


async def test_a_program_that_fails_only_in_its_template_is_executed(environment: Path) -> None:
    """As with a library in C that does not survive a fork."""
    (site_packages(environment) / "one_process.py").write_text(
        "import os\npid = os.getpid()\n"
        "def __getattr__(name):\n    if os.getpid() != pid:\n        os.abort()\n    return 1\n"
    )
    program = environment / "aborting.py"
    text = LOOKS.read_text("utf-8").replace("import sys\n", "import sys\nimport one_process\n", 1)
    program.write_text(text.replace("def main()", "one_process.used\n\n\ndef main()", 1))
    argv = (str(environment / "bin/python"), str(program))
    async with started(*argv, restart={"strategy": "never"}) as extension:
        starter = templates(extension)
        starter._learn(extension._starter.prepared().plan)
        for _ in range(2):
            with pytest.raises(ExthostError):
                await extension.restart()
            await extension.restart()
            assert start_method(extension)["last"] == "execute"
        for _ in range(2):
            await extension.restart()
            assert start_method(extension)["last"] == "execute"
            assert await extension.call("echo", {"a": 1}) == {"a": 1}


async def test_a_cancelled_start_does_not_count_as_failed() -> None:
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        restart = asyncio.ensure_future(extension.restart())
        await wait_until(lambda: bool(extension._supervisor.processes.starts))
        await extension.close()
        await asyncio.gather(restart, return_exceptions=True)
        assert templates(extension)._failures == 0


async def test_the_memory_of_an_ended_process_is_not_read() -> None:
    """Its pid may belong to another process by then."""
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        (template,) = full_templates(extension)
        child = only_child(extension)
        child.kill()
        await wait_until(lambda: child.poll_exit() is not None)
        plan = extension._starter.prepared().plan
        templates(extension)._start_next(template, plan, child)
        assert not template.copied_pages


async def test_templates_end_with_their_extension() -> None:
    before = set(descendants(os.getpid()))
    async with started(sys.executable, str(LOOKS)) as extension:
        await restart_from_full_template(extension)
        pid = template_pid(extension)
    assert not Path(f"/proc/{pid}").exists()
    assert set(descendants(os.getpid())) <= before


# A program with an extension that was started from a template. It runs until it is killed.
HOST_PROGRAM = """
import asyncio, sys
from exthost.config import spec_from_mapping
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from tests.extensions.harness import SHORT_SHUTDOWN
source = {"type": "process", "command": sys.executable, "args": [sys.argv[1]]}
spec = spec_from_mapping({"name": "looks", "source": source, "start_method": "template"})
async def main():
    extension = Extension(spec, SHORT_SHUTDOWN)
    await extension.start()
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def test_templates_end_with_a_killed_host() -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST_PROGRAM, str(LOOKS)],
        stdout=subprocess.PIPE,
        cwd=LOOKS.parents[2],
    )
    assert host.stdout is not None and host.stdout.readline() == b"ready\n"
    pids = [pid for pid in descendants(host.pid) if pid != host.pid]
    assert len(pids) > 4
    host.kill()
    host.wait()
    host.stdout.close()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_a_pool_is_forked_from_one_template() -> None:
    async with started(sys.executable, str(LOOKS), pool={"min": 4, "max": 4}) as extension:
        await restart_from_full_template(extension)
        await wait_until(lambda: extension.stats.processes == 4)
        # The modules of the first process may be recorded meanwhile, and lead to another template.
        await wait_until(lambda: len(full_templates(extension)) == 1)
        replies = await asyncio.gather(*(extension.call("echo", {"n": n}) for n in range(8)))
        assert [reply["n"] for reply in replies] == list(range(8))


async def test_modules_are_not_read_before_the_process_that_records_them_is_ready(
    tmp_path: Path,
) -> None:
    """The next start reads them, which in a pool may come at any time."""
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys, time\n"
        "open(sys.argv[1], 'w').close()\n"
        "while not os.path.exists(sys.argv[2]):\n"
        "    time.sleep(0.01)\n"
        "import colorsys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'result': []}), flush=True)\n"
    )
    extension = new_extension(sys.executable, str(program), str(begun), str(go_on))
    starting = asyncio.create_task(extension.start())
    try:
        await wait_until(begun.exists)
        starter = templates(extension)
        starter._take_recorded()
        assert starter._learned is not None and not starter._learned.modules
        go_on.touch()
        await starting
        starter._take_recorded()
        assert "colorsys" in starter._learned.modules
    finally:
        go_on.touch()
        await asyncio.wait([starting])
        await extension.close()


async def test_modules_are_recorded_again_if_the_process_that_records_them_is_never_ready(
    tmp_path: Path,
) -> None:
    flag = tmp_path / "flag"
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "if os.path.exists(sys.argv[1]):\n"
        "    sys.exit(1)\n"
        "import colorsys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'result': []}), flush=True)\n"
    )
    async with started(sys.executable, str(program), str(flag)) as extension:
        starter = templates(extension)
        starter._take_recorded()
        starter._learned = Learned()  # as if nothing had been recorded yet
        flag.touch()
        with pytest.raises(ExthostError):
            await extension.restart()
        starter._take_recorded()
        assert not starter._learned.modules
        flag.unlink()
        await extension.restart()
        starter._take_recorded()
        assert "colorsys" in starter._learned.modules


async def test_a_sandboxed_start_without_its_template_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with started(sys.executable, "-S", "-E", str(LOOKS), permissions={}) as extension:

        def fail(*_: object) -> None:
            raise BrokenPipeError(32, "Broken pipe")

        with monkeypatch.context() as patch:
            patch.setattr(Template, "send", fail)
            await extension.restart()
        assert start_method(extension)["last"] == "execute"
        assert "Broken pipe" in start_method(extension)["reason"]
        await restart_from_full_template(extension)


async def test_a_sandboxed_process_sees_the_new_file_at_a_granted_path(tmp_path: Path) -> None:
    """The sandbox of a template keeps the file that was mounted when it was made."""
    granted = tmp_path / "granted"
    granted.write_text("old")
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        f"    text = open({str(granted)!r}).read()\n"
        "    result = [] if 'capabilities' in line else text\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'result': result}), flush=True)\n"
    )
    permissions = {"filesystem": [str(granted)]}
    async with started(sys.executable, str(program), permissions=permissions) as extension:
        await restart_from_full_template(extension)
        assert await extension.call("read") == "old"
        replacement = tmp_path / "replacement"
        replacement.write_text("new")
        replacement.replace(granted)
        await extension.restart()
        assert await extension.call("read") == "new"
        assert start_method(extension)["last"] == "template"


# A module that starts a process when it is imported, which writes without end.
FLOODING_MODULE = """
import os
if os.fork() == 0:
    while True:
        os.write({fd}, b"x" * 65536)
"""


@pytest.mark.parametrize("fd", [1, 2])
async def test_a_template_that_writes_without_end_does_not_occupy_the_host(
    environment: Path, tmp_path: Path, fd: int
) -> None:
    # A name for each descriptor: Python reads a .pyc file again if size and second are the same.
    module = f"flooding_{fd}"
    (site_packages(environment) / f"{module}.py").write_text(FLOODING_MODULE.format(fd=fd))
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys\n"
        f"if len(sys.argv) > 1: import {module}\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'result': []}), flush=True)\n"
    )
    async with started(str(environment / "bin" / "python"), str(program)) as extension:
        starter = templates(extension)
        await extension.call("anything")
        assert starter._learned is not None
        starter._take_recorded()
        starter._learned.modules = (*starter._learned.modules, module)
        starter._learn(extension._starter.prepared().plan)
        await extension.restart()
        if fd == 1:  # the template may write only its report
            await wait_until(lambda: not full_templates(extension))
        else:  # a limited amount is read
            await wait_until(lambda: len(full_templates(extension)) == 1)
            (template,) = full_templates(extension)
            watched = asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined]
            await wait_until(lambda: template.child.stderr not in watched)
        assert await extension.call("anything") == []


async def test_programs_beside_a_console_script_do_not_prevent_its_template(
    environment: Path,
) -> None:
    """The folder of a console script has programs that are called like the modules they run."""
    (site_packages(environment) / "called_alike.py").touch()
    scripts = environment / "bin"
    (scripts / "called_alike").touch()
    script = scripts / "console-script"
    program = LOOKS.read_text("utf-8")
    script.write_text(f"#!{scripts / 'python'}\nimport called_alike\n{program}")
    script.chmod(0o755)
    async with started(str(script)) as extension:
        await restart_from_full_template(extension)
        assert "called_alike" in full_templates(extension)[0].inputs.modules
