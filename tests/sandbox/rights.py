"""Trials of the sandbox: an extension has no rights over the kernel, the host and other extensions.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. Its
attacks run in a sandboxed extension, the explorer: `explore(extension, code, **facts)` gives the
code the dict `facts`, and returns what it stores in `result`.
"""

import asyncio
import errno
import io
import itertools
import json
import logging
import os
import stat
import sys
import tempfile
import uuid
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import exthost
from exthost.config import spec_from_mapping
from exthost.errors import Refused
from exthost.events import EVERYTHING, Bus
from exthost.extension.extension import Extension
from exthost.host.api.store import Store
from exthost.process.procfs import descendants
from exthost.process.user_ids import user_id
from tests.extensions.harness import SHORT_SHUTDOWN, pid_of
from tests.sandbox.confined import (
    EXPLORER,
    explore,
    folder,
    shared_folder,
    started_explorer,
    system_explorer,
)
from tests.sandbox.trial_host import started_extension
from tests.sandbox.trials import trial


@trial
async def remounting_and_core_pattern_are_denied() -> None:
    async with started_explorer() as ext:
        outcomes = await explore(
            ext,
            """
            import ctypes, errno, os
            libc = ctypes.CDLL(None, use_errno=True)
            def outcome(got):
                return "done" if got == 0 else errno.errorcode[ctypes.get_errno()]
            result = {
                # MS_REMOUNT | MS_BIND: without MS_RDONLY, /usr would become writable.
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
        assert not {"done", "opened"} & set(outcomes.values()), outcomes


@trial
async def it_has_no_capability_and_can_gain_none() -> None:
    async with started_explorer() as ext:
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
        async with started_explorer(permissions={"filesystem": [str(place)]}) as ext:
            code = """
                import ctypes, errno, os, subprocess
                libc = ctypes.CDLL(None, use_errno=True)
                def outcome(got):
                    return "done" if got == 0 else errno.errorcode[ctypes.get_errno()]
                result = {"unshare": outcome(libc.unshare(0x10000000))}
                # clone(CLONE_NEWUSER | SIGCHLD), by its number. A fork has SIGCHLD alone.
                number = 56 if os.uname().machine == "x86_64" else 220
                got = libc.syscall(number, 0x10000000 | 17, 0, 0, 0, 0)
                if got == 0:
                    os._exit(0)
                result["clone"] = "done" if got > 0 else errno.errorcode[ctypes.get_errno()]
                result["setuid"] = subprocess.check_output([facts["id"], "-u"], text=True).strip()
                result["uid"] = str(os.getuid())
                result["cap"] = outcome(libc.setuid(0)) if os.getuid() else "EPERM"
            """
            report = await explore(ext, code, id=str(setuid))
            assert report["unshare"] == "EPERM" and report["clone"] != "done", report
            assert report["setuid"] == report["uid"] and report["cap"] != "done", report


@trial
async def a_secret_of_the_host_is_in_no_environment() -> None:
    secret = uuid.uuid4().hex
    os.environ["HOST_SECRET"] = secret  # withheld by every policy because of its name
    os.environ["SHARED"] = "passed"
    try:
        async with started_explorer(env={"DECLARED": "yes"}) as ext:
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
            report = await explore(ext, code)
            assert secret not in report["all"] and "HOST_SECRET" not in report["mine"]
            assert report["mine"]["DECLARED"] == "yes" and "SHARED" not in report["mine"]
            # Without LANG, Python itself sets LC_CTYPE.
            own_names = set(report["mine"]) - (
                {"LC_CTYPE"} if "LANG" not in report["mine"] else set()
            )
            assert own_names <= {"DECLARED", "PATH", "LANG", "HOME", "TMPDIR"}, own_names
            expected = {*ext.environment.passed, *ext.environment.configured}
            assert own_names == expected, own_names ^ expected
    finally:
        del os.environ["HOST_SECRET"], os.environ["SHARED"]


@trial
async def it_has_exactly_three_descriptors() -> None:
    inheritable_fd = os.open("/", os.O_RDONLY)
    os.set_inheritable(inheritable_fd, True)
    try:
        async with started_explorer() as ext:
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
        os.close(inheritable_fd)


@trial
async def it_cannot_signal_or_trace_the_host_or_a_sibling() -> None:
    async with started_explorer() as first, started_explorer() as sibling:
        code = """
            import ctypes, os, signal
            libc = ctypes.CDLL(None, use_errno=True)
            result = {"pids": {int(n) for n in os.listdir("/proc") if n.isdigit()}}
            result["pids"] = sorted(result["pids"] - {os.getpid()})
            for pid in facts["pids"]:
                try:
                    os.kill(pid, 0)
                    result[pid] = "reached"
                except ProcessLookupError:
                    result[pid] = "none"
                # 16 is PTRACE_ATTACH.
                result[f"trace {pid}"] = "done" if libc.ptrace(16, pid, 0, 0) == 0 else "none"
            try:
                os.kill(-1, signal.SIGKILL)
            except OSError:
                pass
        """
        pids = [os.getpid(), pid_of(sibling), pid_of(first)]
        report = await explore(first, code, pids=[pid for pid in pids if pid > 3])
        assert report.pop("pids") == [1], "it sees itself and the init process of its namespace"
        assert set(report.values()) == {"none"}, report
        assert await explore(sibling, "result = 'here'") == "here"


@trial
async def its_first_process_cannot_be_traced_or_read() -> None:
    async with started_explorer() as ext:
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
        report = await explore(ext, code)
        assert not {"done", "opened"} & set(report.values()), report


@trial
async def no_file_gets_the_set_user_id_bit() -> None:
    with shared_folder() as place:
        async with started_explorer(permissions={"filesystem": [f"{place}:rw"]}) as ext:
            outcomes = await explore(
                ext,
                """
                import ctypes, errno, os, shutil, stat, struct
                libc = ctypes.CDLL(None, use_errno=True)
                place, x86 = facts["place"], os.uname().machine == "x86_64"
                shutil.copy("/bin/sh", place + "/sh")
                os.chmod(place + "/sh", 0o755)
                fd = os.open(place + "/sh", os.O_RDONLY)
                def call(number, *arguments):
                    got = libc.syscall(ctypes.c_long(number), *arguments)
                    if got < 0:
                        raise OSError(ctypes.get_errno(), "")
                def path(name):
                    return (place + "/" + name).encode()
                creates = os.O_CREAT | os.O_WRONLY
                how = struct.pack("=QQQ", creates, 0o6755, 0)
                tries = {
                    "chmod": lambda: os.chmod(place + "/sh", 0o6755),
                    "setgid": lambda: os.chmod(place + "/sh", 0o2755),
                    "fchmod": lambda: os.fchmod(fd, 0o4755),
                    "fchmodat": lambda: os.chmod("sh", 0o4755, dir_fd=os.open(place, 0)),
                    "fchmodat2": lambda: call(452, -100, path("sh"), 0o4755, 0),
                    "open": lambda: os.open(place + "/opened", creates, 0o4755),
                    "no name": lambda: os.open(place, os.O_TMPFILE | os.O_RDWR, 0o4755),
                    "openat2": lambda: call(437, -100, path("opened2"), how, 24),
                    "mkdir": lambda: os.mkdir(place + "/folder", 0o2755),
                    "mkdirat": lambda: call(258 if x86 else 34, -100, path("folder2"), 0o2755),
                    "mknod": lambda: os.mknod(place + "/node", stat.S_IFREG | 0o4755),
                    "mknodat": lambda: call(
                        259 if x86 else 33, -100, path("node2"), stat.S_IFREG | 0o4755, 0
                    ),
                }
                if x86:
                    tries["old chmod"] = lambda: call(90, path("sh"), 0o4755)
                    tries["old open"] = lambda: call(2, path("opened3"), creates, 0o4755)
                    tries["creat"] = lambda: call(85, path("created"), 0o4755)
                    tries["old mkdir"] = lambda: call(83, path("folder3"), 0o2755)
                    tries["old mknod"] = lambda: call(133, path("node3"), 0o104755, 0)
                result = {}
                for name, attempt in tries.items():
                    try:
                        attempt()
                        result[name] = "done"
                    except OSError as error:
                        result[name] = errno.errorcode[error.errno]
                os.chmod(place + "/sh", 0o1755)
                """,
                place=str(place),
            )
            assert outcomes.pop("openat2") == "ENOSYS", outcomes
            assert set(outcomes.values()) == {"EPERM"} and len(outcomes) >= 11, outcomes
        modes = {path.name: path.lstat().st_mode for path in place.iterdir()}
        assert modes.keys() == {"sh"} and not modes["sh"] & 0o6000, modes


@trial
async def its_files_under_a_root_host_belong_to_a_user_of_its_own() -> None:
    owners: dict[str, int] = {}
    with shared_folder() as place:
        for name in ("one", "other", "one"):
            settings: dict[str, Any] = {"permissions": {"filesystem": [f"{place}:rw"]}}
            settings["name"] = name
            async with started_explorer(**settings) as ext:
                file = f"{place}/{uuid.uuid4().hex}"
                await explore(ext, "open(facts['file'], 'w').write('mine')", file=file)
                owner = Path(file).stat().st_uid
                assert owners.setdefault(name, owner) == owner, (
                    "the user is the same at every start"
                )
                if os.geteuid() == 0:
                    assert ext.enforced["uid"] == str(owner) and owner == user_id(name)
    if os.geteuid() == 0:
        assert owners["one"] != owners["other"] and not {0, 65534} & set(owners.values())
    else:
        assert set(owners.values()) == {os.geteuid()}


def ids_of_one_hash() -> tuple[str, str]:
    """Return two extension ids with the same hash, which a hostile package could choose."""
    ids: dict[int | None, str] = {}
    for number in itertools.count():
        name = f"trial-{number}"
        if (other_id := ids.setdefault(user_id(name), name)) != name:
            return other_id, name
    raise AssertionError("unreachable")


@trial
async def ids_of_the_same_hash_have_different_users() -> None:
    if os.geteuid() != 0:
        return  # all extensions have the user of the host
    uids = []
    with shared_folder() as place:
        for name in (*ids_of_one_hash(), *reversed(ids_of_one_hash())):
            settings = {"name": name, "permissions": {"filesystem": [f"{place}:rw"]}}
            async with started_explorer(**settings) as ext:
                file = place / uuid.uuid4().hex
                await explore(ext, "open(facts['file'], 'w').write('mine')", file=str(file))
                uids.append(file.stat().st_uid)
                assert ext.enforced["uid"] == str(uids[-1])
    first, second, *second_starts = uids
    assert first != second and second_starts == [second, first], uids


@trial
async def root_is_never_left_to_one_that_may_write() -> None:
    if os.geteuid() != 0:
        return  # only root has more rights
    with folder() as closed, shared_folder() as place, shared_folder() as program_folder:
        # The granted folder belongs to root. The command in the help is enough to use it.
        granted = place / "granted"
        granted.mkdir(mode=0o755)
        argv = [str(system_explorer(program_folder / "run"))]
        settings: dict[str, Any] = {"permissions": {"filesystem": [f"{granted}:rw"]}}
        try:
            async with exthost.connect(argv, dialect="morphir", **settings):
                raise AssertionError("it was started")
        except Refused as refused:
            assert refused.code == "X0392", refused
            command = refused.help.partition(": ")[2].split()
            assert command == ["chown", "-R", str(user_id("run")), str(granted)], refused.help
        os.chown(granted, int(command[2]), -1)
        async with exthost.connect(argv, dialect="morphir", **settings) as ext:
            code = "open(facts['file'], 'w').write('mine')"
            assert await explore(ext, code, file=str(granted / "file")) is None
        # Other users cannot read the program itself, so it could only run as root.
        program = system_explorer(closed / "run")
        program.chmod(0o700)
        argv = [str(program)]
        try:
            async with exthost.connect(argv, dialect="morphir", **settings):
                raise AssertionError("it was started")
        except Refused as refused:
            assert refused.code == "X0392" and str(program) in refused.message, refused
        async with exthost.connect(argv, dialect="morphir", permissions={}) as ext:
            assert ext.enforced["uid"] == "0 without capabilities"
            assert not any(path["access"] == "write" for path in ext.enforced["paths"])


@trial
async def a_program_in_a_closed_home_runs_as_another_user_and_shows_nothing_more() -> None:
    if os.geteuid() != 0:
        return  # other hosts do not change the user
    with folder() as home, shared_folder() as granted:
        assert home.stat().st_mode & 0o777 == 0o700
        environment = home / ".manager" / "environment"
        venv.create(environment, with_pip=False)
        (home / ".manager").chmod(0o700)
        (home / "readable").write_text("not for the extension")
        (environment.parent / "other").write_text("not for the extension")
        script = system_explorer(environment / "explorer.py")
        argv = [str(environment / "bin" / "python"), "-S", "-E", str(script)]
        settings: dict[str, Any] = {"permissions": {"filesystem": [f"{granted}:rw"]}}
        mounts = Path("/proc/self/mountinfo").read_text()
        async with started_extension(argv, **settings) as ext:
            assert ext.enforced["uid"] == str(user_id("family")), ext.enforced
            outcome = await explore(
                ext,
                """
                import os
                result = {}
                for name in facts["unreachable"]:
                    try:
                        result[name] = open(name).read()
                    except OSError as error:
                        result[name] = type(error).__name__
                try:
                    open(facts["script"], "a")
                except OSError as error:
                    result["write"] = error.errno
                result["home"] = sorted(os.listdir(facts["home"]))
                result["mounts"] = open("/proc/self/mountinfo").read()
                open(facts["file"], "w").write("mine")
                """,
                unreachable=[str(home / "readable"), str(environment.parent / "other")],
                script=str(script),
                home=str(home),
                file=str(granted / "file"),
            )
            assert Path("/proc/self/mountinfo").read_text() == mounts
        assert (granted / "file").stat().st_uid == user_id("family")
        assert outcome[str(home / "readable")] == "FileNotFoundError", outcome
        assert outcome[str(environment.parent / "other")] == "FileNotFoundError", outcome
        assert outcome["write"] in (errno.EROFS, errno.EACCES), outcome
        assert outcome["home"] == [".manager"], outcome


# A program that runs a host and prints the user of an extension that writes, or the error code.
AS_USER_0 = """
import asyncio, json, sys, exthost
from tests.sandbox.confined import explore

async def main(program, granted):
    settings = {"permissions": {"filesystem": [f"{granted}:rw"]}}
    try:
        async with exthost.connect([program], dialect="morphir", **settings) as ext:
            code = "open(facts['file'], 'w').write('mine')"
            assert await explore(ext, code, file=f"{granted}/file") is None
            return ext.enforced["uid"]
    except exthost.errors.Refused as refused:
        return refused.code

print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
"""


@trial
async def user_0_of_a_namespace_writes_only_if_it_is_an_ordinary_user_outside() -> None:
    with shared_folder() as place, shared_folder() as program_folder:
        granted = place / "granted"
        granted.mkdir(mode=0o755)
        arguments = (AS_USER_0, str(system_explorer(program_folder / "run")), str(granted))
        pipe = asyncio.subprocess.PIPE
        host = await asyncio.create_subprocess_exec(
            *("unshare", "-Ur", sys.executable, "-c", *arguments), stdout=pipe, stderr=pipe
        )
        out, err = await host.communicate()
        assert host.returncode == 0, err.decode()
        owners = {path.name: path.stat().st_uid for path in granted.iterdir()}
        if os.geteuid() == 0:
            assert json.loads(out) == "X0392" and not owners, (out, owners)
        else:
            assert json.loads(out) == "0 without capabilities", out
            assert owners == {"file": os.geteuid()}, owners


@trial
async def root_gives_up_its_uid_where_the_program_can_be_reached_without() -> None:
    python = "/usr/bin/python3"
    with tempfile.TemporaryDirectory(prefix="exthost-open-", dir="/var/tmp") as name:
        place = Path(name)
        place.chmod(0o755)
        copy = place / "explorer.py"
        copy.write_bytes(Path(EXPLORER[-1]).read_bytes())
        copy.chmod(0o644)
        argv = [python, "-S", "-E", str(copy)]
        async with started_extension(argv, cwd=str(place), permissions={}) as ext:
            uid = await explore(ext, "import os; result = os.getuid()")
            if os.geteuid() == 0:
                inside = [*descendants(pid_of(ext))][-1]
                status = Path(f"/proc/{inside}/status").read_text()
                assert f"Uid:\t{user_id('family')}\t" in status, status
        assert uid == (65534 if os.geteuid() == 0 else os.geteuid())


@trial
async def a_secret_by_reference_reaches_its_extension_and_is_shown_nowhere() -> None:
    secret = f"hunter2-{uuid.uuid4().hex}"
    os.environ["HOST_API_KEY"] = secret
    bus, events_text = Bus(), list[str]()
    bus.subscribe(EVERYTHING, lambda event: events_text.append(repr(event)))
    records = logging.StreamHandler(log_text := io.StringIO())
    logging.getLogger("exthost").addHandler(records)
    logging.getLogger("exthost").setLevel(logging.DEBUG)
    try:
        env = {"TOKEN": {"from": "HOST_API_KEY"}}
        async with exthost.connect(
            EXPLORER, dialect="morphir", permissions={}, env=env, events=bus
        ) as ext:
            code = "import os; result = os.environ['TOKEN']"
            assert await explore(ext, code) == secret
            line = Path(f"/proc/{pid_of(ext)}/cmdline").read_text()
            shown_texts = [
                repr(ext),
                repr(ext.spec),
                repr(ext.environment),
                repr(ext.enforced),
                line,
            ]
        assert any(message.startswith("Spawned") for message in events_text)
        assert secret not in "".join((*shown_texts, *events_text, log_text.getvalue()))
    finally:
        logging.getLogger("exthost").removeHandler(records)
        logging.getLogger("exthost").setLevel(logging.NOTSET)
        del os.environ["HOST_API_KEY"]
    try:
        async with exthost.connect(
            EXPLORER, dialect="morphir", env={"TOKEN": {"from": "NOT_SET_ANYWHERE"}}
        ):
            raise AssertionError("it was started without its secret")
    except Refused as refused:
        assert refused.code == "X0388" and "NOT_SET_ANYWHERE" in refused.message


# A program that runs a hardened host, whose extension tries to read the environment of the host.
HARDENED = """
import asyncio, os, sys, exthost
from tests.sandbox.confined import EXPLORER, explore

async def main():
    exthost.Host(harden=True)
    settings = {"lifetime": "plain", "restart": {"strategy": "never"}}
    async with exthost.connect(EXPLORER, dialect="morphir", **settings) as ext:
        code = "result = open('/proc/%d/environ' % facts['pid']).read()"
        print(await explore(ext, code, pid=os.getpid()))

asyncio.run(main())
"""


@trial
async def a_hardened_host_cannot_be_read_by_its_unsandboxed_programs() -> None:
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HARDENED),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "HOST_SECRET": "in-the-hosts-environment"},
    )
    output, _ = await host.communicate()
    assert host.returncode == 0
    if os.geteuid() == 0:  # root can read every process
        assert b"in-the-hosts-environment" in output
    else:
        assert b"PermissionError" in output and b"in-the-hosts-environment" not in output


@trial
async def a_host_with_a_narrow_umask_gives_its_extension_a_state_folder() -> None:
    code = """
        import os
        folder = os.environ["EXT_STATE"]
        with open(folder + "/file", "w") as file:
            file.write("kept")
        result = [folder, os.listdir(folder)]
    """
    with shared_folder() as place:
        orders = ("first", "after-the-store")
        programs = {name: system_explorer(place / "programs" / name) for name in orders}
        before = os.umask(0o177)  # even the host could not enter a folder of this mode
        try:
            home = place / "new" / "home"
            environ = {**os.environ, "EXTHOST_HOME": str(home)}
            for name, program in programs.items():
                if name != "first":
                    store = Store(str(place / "other"))
                    await asyncio.wrap_future(store.write(lambda c: c.execute("SELECT 1").rowcount))
                    store.close()
                    environ["EXTHOST_HOME"] = str(place / "other")
                spec = spec_from_mapping(
                    {"name": name, "source": {"command": str(program)}, "permissions": {}}
                )
                traits = replace(SHORT_SHUTDOWN.traits, env_vars={"EXT_STATE": "state_folder"})
                dialect = replace(SHORT_SHUTDOWN, traits=traits)
                extension = Extension(spec, dialect, environ=environ)
                try:
                    await extension.start()
                    folder, files = await explore(extension, code)
                    assert files == ["file"], files
                    assert Path(folder, "file").read_text() == "kept"
                    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
                    access_of_others = Path(folder).parent.stat().st_mode & 0o077
                    assert access_of_others == (0o11 if os.geteuid() == 0 else 0)
                finally:
                    await extension.close()
        finally:
            os.umask(before)
