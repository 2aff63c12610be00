"""Sandbox trials: what an extension may do to the kernel, the host and its siblings."""

import asyncio
import io
import logging
import os
import sys
import tempfile
import uuid
from pathlib import Path

import exthost
from exthost.errors import Refused
from exthost.events import EVERYTHING, Bus
from tests.extensions.driving import pid_of
from tests.sandbox.confined import EXPLORER, explore, exploring, folder
from tests.sandbox.trial_host import impatient
from tests.sandbox.trials import trial


@trial
async def remounting_and_core_pattern_are_denied() -> None:
    async with exploring() as ext:
        tried = await explore(
            ext,
            """
            import ctypes, errno, os
            libc = ctypes.CDLL(None, use_errno=True)
            def outcome(got):
                return "done" if got == 0 else errno.errorcode[ctypes.get_errno()]
            result = {
                "remount": outcome(libc.mount(b"none", b"/usr", None, 32 | 4096, None)),
                "tmpfs": outcome(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None)),
                "umount": outcome(libc.umount2(b"/usr", 2)),
            }
            for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches",
                         "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe"):
                try:
                    os.close(os.open(path, os.O_WRONLY))
                    result[path] = "opened"
                except OSError as error:
                    result[path] = errno.errorcode[error.errno]
            """,
        )
        assert not {"done", "opened"} & set(tried.values()), tried


@trial
async def it_holds_no_capability_and_can_gain_none() -> None:
    async with exploring() as ext:
        code = """
            result = {}
            for line in open("/proc/self/status"):
                key, _, value = line.partition(":")
                result[key] = value.strip()
        """
        status = await explore(ext, code)
        for key in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"):
            assert int(status[key], 16) == 0, (key, status[key])
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


@trial
async def a_nested_user_namespace_and_setuid_gain_nothing() -> None:
    with folder() as place:
        setuid = place / "id"
        setuid.write_bytes(Path("/usr/bin/id").resolve().read_bytes())
        setuid.chmod(0o4755)
        place.chmod(0o755)
        async with exploring(permissions={"filesystem": [str(place)]}) as ext:
            code = """
                import ctypes, errno, os, subprocess
                libc = ctypes.CDLL(None, use_errno=True)
                def outcome(got):
                    return "done" if got == 0 else errno.errorcode[ctypes.get_errno()]
                result = {"unshare": outcome(libc.unshare(0x10000000))}
                # clone(CLONE_NEWUSER) through the library: fork would be SIGCHLD alone
                number = 56 if os.uname().machine == "x86_64" else 220
                got = libc.syscall(number, 0x10000000 | 17, 0, 0, 0, 0)
                if got == 0:
                    os._exit(0)
                result["clone"] = "done" if got > 0 else errno.errorcode[ctypes.get_errno()]
                result["setuid"] = subprocess.check_output([facts["id"], "-u"], text=True).strip()
                result["uid"] = str(os.getuid())
                result["cap"] = outcome(libc.setuid(0)) if os.getuid() else "EPERM"
            """
            told = await explore(ext, code, id=str(setuid))
            assert told["unshare"] == "EPERM" and told["clone"] != "done", told
            assert told["setuid"] == told["uid"] and told["cap"] != "done", told


@trial
async def a_secret_of_the_host_is_in_no_environment() -> None:
    secret = uuid.uuid4().hex
    os.environ["HOST_SECRET"] = secret  # held back by every policy, by its name
    os.environ["SHARED"] = "passed"
    try:
        async with exploring(env={"DECLARED": "yes"}) as ext:
            code = """
                import glob, os
                seen = {}
                for path in glob.glob("/proc/*/environ"):
                    try:
                        seen[path] = open(path, errors="replace").read()
                    except OSError as error:
                        seen[path] = type(error).__name__
                result = {"all": "".join(seen.values()), "mine": dict(os.environ)}
            """
            told = await explore(ext, code)
            assert secret not in told["all"] and "HOST_SECRET" not in told["mine"]
            assert told["mine"]["DECLARED"] == "yes" and told["mine"]["SHARED"] == "passed"
            expected = {*ext.environment.passed, *ext.environment.configured}
            assert set(told["mine"]) == expected, set(told["mine"]) ^ expected
    finally:
        del os.environ["HOST_SECRET"], os.environ["SHARED"]


