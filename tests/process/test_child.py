"""`Child`, which starts a process from a launch plan (command, folder, variables) and owns it.

The tests show what the process gets from the host, which error is raised if it cannot be started,
and that it is ended and reaped. The descriptor `exit_fd` becomes readable when the process ends, so
the tests wait for that with `select`.
"""

import errno
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from exthost.errors import SpawnFailed
from exthost.model.launch_plan import LaunchPlan
from exthost.process import child as child_module
from exthost.process.child import CLOSED, Child, find_program
from exthost.process.program_check import check_program
from exthost.process.spawn_errors import find_spawn_error
from tests.extensions.proc import is_gone

WAIT_SECONDS = 120

# Each of the following functions returns a program that cannot be started, and its working folder
# (None for that of the host).
MakeBadCommand = Callable[[Path], tuple[str, str | None]]


def missing_program(folder: Path) -> tuple[str, str | None]:
    return str(folder / "nowhere"), None


def missing_bare_name(folder: Path) -> tuple[str, str | None]:
    return "no-such-program-anywhere", None


def missing_cwd(folder: Path) -> tuple[str, str | None]:
    return sys.executable, str(folder / "gone")


def cwd_that_is_a_file(folder: Path) -> tuple[str, str | None]:
    (folder / "file").write_text("")
    return sys.executable, str(folder / "file")


def script_with_missing_interpreter(folder: Path) -> tuple[str, str | None]:
    return write_script(folder, "#!/opt/nowhere/python9\n"), None


def script_written_on_windows(folder: Path) -> tuple[str, str | None]:
    return write_script(folder, "#!/bin/sh\r\necho\r\n"), None


def file_that_is_not_executable(folder: Path) -> tuple[str, str | None]:
    (folder / "plain").write_text("#!/bin/sh\n")
    return str(folder / "plain"), None


def folder_as_program(folder: Path) -> tuple[str, str | None]:
    return str(folder), None


def pipe_as_program(folder: Path) -> tuple[str, str | None]:
    os.mkfifo(folder / "pipe", 0o700)
    return str(folder / "pipe"), None


def script_without_first_line(folder: Path) -> tuple[str, str | None]:
    return write_script(folder, "just text\n"), None


def url_as_program(folder: Path) -> tuple[str, str | None]:
    return "https://host/mcp", str(folder)


def variable_before_program(folder: Path) -> tuple[str, str | None]:
    return "KEY=value", None


def name_that_is_too_long(folder: Path) -> tuple[str, str | None]:
    return 5000 * "a", None


def name_with_zero_byte(folder: Path) -> tuple[str, str | None]:
    return "a\0b", None


def write_script(folder: Path, text: str) -> str:
    path = folder / "script"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("make_bad_command", "code", "message", "advice"),
    [
        (missing_program, "X0401", "there is no program", "spelling and PATH"),
        (missing_bare_name, "X0401", "no-such-program-anywhere", "PATH"),
        (url_as_program, "X0401", "there is no program", 'url = "https://host/mcp"'),
        (variable_before_program, "X0401", "KEY=value", "set with `env`"),
        (missing_cwd, "X0402", "does not exist", "`cwd`"),
        (cwd_that_is_a_file, "X0402", "does not exist", "`cwd`"),
        (script_with_missing_interpreter, "X0403", "/opt/nowhere/python9", "interpreter"),
        (script_written_on_windows, "X0403", r"/bin/sh\r", "line ends"),
        (file_that_is_not_executable, "X0404", "cannot be executed", "chmod +x"),
        (folder_as_program, "X0404", "is a folder", "program inside"),
        (pipe_as_program, "X0404", "is a pipe", "file of a program"),
        (
            script_without_first_line,
            "X0404",
            "not a program that this system can run",
            "first line",
        ),
        (name_that_is_too_long, "X0401", "is too long", "`args`"),
        (name_with_zero_byte, "X0406", "null byte", ""),
    ],
)
def test_a_failed_spawn_is_reported_with_its_reason_and_the_next_step(
    make_bad_command: MakeBadCommand, code: str, message: str, advice: str, tmp_path: Path
) -> None:
    program, cwd = make_bad_command(tmp_path)
    with pytest.raises(SpawnFailed) as caught:
        Child(LaunchPlan(argv=(program, "x"), cwd=cwd, env=os.environ), "ext")
    error = caught.value
    assert (error.code, error.extension) == (code, "ext")
    assert message in error.message and advice in error.help
    assert error.evidence.argv == (program, "x") and error.evidence.cwd == (cwd or "")
    found = find_spawn_error(LaunchPlan(argv=(program, "x"), cwd=cwd, env=os.environ))
    # A bare name is not looked up without a start.
    assert found is not None and found.code in (code, "X0401")


def test_check_program_finds_a_script_with_windows_line_ends(
    tmp_path: Path,
) -> None:
    # The host calls it before a start in a sandbox, where it does not see the error of the system.
    program, _ = script_written_on_windows(tmp_path)
    with pytest.raises(FileNotFoundError):
        check_program(LaunchPlan(argv=(program,), env=os.environ))


def test_an_argument_that_is_too_long_is_named() -> None:
    # It contains a byte that is not UTF-8.
    with pytest.raises(SpawnFailed, match=r"the longest argument, '.udcffaaa") as error:
        Child(LaunchPlan(argv=("/bin/true", "\udcff" + 2**21 * "a"), env={}), "ext")
    assert error.value.code == "X0406" and len(error.value.message) < 1000


def test_a_variable_that_is_too_long_is_named_without_its_value() -> None:
    with pytest.raises(
        SpawnFailed, match="the longest variable, LARGE, has 2097152 bytes"
    ) as error:
        Child(LaunchPlan(argv=("/bin/true", "x"), env={"LARGE": "s" * 2**21}), "ext")
    assert "ssss" not in error.value.message


