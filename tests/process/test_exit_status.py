"""`ExitWatch`, which reports the end of a child process by a descriptor, and `ExitStatus`.

The descriptor becomes readable when the process ends. It is a pidfd of the kernel, or, where there
is none, a pipe that a waiting thread closes. `peek` returns the status, and `reap` also removes the
process from the process table.
"""

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from exthost.model.launch_plan import LaunchPlan
from exthost.process.child import Child
from exthost.process.exit_status import ExitStatus, ExitWatch
from tests.extensions.harness import check_call_counts, error_of, hostile_extension, wait_until
from tests.extensions.proc import is_gone, is_running, read_process


@pytest.fixture(params=["pidfd", "thread"])
def watch_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the test with a pidfd, and again with a thread."""
    if request.param == "thread":
        monkeypatch.delattr(os, "pidfd_open")
    yield request.param


def spawn(*argv: str) -> int:
    process = subprocess.Popen(argv, start_new_session=True)
    process.returncode = 0  # so that Popen does not wait for it: the watch does
    return process.pid


def wait_for_exit(watch: ExitWatch) -> bool:
    """Return whether the descriptor becomes readable within 40 seconds."""
    return bool(select.select([watch.fd], [], [], 40)[0])


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("exit 0", "exited with 0"),
        ("exit 3", "exited with 3"),
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -11 $$", "killed by SIGSEGV"),
        ("kill -34 $$", "killed by SIGRTMIN"),
    ],
)
def test_an_exit_makes_the_descriptor_readable_and_has_one_status(
    watch_method: str, script: str, text: str
) -> None:
    watch = ExitWatch(spawn("/bin/sh", "-c", script))
    assert wait_for_exit(watch)
    assert str(watch.peek()) == str(watch.peek()) == text
    process_info = read_process(watch.pid)
    # `peek` does not reap the process: it is a zombie.
    assert process_info is not None and process_info.state == "Z"
    assert str(watch.reap()) == str(watch.reap()) == str(watch.peek()) == text
    assert is_gone(watch.pid)
    watch.signal(signal.SIGKILL)  # has no effect
    watch.signal_group(signal.SIGKILL)
    watch.close()


def test_a_running_process_has_no_status_and_can_be_signalled(watch_method: str) -> None:
    watch = ExitWatch(spawn("/bin/sleep", "100"))
    assert not select.select([watch.fd], [], [], 0)[0]
    assert watch.peek() is None and watch.reap() is None
    watch.signal(signal.SIGTERM)
    assert wait_for_exit(watch)
    assert str(watch.reap()) == "killed by SIGTERM"
    watch.close()


def test_a_process_group_is_signalled_after_its_leader_died(watch_method: str) -> None:
    reader, writer = os.pipe()
    script = (
        "import os, time\npid = os.fork()\nif pid: os.write(1, b'%d' % pid)\nelse: time.sleep(99)"
    )
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", script], stdout=writer, start_new_session=True
    )
    process.returncode = 0
    os.close(writer)
    watch = ExitWatch(process.pid)
    child_pid = int(os.read(reader, 100))
    os.close(reader)
    assert wait_for_exit(watch)
    assert is_running(child_pid)
    watch.signal_group(signal.SIGKILL)
    watch.reap()
    watch.close()

    async def wait_until_gone() -> None:
        await wait_until(lambda: not is_running(child_pid))

    asyncio.run(wait_until_gone())


def test_no_signal_is_sent_after_another_part_of_the_program_reaped_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = ExitWatch(spawn("/bin/true"))
    assert wait_for_exit(watch)
    os.waitpid(watch.pid, 0)
    assert watch.peek() == ExitStatus(None, None)
    assert "something else in this program" in str(watch.peek())
    # The pid may belong to another process group by now.
    signalled_groups: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: signalled_groups.append(pid))
    watch.signal_group(signal.SIGKILL)
    assert signalled_groups == []
    watch.close()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (ExitStatus(0, None), "exited with 0"),
        (ExitStatus(1, None), "exited with 1"),
        (ExitStatus(126, None), "exited with 126 (a shell or env could not execute the command)"),
        (ExitStatus(127, None), "exited with 127 (a shell or env did not find the command)"),
        (ExitStatus(128, None), "exited with 128"),
        (ExitStatus(139, None), "exited with 139 (its program was killed by SIGSEGV)"),
        (ExitStatus(255, None), "exited with 255"),
        (ExitStatus(None, 6), "killed by SIGABRT"),
        (ExitStatus(None, 63), "killed by signal 63"),
    ],
)
def test_the_text_of_an_exit_status(status: ExitStatus, text: str) -> None:
    assert str(status) == text


def test_without_pidfds_a_thread_waits_and_ends_with_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    before = threading.active_count()
    child = Child(LaunchPlan(argv=("/bin/cat",)))
    assert threading.active_count() == before + 1
    child.close_stdin()
    select.select([child.exit_fd], [], [], 40)
    child.reap()
    child.close_outputs()
    assert threading.active_count() == before
    assert str(child.status) == "exited with 0"


@pytest.mark.both_loops
async def test_a_session_works_without_pidfds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    async with hostile_extension(lifetime="plain") as ext:
        grandchild = await ext.call("grandchild")
        kept_call = asyncio.ensure_future(error_of(ext.call("keep")))
        error = await error_of(ext.call("leave", {"code": 5}))
        assert error.evidence.exit == (await kept_call).evidence.exit == "exited with 5"
        await wait_until(lambda: not is_running(grandchild))
        check_call_counts(ext, 3, result=1, gone=2)
    async with hostile_extension(lifetime="plain") as extension:
        pid = await extension.call("pid")
    assert is_gone(pid)
