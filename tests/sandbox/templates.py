"""Sandbox trials: hostile code in a template.

A template is a process that has imported the modules of an extension (`start_method = "template"`).
Each start is a fork of it, which then joins a sandbox. So code of these modules runs in the
template, beside the processes that make the sandboxes of later starts. In each trial (a test that
runs as root and as an ordinary user) such a module tries to see or change more than the extension
may. Its attempts are text here, because they run in the extension.
"""

import asyncio
import os
import textwrap
import time
import venv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.process.procfs import descendants
from tests.extensions.harness import wait_until
from tests.sandbox.confined import folder
from tests.sandbox.trial_host import started_extension
from tests.sandbox.trials import trial

# The number of starts that the hostile code watches.
RESTARTS = 4

# A module that notes in shared memory what it could do. `watch` runs in another process of the
# template, and looks at all processes that it can see. `use_rights` runs in each process that has
# joined a sandbox, before it gives up its rights: the template calls os.chdir at that moment.
INTRUDER = '''
import ctypes, mmap, os, stat, time

CANARY = {canary!r}
READ_ONLY = {read_only!r}
libc = ctypes.CDLL(None, use_errno=True)
board = None
NEW_NAMESPACES = (0x10000000, 0x00020000, 0x40000000, 0x20000000)  # user, mnt, net, pid

def note(text):
    """Add a line to the notes, once. One of two notes at the same moment may be lost."""
    line = text.encode()[:500] + b"\\n"
    if board.find(line) < 0:
        end = board.find(b"\\0")
        board[end:end + len(line)] = line

def attempt(name, work, *arguments):
    try:
        work(*arguments)
    except OSError:
        return
    note("DONE " + name)

def system_call(function, *arguments):
    if function(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "denied")

def look_at(pid):
    with open("/proc/%s/comm" % pid) as file:
        name = file.read().strip()
    attempt("read through root of " + name, open, "/proc/%s/root%s" % (pid, CANARY))
    attempt("read through cwd of " + name, open, "/proc/%s/cwd/../../../../../..%s" % (pid, CANARY))
    if name != "exthost-init":
        return
    note("SAW " + name)
    for kind in ("user", "mnt"):
        attempt("opened namespace of " + name, os.open, "/proc/%s/ns/%s" % (pid, kind), 0)
    attempt("opened memory of " + name, os.open, "/proc/%s/mem" % pid, os.O_RDWR)
    attempt("read environment of " + name, lambda: os.read(os.open("/proc/%s/environ" % pid, 0), 9))
    for fd in os.listdir("/proc/%s/fd" % pid):
        attempt("opened a descriptor of " + name, os.open, "/proc/%s/fd/%s" % (pid, fd), 0)

def watch():
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for pid in os.listdir("/proc"):
            if pid.isdigit() and int(pid) != os.getpid():
                try:
                    look_at(pid)
                except OSError:
                    pass

def use_rights():
    """Try what a process with all capabilities in its user namespace could do."""
    with open("/proc/self/status") as file:
        if "CapEff:\\t0000000000000000" not in file.read():
            note("HAD RIGHTS")
    attempt("read a file of the host", open, CANARY)
    attempt("mount", system_call, libc.mount, b"t", b"/tmp", b"tmpfs", 0, None)
    # MS_BIND | MS_REMOUNT: without MS_RDONLY, the folder would become writable.
    attempt("remount", system_call, libc.mount, None, READ_ONLY.encode(), None, 0x1020, None)
    for path in (b"/proc", b"/tmp", b"/", READ_ONLY.encode()):
        attempt("umount", system_call, libc.umount2, path, 2)
    for flag in NEW_NAMESPACES:
        attempt("unshare", system_call, libc.unshare, flag)
    attempt("write a setting of the kernel", open, "/proc/sys/kernel/core_pattern", "w")
    attempt("write a setting of the kernel", open, "/proc/sys/vm/overcommit_memory", "w")
    attempt("write a read-only file", open, READ_ONLY + "/file", "w")
    attempt("write the root", open, "/planted", "w")
    attempt("make a device", os.mknod, "/tmp/device", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    attempt("pivot", system_call, libc.syscall, 155, b"/tmp", b"/tmp")

change_folder = os.chdir

def chdir(path):
    change_folder(path)
    use_rights()

os.chdir = chdir

def begin():
    """Share memory when the template forks its first process. It leaves out a module that does so
    when it is imported."""
    global board
    if board is None:
        board = mmap.mmap(-1, 1 << 20)
        if os.fork() == 0:
            watch()
            os._exit(0)

os.register_at_fork(before=begin)
'''

# A module whose process in the template stops our init of each start, and the processes around it.
STOPPER = """
import os, signal, time

if os.fork() == 0:
    while not os.path.exists({armed!r}):
        time.sleep(0.005)
    while True:
        for pid in os.listdir("/proc"):
            if pid.isdigit() and pid != "1":
                try:
                    with open("/proc/%s/comm" % pid) as file:
                        if file.read() == "exthost-init\\n":
                            os.kill(int(pid), signal.SIGSTOP)
                except OSError:
                    pass
        time.sleep(0.001)
"""

