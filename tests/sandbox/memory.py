"""Trials of limits that no single process exceeds: files in memory, shared memory, buffers, and the
processor time of ended processes.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. The code
below runs in a sandboxed extension (`explore`), with the dict `facts`. `check_ended(reason, code,
facts)` checks that the host ends the extension and names this reason.
"""

import platform
import textwrap

from exthost.errors import ExtensionGone
from exthost.process import cgroups
from tests.sandbox.confined import explore, started_explorer
from tests.sandbox.resources import MEMORY, check_ended
from tests.sandbox.trials import trial

WITH_MEMORY_LIMIT = {"permissions": {"max_memory": MEMORY}}

# Code whose first thread ends while another thread allocates memory.
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

# Code that writes to a file until its file system is full.
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

# Code that makes each of these system calls and returns the errors.
TRY_CALLS = """
    import ctypes, errno, platform
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = {"x86_64": facts["x86_64"], "aarch64": facts["aarch64"]}[platform.machine()]
    result = {}
    for name, number in numbers.items():
        done = libc.syscall(number, 0, 2**20, 0o1600)
        result[name] = "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
"""


# Code that allocates shared memory and makes it non-resident in the way of `facts["hide"]`.
SHARED = """
    import ctypes, mmap, os, time
    zeros = os.open("/dev/zero", os.O_RDWR) if facts["hide"] == "device" else -1
    libc = ctypes.CDLL(None, use_errno=True)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    size, kept, total = facts["size"], [], 0
    while total < 2**31:
        memory = mmap.mmap(zeros, size)
        kept.append(memory)
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1
        total += size
        if facts["hide"] == "unmap":  # all except its first page, which keeps the rest
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            assert libc.munmap(address + mmap.PAGESIZE, size - mmap.PAGESIZE) == 0
        else:
            memory.madvise(mmap.MADV_DONTNEED)
        if facts["hide"] == "child" and os.fork():
            kept.clear()
            memory.close()
            time.sleep(60)  # a child goes on with it
    result = total
    os.write(2, b"it was not ended\\n")
    os._exit(1)
"""

# Code whose first thread ends. Another thread fills the private file systems or opens sockets.
ZOMBIE_FILLS = """
    import ctypes, os, socket, threading, time
    def fill():
        time.sleep(0.2)
        for place in ("/tmp", "/dev/shm"):
            with open(place + "/large", "wb", buffering=0) as file:
                for _ in range(facts["size"] * 3 // 4 // 2**20):
                    file.write(b"x" * 2**20)
        time.sleep(60)
    def connect():
        time.sleep(0.2)
        for _ in range(20):
            if os.fork() == 0:
                pairs = [socket.socketpair() for _ in range(50)]
                time.sleep(60)
        time.sleep(60)
    threading.Thread(target={"fill": fill, "connect": connect}[facts["what"]]).start()
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[facts["machine"]], 0)
"""


@trial
async def a_hog_whose_first_thread_has_ended_is_ended() -> None:
    facts = {"machine": platform.machine()}
    await check_ended("max_memory is 64 MiB", ZOMBIE_LEADER, facts, **WITH_MEMORY_LIMIT)


@trial
async def shared_memory_that_is_not_resident_counts() -> None:
    for hide in ("forget", "device", "child"):
        facts = {"hide": hide, "size": 8 * 2**20}
        await check_ended("max_memory is 64 MiB", SHARED, facts, **WITH_MEMORY_LIMIT)


@trial
async def shared_memory_of_which_only_a_part_is_mapped_counts() -> None:
    for size in (64 * 1024, 2**20, 32 * 2**20):
        facts = {"hide": "unmap", "size": size}
        await check_ended("max_memory is 64 MiB", SHARED, facts, **WITH_MEMORY_LIMIT)


@trial
async def shared_memory_within_the_limit_is_left_alone() -> None:
    code = """
        import mmap, os
        shared = mmap.mmap(-1, facts["size"])
        children = []
        for number in range(3):
            child = os.fork()
            if child == 0:
                for page in range(0, facts["size"], mmap.PAGESIZE):
                    shared[page + number] = 1
                os._exit(0)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
        small = [mmap.mmap(-1, 4096) for _ in range(200)]
        result = [sum(codes), list(shared[:3])]
    """
    async with started_explorer(permissions={"max_memory": 256 * 2**20}) as ext:
        for _ in range(5):
            assert await explore(ext, code, size=16 * 2**20) == [0, [1, 1, 1]]


@trial
async def files_and_sockets_count_after_the_first_thread_has_ended() -> None:
    if "memory" in cgroups.find_base().controllers:
        return  # the kernel counts this memory
    facts = {"machine": platform.machine(), "what": "fill", "size": MEMORY}
    await check_ended("max_memory is 64 MiB", ZOMBIE_FILLS, facts, **WITH_MEMORY_LIMIT)
    facts["what"] = "connect"
    limited_to_256_mib = {"permissions": {"max_memory": 256 * 2**20}}
    await check_ended(
        "sockets, whose buffers are memory", ZOMBIE_FILLS, facts, **limited_to_256_mib
    )


