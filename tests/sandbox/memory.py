"""Trials of what a limit on one process misses: files in memory, buffers, ended processes."""

import platform
import textwrap

from exthost.errors import ExtensionGone
from exthost.process import cgroups
from tests.sandbox.confined import explore, exploring
from tests.sandbox.resources import MEMORY, ended_for
from tests.sandbox.trials import trial

LIMITED = {"permissions": {"max_memory": MEMORY}}

ZOMBIE_LEADER = """
    import ctypes, threading, time
    def hoard():
        time.sleep(0.2)
        kept = []
        while True:
            kept.append(b"x" * 2**20)
            time.sleep(0.001)
    threading.Thread(target=hoard).start()
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[facts["machine"]], 0)
"""

FILL = """
    import time
    with open(facts["path"], "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 2**20)
        except OSError as error:
            result = error.strerror
    time.sleep(facts["linger"])
"""

TRY = """
    import ctypes, errno, platform
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = {"x86_64": facts["x86_64"], "aarch64": facts["aarch64"]}[platform.machine()]
    result = {}
    for name, number in numbers.items():
        done = libc.syscall(number, 0, 2**20, 0o1600)
        result[name] = "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
"""


@trial
async def a_hog_whose_first_thread_has_ended_is_ended() -> None:
    facts = {"machine": platform.machine()}
    await ended_for("max_memory is 64 MiB", ZOMBIE_LEADER, facts, **LIMITED)


@trial
async def files_in_private_mounts_count_as_memory() -> None:
    half = 'with open("/dev/shm/one", "wb") as file: file.write(b"x" * facts["half"])\n'
    for path in ("/tmp/two", "/dev/shm/two"):
        facts = {"path": path, "linger": 30, "half": MEMORY // 2}
        await ended_for("max_memory is 64 MiB", half + textwrap.dedent(FILL), facts, **LIMITED)


@trial
async def private_mounts_have_a_size_without_a_limit_too() -> None:
    async with exploring() as ext:
        for path in ("/tmp/large", "/dev/shm/large"):
            found = await explore(ext, FILL, path=path, linger=0)
            assert found == "No space left on device", found


@trial
async def devices_are_no_place_for_files() -> None:
    works = """
        open("/dev/null", "wb").write(b"x")
        result = len(open("/dev/urandom", "rb").read(9))
    """
    async with exploring() as ext:
        assert "Read-only" in str(await explore(ext, 'open("/dev/large", "wb")'))
        assert await explore(ext, works) == 9


@trial
async def memory_that_belongs_to_no_process_cannot_be_had() -> None:
    facts = {
        "x86_64": {"memfd_create": 319, "memfd_secret": 447, "shmget": 29, "msgget": 68},
        "aarch64": {"memfd_create": 279, "memfd_secret": 447, "shmget": 194, "msgget": 186},
    }
    async with exploring() as ext:
        found = await explore(ext, TRY, **facts)
        assert set(found.values()) == {"ENOSYS"}, found


@trial
async def buffers_of_sockets_are_bounded_by_the_number_of_descriptors() -> None:
    code = """
        import resource, socket
        pairs, total = [], 0
        try:
            while True:
                pairs.append(socket.socketpair())
                for end in pairs[-1]:
                    end.setblocking(False)
                    try:
                        while True:
                            total += end.send(b"x" * 65536)
                    except BlockingIOError:
                        pass
        except OSError:
            pass
        result = [total, resource.getrlimit(resource.RLIMIT_NOFILE)[1]]
    """
    async with exploring(**LIMITED) as ext:
        total, most = await explore(ext, code)
        assert total < MEMORY and most == 128, (total, most)
    async with exploring() as ext:
        _, most = await explore(ext, code)
        assert most == 1024


@trial
async def buffers_of_sockets_of_many_processes_are_bounded_together() -> None:
    # Twenty processes use less than 256 MiB, without the buffers of their sockets.
    code = """
        import os, socket, time
        for _ in range(20):
            if os.fork() == 0:
                pairs = []
                for _ in range(50):
                    pairs.append(socket.socketpair())
                    for end in pairs[-1]:
                        end.setblocking(False)
                        try:
                            while True:
                                end.send(b"x" * 65536)
                        except BlockingIOError:
                            pass
                time.sleep(60)
        time.sleep(60)
    """
    if "memory" not in cgroups.find_base().controllers:
        small = {"permissions": {"max_memory": 256 * 2**20}}
        await ended_for("sockets, whose buffers are memory", code, {}, **small)


@trial
async def processor_time_is_summed_over_all_processes() -> None:
    code = """
        import os, time
        while True:
            pid = os.fork()
            if pid == 0:
                until = time.process_time() + 0.3
                while time.process_time() < until:
                    pass
                os._exit(0)
            os.waitpid(pid, 0)
    """
    gone = await ended_for("limits.cpu is 1 s", code, {}, limits={"cpu": "1s"})
    assert isinstance(gone, ExtensionGone)


@trial
async def processor_time_of_orphans_counts_too() -> None:
    code = """
        import os, time
        for _ in range(20):
            reading, writing = os.pipe()
            if os.fork() == 0:
                if os.fork() == 0:
                    until = time.process_time() + 0.3
                    while time.process_time() < until:
                        pass
                os._exit(0)
            os.wait()
            os.close(writing)
            os.read(reading, 1)  # the orphan has ended: only those that have ended use too much
            os.close(reading)
    """
    await ended_for("limits.cpu is 1 s", code, {}, limits={"cpu": "1s"})