# A program that imports that module. Its processes together use more processor time than they may,
# and each of them less, so that the host has to end them.
GREEDY_PROGRAM = """
import intruder, json, os, sys, time
def compute():
    for _ in range(4):
        if os.fork() == 0:
            while time.process_time() < 1.5:
                pass
            time.sleep(60)
            os._exit(0)
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "compute":
        compute()
    print(json.dumps({"id": request["id"], "result": []}), flush=True)
"""

# A module that writes to the file of each start, whose memory no limit counts.
HOARDER = """
import mmap, os

board = None
fork = os.fork

def hoard():
    global board
    board = board or mmap.mmap(-1, 1 << 20)  # not when it is imported: it would be left out
    pid = fork()
    if pid == 0:
        for name in os.listdir("/proc/self/fd"):
            try:
                if "memfd:exthost-" in os.readlink("/proc/self/fd/" + name):
                    board[0:4] = b"SAW\\n"
                    os.pwrite(int(name), b"x", 16 * 2**20)
                    board[4:9] = b"DONE\\n"
            except OSError:
                pass
    return pid

os.fork = hoard
"""

# A module that replaces the report of the template by one with many slow paths. {read_only}/link
# leads through many symbolic links.
SLOW_REPORT = """
import os

write = os.write

def replace(fd, data):
    if fd != 1 or not data.startswith(b'{{"modules"'):
        return write(fd, data)
    status = os.stat({read_only!r} + "/link")
    numbers = "[%d,%d,%d]" % (status.st_dev, status.st_ino, status.st_mtime_ns)
    paths = ('"%s%slink":%s' % ({read_only!r}, "/" * i, numbers) for i in range(1, 2000))
    names = '"modules":1,"faults":{{}},"missing":{{}},"reads":{{}}'
    text = ("{{%s,\\"files\\":{{%s}}}}\\n" % (names, ",".join(paths))).encode()
    while text:
        text = text[write(1, text):]
    return len(data)

os.write = replace
"""

# A module whose templates report new names each time.
NEW_FAULTS = """
import os

write = os.write

def replace(fd, data):
    if fd != 1 or not data.startswith(b'{{"modules"'):
        return write(fd, data)
    tag = os.urandom(8).hex()
    faults = ",".join('"m%s%d":"fault"' % (tag, i) for i in range(1500))
    rest = '"missing":{{}},"reads":{{}},"files":{{}}'
    text = ('{{"modules":1,"faults":{{%s}},%s}}\\n' % (faults, rest)).encode()
    while text:
        text = text[write(1, text):]
    return len(data)

os.write = replace
"""

# A program that imports the module, and reports its notes and what it can see itself.
PROGRAM = """
import intruder, json, os, sys
files = os.listdir("/tmp")
open("/tmp/left-behind", "w").close()
terminal = os.openpty()
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] != "report":
        print(json.dumps({"id": request["id"], "result": []}), flush=True)
        continue
    notes = intruder.board[:intruder.board.find(b"\\0")].decode().split("\\n")
    with open("/proc/self/status") as file:
        status = [line.split() for line in file]
    result = {"notes": notes, "status": {words[0]: words[1:] for words in status}}
    result["tmp"] = files
    result["terminals"] = [name for name in os.listdir("/dev/pts") if name.isdigit()]
    with open("/proc/1/net/dev") as file:
        result["interfaces"] = [line.split(":")[0].strip() for line in file if ":" in line]
    result["pids"] = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    sys.stdout.write(json.dumps({"id": request["id"], "result": result}) + "\\n")
    sys.stdout.flush()
"""


@asynccontextmanager
async def started_with_hostile_module(
    module: str = INTRUDER, code: str = PROGRAM, **settings: Any
) -> AsyncIterator[Extension]:
    """Start a sandboxed extension whose template has imported the hostile module. The module waits
    for `arm` with what must not begin too early."""
    with folder() as place:
        place.chmod(0o755)
        canary, read_only = place / "canary", place / "granted"
        canary.write_text("a file that is not granted")
        read_only.mkdir()
        (read_only / "file").write_text("granted")
        environment = place / "environment"
        venv.create(environment, symlinks=True, with_pip=False)
        (packages,) = environment.glob("lib/python3*/site-packages")
        text = module.format(
            canary=str(canary), read_only=str(read_only), armed=str(read_only / "ARMED")
        )
        (packages / "intruder.py").write_text(text)
        program = place / "program" / "program.py"
        program.parent.mkdir()
        program.write_text(textwrap.dedent(code))
        argv = [str(environment / "bin" / "python"), str(program)]
        permissions = {"filesystem": [str(read_only)], **settings.pop("permissions", {})}
        async with started_extension(
            argv, permissions=permissions, start_method="template", **settings
        ) as extension:
            yield extension