@trial
async def it_has_exactly_three_descriptors() -> None:
    extra = os.open("/", os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        async with exploring() as ext:
            code = """
                import os
                fds = []
                for fd in range(1024):
                    try:
                        os.fstat(fd)
                        fds.append(fd)
                    except OSError:
                        pass
                result = fds
            """
            assert await explore(ext, code) == [0, 1, 2]
    finally:
        os.close(extra)


@trial
async def it_cannot_signal_or_trace_the_host_or_a_sibling() -> None:
    async with exploring() as one, exploring() as other:
        code = """
            import ctypes, os, signal
            libc = ctypes.CDLL(None, use_errno=True)
            result = {"pids": sorted(int(n) for n in os.listdir("/proc") if n.isdigit())}
            for pid in facts["pids"]:
                try:
                    os.kill(pid, 0)
                    result[pid] = "reached"
                except ProcessLookupError:
                    result[pid] = "none"
                result[f"trace {pid}"] = "done" if libc.ptrace(16, pid, 0, 0) == 0 else "none"
            try:
                os.kill(-1, signal.SIGKILL)
            except OSError:
                pass
        """
        pids = [os.getpid(), pid_of(other), pid_of(one)]
        told = await explore(one, code, pids=[pid for pid in pids if pid > 3])
        assert told.pop("pids") == [1, 2], "it sees its own first process and itself"
        assert set(told.values()) == {"none"}, told
        assert await explore(other, "result = 'here'") == "here"


@trial
async def its_first_process_cannot_be_traced_or_read() -> None:
    async with exploring() as ext:
        code = """
            import ctypes, errno, os
            libc = ctypes.CDLL(None, use_errno=True)
            got = libc.ptrace(16, 1, 0, 0)
            result = {"trace": "done" if got == 0 else errno.errorcode[ctypes.get_errno()]}
            for name in ("mem", "environ", "root/etc", "cwd/etc", *(f"fd/{n}" for n in range(64))):
                try:
                    os.close(os.open(f"/proc/1/{name}", os.O_RDONLY))
                    result[name] = "opened"
                except OSError as error:
                    result[name] = errno.errorcode[error.errno]
        """
        told = await explore(ext, code)
        assert not {"done", "opened"} & set(told.values()), told


@trial
async def root_gives_up_its_uid_where_the_program_can_be_reached_without() -> None:
    python = "/usr/bin/python3"
    with tempfile.TemporaryDirectory(prefix="exthost-open-", dir="/var/tmp") as name:
        place = Path(name)
        place.chmod(0o755)
        copy = place / "explorer.py"
        copy.write_bytes(Path(EXPLORER[-1]).read_bytes())
        copy.chmod(0o644)
        words = [python, "-S", "-E", str(copy)]
        async with impatient(words, cwd=str(place), permissions={}) as ext:
            uid = await explore(ext, "import os; result = os.getuid()")
        assert uid == (65534 if os.geteuid() == 0 else os.geteuid())


@trial
async def a_secret_by_reference_reaches_its_extension_and_is_told_nowhere() -> None:
    secret = f"hunter2-{uuid.uuid4().hex}"
    os.environ["HOST_API_KEY"] = secret
    bus, said = Bus(), list[str]()
    bus.subscribe(EVERYTHING, lambda event: said.append(repr(event)))
    records = logging.StreamHandler(heard := io.StringIO())
    logging.getLogger("exthost").addHandler(records)
    logging.getLogger("exthost").setLevel(logging.DEBUG)
    try:
        env = {"TOKEN": {"from": "HOST_API_KEY"}}
        async with exthost.connect(EXPLORER, permissions={}, env=env, events=bus) as ext:
            code = "import os; result = os.environ['TOKEN']"
            assert await explore(ext, code) == secret
            line = Path(f"/proc/{pid_of(ext)}/cmdline").read_text()
            told = [repr(ext), repr(ext.spec), repr(ext.environment), repr(ext.enforced), line]
        assert any(one.startswith("Spawned") for one in said)
        assert secret not in "".join((*told, *said, heard.getvalue()))
    finally:
        logging.getLogger("exthost").removeHandler(records)
        logging.getLogger("exthost").setLevel(logging.NOTSET)
        del os.environ["HOST_API_KEY"]
    try:
        async with exthost.connect(EXPLORER, env={"TOKEN": {"from": "NOT_SET_ANYWHERE"}}):
            raise AssertionError("it was started without its secret")
    except Refused as refused:
        assert refused.code == "X0388" and "NOT_SET_ANYWHERE" in refused.message


HARDENED = """
import asyncio, os, sys, exthost
from tests.sandbox.confined import EXPLORER, explore

async def main():
    exthost.Host(harden=True)
    settings = {"lifetime": "plain", "restart": {"strategy": "never"}}
    async with exthost.connect(EXPLORER, **settings) as ext:
        code = "result = open('/proc/%d/environ' % facts['pid']).read()"
        print(await explore(ext, code, pid=os.getpid()))

asyncio.run(main())
"""


@trial
async def a_hardened_host_cannot_be_read_by_what_it_runs_unsandboxed() -> None:
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HARDENED),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "HOST_SECRET": "in-the-hosts-environment"},
    )
    said, _ = await host.communicate()
    assert host.returncode == 0
    if os.geteuid() == 0:  # who may do everything may do this
        assert b"in-the-hosts-environment" in said
    else:
        assert b"PermissionError" in said and b"in-the-hosts-environment" not in said