_SPAWN = """
import os, sys
from exthost.errors import SpawnFailed
from exthost.model.launch_plan import LaunchPlan
from exthost.process.child import Child
from exthost.process.spawn_errors import find_spawn_error
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
plan = LaunchPlan(argv=(sys.argv[1],), cwd=sys.argv[2], env={"PATH": sys.argv[3]})
found = find_spawn_error(plan)
try:
    Child(plan, "ext")
except SpawnFailed as error:
    assert found is not None and found.message == error.message, found
    print(error.code, error.message)
"""


@pytest.mark.parametrize("place", ["program", "cwd", "interpreter", "path"])
def test_a_folder_that_is_closed_to_the_user_is_named(place: str) -> None:
    # The folder of a test belongs to root, and other users cannot enter it.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        closed = Path(name, "closed")
        (closed / "inner").mkdir(parents=True)
        script = write_script(closed / "inner", "#!/bin/sh\n")
        program = write_script(Path(name), f"#!{script}\n")
        closed.chmod(0)
        words = {
            "program": (script, "/"),
            "cwd": ("/bin/true", str(closed / "inner")),
            "interpreter": (program, "/"),
            "path": ("exthost-test-program", "/"),
        }
        result = subprocess.run(
            [sys.executable, "-c", _SPAWN, *words[place], f"/usr/bin:{closed}/inner"],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        closed.chmod(0o700)
    assert f"the folder {closed} is closed to the user" in result.stdout, result
    code = {"cwd": "X0402", "path": "X0401"}.get(place, "X0404")
    assert result.stdout.startswith(code)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")],
)
def test_a_process_that_cannot_be_watched_is_ended_and_reported_as_a_failed_spawn(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned_pids: list[int] = []

    def watch(pid: int) -> None:
        spawned_pids.append(pid)
        raise error

    monkeypatch.setattr(child_module, "ExitWatch", watch)
    with pytest.raises(SpawnFailed) as caught:
        Child(LaunchPlan(argv=("/bin/sleep", "100"), env=os.environ))
    assert caught.value.code == "X0405"
    assert len(spawned_pids) == 1 and is_gone(spawned_pids[0])


def test_too_few_descriptors_for_the_pipes_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real_pipe = os.pipe
    pipes_made = 0

    def pipe() -> tuple[int, int]:
        nonlocal pipes_made
        if pipes_made == 1:  # the first pipe must be closed: conftest.py looks for open ones
            raise OSError(errno.EMFILE, "Too many open files")
        pipes_made += 1
        return real_pipe()

    monkeypatch.setattr(os, "pipe", pipe)
    with pytest.raises(SpawnFailed) as caught:
        Child(LaunchPlan(argv=("/bin/true",)))
    assert caught.value.code == "X0405"


# A program that prints its descriptors, whether it leads its session and group, its folder and its
# variables. The last descriptor of the listing is that of the listing itself.
REPORT = """
import os
descriptors = sorted(map(int, os.listdir("/proc/self/fd")))[:-1]
is_leader = os.getsid(0) == os.getpid() == os.getpgrp()
print(descriptors, is_leader, os.getcwd(), sorted(os.environ), os.environ.get("WORD"), flush=True)
"""


def test_a_child_gets_only_its_pipes_its_folder_and_its_variables(
    tmp_path: Path,
) -> None:
    # The child must not get it, although the host would pass it on.
    inheritable_fd = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inheritable_fd, True)
    plan = LaunchPlan(
        argv=(sys.executable, "-S", "-E", "-c", REPORT), cwd=str(tmp_path), env={"WORD": "a b"}
    )
    child = Child(plan)
    try:
        select.select([child.exit_fd], [], [], 40)
        report = os.read(child.stdout, 4096).decode()
        # Python itself sets LC_CTYPE in some locales.
        names = "['LC_CTYPE', 'WORD']" if "LC_CTYPE" in report else "['WORD']"
        assert report == f"[0, 1, 2] True {tmp_path} {names} a b\n"
    finally:
        os.close(inheritable_fd)
        close(child)


def close(child: Child) -> None:
    """Kill a child, wait until it has ended, and close what the host has of it."""
    child.kill()
    select.select([child.exit_fd], [], [], 40)
    child.reap()
    child.close_stdin()
    child.close_outputs()


def test_closing_and_reaping_are_idempotent() -> None:
    child = Child(LaunchPlan(argv=("/bin/cat",)))
    pid = child.pid
    close(child)
    for method in (
        child.kill,
        child.terminate,
        child.reap,
        child.close_stdin,
        child.close_outputs,
    ):
        method()
    assert (child.stdin, child.stdout, child.stderr) == (CLOSED, CLOSED, CLOSED)
    assert child.pid == pid and is_gone(pid)
    assert str(child.poll_exit()) == "killed by SIGKILL"


def test_deleting_a_child_ends_its_process() -> None:
    child = Child(LaunchPlan(argv=("/bin/sh", "-c", "trap '' TERM; sleep 100 & wait")))
    pid = child.pid
    del child
    assert is_gone(pid)


@pytest.mark.parametrize(
    ("command", "cwd", "found"),
    [
        ("sh", None, "/bin/sh"),
        ("./run", "/srv/ext", "/srv/ext/run"),
        ("sub/run", "/srv/ext", "/srv/ext/sub/run"),
        ("/abs/run", "/srv/ext", "/abs/run"),
        ("no-such-program", None, "no-such-program"),
    ],
)
def test_a_program_is_found_in_path_or_relative_to_its_folder(
    command: str, cwd: str | None, found: str
) -> None:
    assert os.path.normpath(find_program(command, cwd, "/bin")) == found