def granted_folder(extension: Extension) -> Path:
    permissions = extension.spec.permissions
    assert permissions is not None
    return Path(permissions.filesystem[0])


def arm(extension: Extension) -> None:
    """Let the hostile module begin."""
    (granted_folder(extension) / "ARMED").touch()


def has_stopped_init() -> bool:
    """Return whether one of our inits below this process was stopped by a signal."""
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # it has ended meanwhile
            name, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            if name.endswith("(exthost-init") and fields.split()[0] == "T":
                return True
    return False


async def restart_from_template(extension: Extension) -> None:
    """Restart the extension from a template that has imported the modules of its last run."""
    templates = extension._starter.templates
    assert templates is not None
    learned = templates._learned
    assert learned is not None
    # In a pool, another process can be ready before the one that records its modules.
    await wait_until(lambda: templates._is_recorded or bool(learned.modules))
    templates._learn(extension._starter.prepared().plan)  # now, not some time after the start
    await extension.restart()
    assert templates.last.method == "template", templates.last


@trial
async def code_in_a_template_gets_no_more_than_the_extension() -> None:
    async with started_with_hostile_module() as extension:
        for _ in range(RESTARTS):
            await restart_from_template(extension)
        report = await extension.call("report")
    notes = report["notes"]
    assert "SAW exthost-init" in notes, notes[-20:]
    assert "HAD RIGHTS" in notes, notes[-20:]
    assert not [line for line in notes if line.startswith("DONE")], notes[-20:]


@trial
async def code_in_a_template_cannot_keep_a_process_beyond_its_limits() -> None:
    settings = {"limits": {"cpu": 2}, "restart": {"strategy": "never"}}
    async with started_with_hostile_module(STOPPER, GREEDY_PROGRAM, **settings) as extension:
        await restart_from_template(extension)
        arm(extension)
        await wait_until(has_stopped_init)
        await extension.call("compute")
        await wait_until(lambda: extension.state != "ready", 40)


@trial
async def code_in_a_template_cannot_survive_by_stopping_a_start() -> None:
    before = set(descendants(os.getpid()))
    async with started_with_hostile_module(
        STOPPER, GREEDY_PROGRAM, limits={"start": 2}
    ) as extension:
        await restart_from_template(extension)
        arm(extension)
        await wait_until(has_stopped_init)
        with suppress(ExthostError):
            await extension.restart()
    remaining = set(descendants(os.getpid())) - before
    assert not remaining, remaining


@trial
async def code_in_a_template_gets_no_memory_that_no_limit_counts() -> None:
    async with started_with_hostile_module(HOARDER) as extension:
        await restart_from_template(extension)
        notes = (await extension.call("report"))["notes"]
    assert "SAW" in notes and "DONE" not in notes, notes


@trial
async def the_report_of_a_template_cannot_hold_up_the_host() -> None:
    async with started_with_hostile_module(SLOW_REPORT) as extension:
        granted = granted_folder(extension)
        for number in range(18):  # the kernel follows 40, and counts some twice
            target = f"link{number - 1}" if number else "file"
            (granted / f"link{number}").symlink_to("./" * 1900 + target)
        (granted / "link").symlink_to("link17")
        templates = extension._starter.templates
        assert templates is not None
        templates._learn(extension._starter.prepared().plan)
        slowest, last = 0.0, time.monotonic()
        restart = asyncio.ensure_future(extension.restart())
        while not restart.done():
            await asyncio.sleep(0.01)
            slowest, last = max(slowest, time.monotonic() - last), time.monotonic()
        await restart
    assert slowest < 3, slowest


@trial
async def the_reports_of_templates_do_not_fill_the_memory_of_the_host() -> None:
    async with started_with_hostile_module(NEW_FAULTS) as extension:
        templates = extension._starter.templates
        assert templates is not None
        templates._learn(extension._starter.prepared().plan)
        for _ in range(2):
            await extension.restart()
            await wait_until(lambda: templates._building is None)
        assert templates._learned is not None
        count = len(templates._learned.refused)
    assert 0 < count <= 2000, count


@trial
async def a_process_of_a_template_has_its_own_pids_and_private_files() -> None:
    async with started_with_hostile_module(pool={"min": 2, "max": 2}) as extension:
        await restart_from_template(extension)
        reports = [await extension.call("report") for _ in range(2)]
        await extension.restart()
        reports.append(await extension.call("report"))
    for report in reports:
        assert report["interfaces"] == ["lo"], report["interfaces"]  # as our init has them
        assert report["terminals"] == ["0"], report["terminals"]
        status = report["status"]
        assert {status[name][0] for name in ("CapEff:", "CapPrm:", "CapBnd:")} == {"0" * 16}
        assert status["NoNewPrivs:"] == ["1"] and status["Seccomp:"] == ["2"]
        assert len(report["pids"]) == 2, report["pids"]  # our init and the program
        assert "left-behind" not in report["tmp"], report["tmp"]