@trial
async def files_in_private_mounts_count_as_memory() -> None:
    half = 'with open("/dev/shm/one", "wb") as file: file.write(b"x" * facts["half"])\n'
    for path in ("/tmp/two", "/dev/shm/two"):
        facts = {"path": path, "linger": 30, "half": MEMORY // 2}
        await check_ended(
            "max_memory is 64 MiB", half + textwrap.dedent(FILL), facts, **WITH_MEMORY_LIMIT
        )


@trial
async def private_mounts_have_a_size_without_a_limit_too() -> None:
    async with started_explorer() as ext:
        for path in ("/tmp/large", "/dev/shm/large"):
            outcome = await explore(ext, FILL, path=path, linger=0)
            assert outcome == "No space left on device", outcome


@trial
async def devices_cannot_contain_files() -> None:
    works = """
        open("/dev/null", "wb").write(b"x")
        result = len(open("/dev/urandom", "rb").read(9))
    """
    async with started_explorer() as ext:
        assert "Read-only" in str(await explore(ext, 'open("/dev/large", "wb")'))
        assert await explore(ext, works) == 9


@trial
async def memory_that_belongs_to_no_process_cannot_be_had() -> None:
    facts = {
        "x86_64": {"memfd_create": 319, "memfd_secret": 447, "shmget": 29, "msgget": 68},
        "aarch64": {"memfd_create": 279, "memfd_secret": 447, "shmget": 194, "msgget": 186},
    }
    async with started_explorer() as ext:
        outcomes = await explore(ext, TRY_CALLS, **facts)
        assert set(outcomes.values()) == {"ENOSYS"}, outcomes


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
    async with started_explorer(**WITH_MEMORY_LIMIT) as ext:
        total, max_descriptors = await explore(ext, code)
        assert total < MEMORY and max_descriptors == 128, (total, max_descriptors)
    async with started_explorer() as ext:
        _, max_descriptors = await explore(ext, code)
        assert max_descriptors == 1024


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
        limited_to_256_mib = {"permissions": {"max_memory": 256 * 2**20}}
        await check_ended("sockets, whose buffers are memory", code, {}, **limited_to_256_mib)


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
    error = await check_ended("limits.cpu is 1 s", code, {}, limits={"cpu": "1s"})
    assert isinstance(error, ExtensionGone)


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
    await check_ended("limits.cpu is 1 s", code, {}, limits={"cpu": "1s"})


# Code that starts children without waiting for them, each with `facts["seconds"]` of processor
# time, until they have used far more than the limit. `facts["how"]` is the way in which the kernel
# does not add their time to the time of the parent.
UNWAITED = """
    import ctypes, os, signal, time
    def burn():
        until = time.process_time() + facts["seconds"]
        while time.process_time() < until:
            pass
    if facts["how"] == "ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    elif facts["how"] == "flag":  # SA_NOCLDWAIT, with a handler that is not SIG_IGN
        class Action(ctypes.Structure):
            _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_char * 128)]
            _fields_ += [("flags", ctypes.c_int), ("restorer", ctypes.c_void_p)]
        action = Action(0, bytes(128), 2, None)
        assert ctypes.CDLL(None).sigaction(signal.SIGCHLD, ctypes.byref(action), None) == 0
    spent = 0.0
    while spent < facts["most"]:
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            if facts["how"] != "orphans" or os.fork() == 0:
                burn()
            os._exit(0)
        os.close(writing)
        os.read(reading, 1)  # the child has ended
        os.close(reading)
        spent += facts["seconds"]
    result = spent
    os.write(2, b"it was not ended\\n")
    os._exit(1)
"""


async def check_children_are_counted(way: str, seconds: float) -> None:
    """Check that children which are not waited for, in this way, count with their time."""
    facts = {"how": way, "seconds": seconds, "most": 8}
    limits = {"cpu": "1s", "call": "80s"}
    await check_ended("limits.cpu is 1 s", UNWAITED, facts, limits=limits)


@trial
async def processor_time_of_children_that_end_by_themselves_counts() -> None:
    await check_children_are_counted("ignored", 0.3)
    await check_children_are_counted("flag", 0.02)


@trial
async def processor_time_of_children_too_short_to_be_seen_counts() -> None:
    await check_children_are_counted("ignored", 0.002)


@trial
async def processor_time_of_unreaped_children_counts() -> None:
    await check_children_are_counted("zombies", 0.05)
    await check_children_are_counted("orphans", 0.01)


@trial
async def processor_time_of_children_that_are_waited_for_is_not_counted_twice() -> None:
    code = """
        import os, time
        spent = 0.0
        while spent < 2:
            pid = os.fork()
            if pid == 0:
                until = time.process_time() + 0.002
                while time.process_time() < until:
                    pass
                os._exit(0)
            spent += sum(os.wait4(pid, 0)[2][:2])
        result = spent
    """
    async with started_explorer(limits={"cpu": "6s", "call": "80s"}) as ext:
        assert await explore(ext, code) >= 2
        assert await ext.call("echo", 1) == 1
