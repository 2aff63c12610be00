"""A launch plan executed: what the child gets, and why it could not be started, in words."""

import errno
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from exthost.errors import SpawnFailed
from exthost.model.launch_plan import LaunchPlan
from exthost.process import child as child_module
from exthost.process.child import CLOSED, Child, find_program
from exthost.process.program_check import check_program
from tests.extensions.proc import gone

Make = Callable[[Path], tuple[str, str | None]]


def missing(folder: Path) -> tuple[str, str | None]:
    return str(folder / "nowhere"), None


def bare_name(folder: Path) -> tuple[str, str | None]:
    return "no-such-program-anywhere", None


def missing_cwd(folder: Path) -> tuple[str, str | None]:
    return sys.executable, str(folder / "gone")


def cwd_is_a_file(folder: Path) -> tuple[str, str | None]:
    (folder / "file").write_text("")
    return sys.executable, str(folder / "file")


def missing_interpreter(folder: Path) -> tuple[str, str | None]:
    return script(folder, "#!/opt/nowhere/python9\n"), None


def written_on_windows(folder: Path) -> tuple[str, str | None]:
    return script(folder, "#!/bin/sh\r\necho\r\n"), None


def not_executable(folder: Path) -> tuple[str, str | None]:
    (folder / "plain").write_text("#!/bin/sh\n")
    return str(folder / "plain"), None


def a_folder(folder: Path) -> tuple[str, str | None]:
    return str(folder), None


def no_first_line(folder: Path) -> tuple[str, str | None]:
    return script(folder, "just text\n"), None


def a_zero_byte(folder: Path) -> tuple[str, str | None]:
    return "a\0b", None


def script(folder: Path, text: str) -> str:
    path = folder / "script"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("make", "code", "says", "helps"),
    [
        (missing, "X0401", "there is no program", "spelling and PATH"),
        (bare_name, "X0401", "no-such-program-anywhere", "PATH"),
        (missing_cwd, "X0402", "is not there", "`cwd`"),
        (cwd_is_a_file, "X0402", "is not there", "`cwd`"),
        (missing_interpreter, "X0403", "/opt/nowhere/python9", "interpreter"),
        (written_on_windows, "X0403", r"/bin/sh\r", "line ends"),
        (not_executable, "X0404", "cannot be executed", "chmod +x"),
        (a_folder, "X0404", "is a folder", "program inside"),
        (no_first_line, "X0404", "not a program that this system can run", "first line"),
        (a_zero_byte, "X0406", "null byte", ""),
    ],
)
def test_a_failed_spawn_is_reported_with_its_reason_and_the_next_step(
    make: Make, code: str, says: str, helps: str, tmp_path: Path
) -> None:
    program, cwd = make(tmp_path)
    with pytest.raises(SpawnFailed) as caught:
        Child(LaunchPlan(argv=(program, "x"), cwd=cwd, env=os.environ), "ext")
    error = caught.value
    assert (error.code, error.extension) == (code, "ext")
    assert says in error.message and helps in error.help
    assert error.evidence.argv == (program, "x") and error.evidence.cwd == (cwd or "")


def test_a_script_written_on_windows_is_found_out_before_it_is_executed_in_a_namespace(
    tmp_path: Path,
) -> None:
    program, _ = written_on_windows(tmp_path)
    with pytest.raises(FileNotFoundError):
        check_program(LaunchPlan(argv=(program,), env=os.environ))


def no_descriptors(pid: int) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def no_threads(pid: int) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("why", [no_descriptors, no_threads])
def test_a_process_that_cannot_be_watched_is_ended_and_reported_as_a_failed_spawn(
    why: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[int] = []

    def watch(pid: int) -> None:
        spawned.append(pid)
        why(pid)

    monkeypatch.setattr(child_module, "ExitWatch", watch)
    with pytest.raises(SpawnFailed) as caught:
        Child(LaunchPlan(argv=("/bin/sleep", "100"), env=os.environ))
    assert caught.value.code == "X0405"
    assert len(spawned) == 1 and gone(spawned[0])


def test_no_room_for_the_pipes_is_reported_and_leaks_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, left = os.pipe, [1]

    def pipe() -> tuple[int, int]:
        if not left:
            raise OSError(errno.EMFILE, "Too many open files")
        left.pop()
        return real()

    monkeypatch.setattr(os, "pipe", pipe)
    with pytest.raises(SpawnFailed) as caught:
        Child(LaunchPlan(argv=("/bin/true",)))
    assert caught.value.code == "X0405"


REPORT = """
import os
print(sorted(map(int, os.listdir("/proc/self/fd")))[:-1], os.getsid(0) == os.getpid() ==
      os.getpgrp(), os.getcwd(), sorted(os.environ), os.environ.get("WORD"), flush=True)
"""


def test_a_child_gets_its_three_pipes_its_folder_its_variables_and_nothing_else(
    tmp_path: Path,
) -> None:
    ours = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(ours, True)
    plan = LaunchPlan(
        argv=(sys.executable, "-S", "-E", "-c", REPORT), cwd=str(tmp_path), env={"WORD": "a b"}
    )
    child = Child(plan)
    try:
        select.select([child.exit_fd], [], [], 40)
        report = os.read(child.stdout, 4096).decode()
        names = "['LC_CTYPE', 'WORD']" if "LC_CTYPE" in report else "['WORD']"
        assert report == f"[0, 1, 2] True {tmp_path} {names} a b\n"
    finally:
        os.close(ours)
        close(child)


def close(child: Child) -> None:
    child.kill()
    select.select([child.exit_fd], [], [], 40)
    child.reap()
    child.close_stdin()
    child.close_outputs()


def test_closing_and_reaping_twice_do_nothing_twice() -> None:
    child = Child(LaunchPlan(argv=("/bin/cat",)))
    pid = child.pid
    close(child)
    close_again = (child.kill, child.terminate, child.reap, child.close_stdin, child.close_outputs)
    for again in close_again:
        again()
    assert (child.stdin, child.stdout, child.stderr) == (CLOSED, CLOSED, CLOSED)
    assert child.pid == pid and gone(pid)
    assert str(child.see_exit()) == "killed by SIGKILL"


def test_a_child_that_is_dropped_takes_its_process_along() -> None:
    child = Child(LaunchPlan(argv=("/bin/sh", "-c", "trap '' TERM; sleep 100 & wait")))
    pid = child.pid
    del child
    assert gone(pid)


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
def test_a_program_is_found_by_path_or_from_its_folder(
    command: str, cwd: str | None, found: str
) -> None:
    assert os.path.normpath(find_program(command, cwd, "/bin")) == found
