"""Sandbox trials: what an extension in the strict tier tries, and what comes of it."""

import contextlib
import hashlib
import os
import socket
import sys
import tempfile
import textwrap
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import exthost
from exthost.errors import Refused
from exthost.events import Spawned
from exthost.supervision.extension import Extension
from tests.sandbox.trial_host import impatient
from tests.sandbox.trials import trial

EXPLORER = [sys.executable, "-S", "-E", str(Path(__file__).parent / "explorer.py")]
STRICT: dict[str, Any] = {"permissions": {}}


def exploring(**settings: Any) -> contextlib.AbstractAsyncContextManager[Extension]:
    """An explorer in the strict tier; `permissions` may grant it something."""
    return impatient(EXPLORER, **{**STRICT, "restart": {"strategy": "never"}, **settings})


async def explore(extension: Extension, code: str, **facts: Any) -> Any:
    return await extension.call("explore", {"code": textwrap.dedent(code), "facts": facts})


@contextlib.contextmanager
def folder() -> Any:
    """A folder of ours that nobody granted; not in /tmp, of which each has one of its own."""
    with tempfile.TemporaryDirectory(prefix="exthost-trial-", dir="/var/tmp") as name:
        yield Path(name).resolve()


# -- network -------------------------------------------------------------------------------------

SOCKETS = """
    import errno, socket
    result = {}
    kinds = {
        "tcp": (socket.AF_INET, socket.SOCK_STREAM), "udp": (socket.AF_INET, socket.SOCK_DGRAM),
        "tcp6": (socket.AF_INET6, socket.SOCK_STREAM), "unix": (socket.AF_UNIX, socket.SOCK_STREAM),
        "unix dgram": (socket.AF_UNIX, socket.SOCK_DGRAM), "vsock": (40, socket.SOCK_STREAM),
        "netlink route": (16, socket.SOCK_RAW, 0), "netlink uevent": (16, socket.SOCK_RAW, 15),
        "raw": (socket.AF_INET, socket.SOCK_RAW, 1), "packet": (17, socket.SOCK_RAW, 0x300),
        "bluetooth": (31, socket.SOCK_RAW), "alg": (38, socket.SOCK_SEQPACKET), "xdp": (44, 3),
    }
    for name, kind in kinds.items():
        try:
            socket.socket(*kind).close()
            result[name] = "made"
        except OSError as error:
            result[name] = errno.errorcode[error.errno]
"""


@trial
async def without_network_no_socket_of_any_family_can_be_made() -> None:
    async with exploring() as ext:
        made = await explore(ext, SOCKETS)
        assert len(made) == 13 and set(made.values()) == {"EPERM"}, made


@trial
async def without_network_no_listener_of_the_host_hears_anything() -> None:
    with folder() as place, contextlib.ExitStack() as open_sockets:
        place.chmod(0o755)

        def listening(family: int, kind: int, address: Any) -> socket.socket:
            made = open_sockets.enter_context(socket.socket(family, kind))
            made.bind(address)
            if kind == socket.SOCK_STREAM:
                made.listen()
            made.setblocking(False)
            return made

        abstract = f"\0{uuid.uuid4().hex}"
        tcp = listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        udp = listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        path = listening(socket.AF_UNIX, socket.SOCK_STREAM, str(place / "stream"))
        datagram = listening(socket.AF_UNIX, socket.SOCK_DGRAM, str(place / "datagram"))
        hidden = listening(socket.AF_UNIX, socket.SOCK_STREAM, abstract)
        async with exploring(permissions={"filesystem": [f"{place}:rw"]}) as ext:
            tried = await explore(
                ext,
                """
                import ctypes, errno, socket, struct
                libc = ctypes.CDLL(None, use_errno=True)
                def outcome(work):
                    try:
                        return repr(work())
                    except OSError as error:
                        return errno.errorcode[error.errno]
                def raw_socket(family, kind):
                    fd = libc.socket(family, kind, 0)
                    if fd < 0:
                        raise OSError(ctypes.get_errno(), "socket")
                    return fd
                pair = socket.socketpair()
                result = {
                    "tcp": outcome(lambda: socket.create_connection(("127.0.0.1", facts["tcp"]))),
                    "raw tcp": outcome(lambda: raw_socket(2, 1)),
                    "raw udp": outcome(lambda: raw_socket(2, 2)),
                    "raw unix": outcome(lambda: raw_socket(1, 1)),
                    "datagram pair": outcome(lambda: socket.socketpair(1, socket.SOCK_DGRAM)),
                    "pair to path": outcome(lambda: pair[0].connect(facts["path"])),
                    "pair send": outcome(lambda: pair[0].sendto(b"x", facts["datagram"])),
                    "pair bind": outcome(lambda: pair[0].bind(facts["path"] + ".mine")),
                }
                """,
                tcp=tcp.getsockname()[1],
                path=str(place / "stream"),
                datagram=str(place / "datagram"),
            )
            assert "EPERM" in tried.values()
            allowed = {name: told for name, told in tried.items() if not told.startswith("E")}
            assert not allowed, allowed
        for one in (tcp, path, hidden):
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"somebody came: {one.accept()}")
        for one in (udp, datagram):
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"something was heard: {one.recv(99)!r}")


@trial
async def with_network_the_hosts_is_reached_and_odd_families_are_not() -> None:
    with socket.socket() as tcp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        async with exploring(permissions={"network": True}) as ext:
            made = await explore(ext, SOCKETS)
            usual = ("tcp", "udp", "tcp6", "unix", "unix dgram", "netlink route")
            assert {name: made.pop(name) for name in usual} == dict.fromkeys(usual, "made"), made
            assert "made" not in made.values() and made["vsock"] == "EAFNOSUPPORT", made
            code = """
                import socket
                socket.create_connection(("127.0.0.1", facts["port"]), timeout=5).close()
                result = [name for _, name in socket.if_nameindex()]
            """
            assert "lo" in await explore(ext, code, port=tcp.getsockname()[1])
        tcp.settimeout(5)
        tcp.accept()[0].close()


@trial
async def an_event_loop_works_without_network() -> None:
    async with exploring() as ext:
        code = """
            import asyncio
            async def main():
                child = await asyncio.create_subprocess_exec("/bin/echo", "hi", stdout=-1)
                return (await child.communicate())[0].decode()
            result = asyncio.run(main())
        """
        assert await explore(ext, code) == "hi\n"


@trial
async def io_uring_and_other_doors_into_the_kernel_are_shut() -> None:
    async with exploring() as ext:
        code = """
            import ctypes, errno, platform
            libc = ctypes.CDLL(None, use_errno=True)
            x86 = platform.machine() == "x86_64"
            calls = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
                     "bpf": 321 if x86 else 280, "perf_event_open": 298 if x86 else 241,
                     "userfaultfd": 323 if x86 else 282, "keyctl": 250 if x86 else 219,
                     "open_by_handle_at": 304 if x86 else 265, "fsopen": 430, "setns": 308 if x86 else 268}
            result = {}
            for name, number in calls.items():
                got = libc.syscall(number, 0, 0, 0, 0, 0, 0)
                result[name] = errno.errorcode[ctypes.get_errno()] if got < 0 else got
        """
        told = await explore(ext, code)
        assert set(told.values()) <= {"ENOSYS", "EPERM"}, told
        assert told["io_uring_setup"] == "ENOSYS" and told["keyctl"] == "EPERM"


# -- files ---------------------------------------------------------------------------------------


@trial
async def a_canary_outside_the_list_cannot_be_read_in_any_way() -> None:
    with folder() as place, folder() as granted:
        canary = place / "canary"
        canary.write_text("secret-" + "canary")
        (granted / "link").symlink_to(canary)
        (granted / "file").write_text("granted")
        async with exploring(permissions={"filesystem": [f"{granted}:rw"]}) as ext:
            ways = await explore(
                ext,
                """
                import glob, os
                canary, granted = facts["canary"], facts["granted"]
                ways = [canary, f"{granted}/link", f"{granted}/../{canary.split('/', 2)[2]}",
                        f"/proc/self/root{canary}", f"/proc/1/root{canary}", f"/proc/1/cwd/{canary}",
                        f"/proc/{facts['host']}/root{canary}", f"/proc/self/cwd/../../../..{canary}"]
                ways += [f"{one}{canary}" for one in glob.glob("/proc/*/root")]
                result = {}
                for way in ways:
                    try:
                        result[way] = open(way).read()
                    except OSError as error:
                        result[way] = type(error).__name__
                for make in (os.link, os.symlink):
                    try:
                        make(canary, f"{granted}/{make.__name__}")
                        result[make.__name__] = open(f"{granted}/{make.__name__}").read()
                    except OSError as error:
                        result[make.__name__] = type(error).__name__
                result["itself"] = open(f"{granted}/file").read()
                result["stat"] = os.path.exists(canary)
                """,
                canary=str(canary),
                granted=str(granted),
                host=os.getpid(),
            )
            assert ways.pop("itself") == "granted" and ways.pop("stat") is False
            assert len(ways) >= 10 and not any("secret" in told for told in ways.values()), ways
        assert canary.read_text() == "secret-canary"


def digest(place: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(place.rglob("*")):
        seen = path.lstat()
        found.update(f"{path} {seen.st_mode} {seen.st_mtime_ns} {seen.st_size}".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


@trial
async def what_is_granted_for_reading_is_unchanged_after_every_attempt() -> None:
    with folder() as place:
        (place / "below").mkdir()
        for name in ("a", "below/b"):
            (place / name).write_text(name)
        before = digest(place)
        async with exploring(permissions={"filesystem": [str(place)]}) as ext:
            tried = await explore(
                ext,
                """
                import os
                a, b = facts["place"] + "/a", facts["place"] + "/below/b"
                attempts = {
                    "write": lambda: open(a, "w"), "append": lambda: open(a, "a"),
                    "truncate": lambda: os.truncate(a, 0), "chmod": lambda: os.chmod(a, 0o777),
                    "utime": lambda: os.utime(a, (1, 1)), "rename": lambda: os.rename(a, b),
                    "unlink": lambda: os.unlink(b), "rmdir": lambda: os.rmdir(facts["place"] + "/below"),
                    "mkdir": lambda: os.mkdir(facts["place"] + "/new"),
                    "symlink": lambda: os.symlink("x", facts["place"] + "/new"),
                    "link": lambda: os.link(a, facts["place"] + "/new"),
                    "chown": lambda: os.chown(a, os.getuid(), os.getgid()),
                    "xattr": lambda: os.setxattr(a, "user.x", b"1"),
                    "mknod": lambda: os.mkfifo(facts["place"] + "/new"),
                }
                result = {}
                for name, attempt in attempts.items():
                    try:
                        attempt()
                        result[name] = "done"
                    except OSError as error:
                        result[name] = type(error).__name__
                result["read"] = open(a).read()
                """,
                place=str(place),
            )
            assert tried.pop("read") == "a"
            assert "done" not in tried.values() and len(tried) == 14, tried
        assert digest(place) == before


@trial
async def what_is_granted_for_writing_can_be_written_and_its_sibling_cannot() -> None:
    with folder() as place:
        (place / "mine").mkdir()
        (place / "sibling").mkdir()
        (place / "sibling" / "x").write_text("theirs")
        async with exploring(permissions={"filesystem": [f"{place}/mine:rw"]}) as ext:
            code = """
                import os
                open(facts["place"] + "/mine/new", "w").write("written")
                result = []
                for name in ("/sibling/x", "/sibling/new", "/new"):
                    try:
                        open(facts["place"] + name, "w").write("harm")
                        result.append(name)
                    except OSError:
                        pass
            """
            assert await explore(ext, code, place=str(place)) == []
        assert (place / "mine" / "new").read_text() == "written"
        assert (place / "sibling" / "x").read_text() == "theirs"
        assert not (place / "new").exists() and not (place / "sibling" / "new").exists()


@trial
async def its_tmp_is_its_own_and_the_rest_of_the_root_is_sealed() -> None:
    name = f"/tmp/{uuid.uuid4().hex}"
    async with exploring() as ext:
        code = """
            import os
            open(facts["name"], "w").write("private")
            result = {"tmp": os.listdir("/tmp")}
            for place in ("/", "/usr", "/etc", "/var", os.path.dirname(facts["program"])):
                try:
                    open(place + "/harm", "w")
                    result[place] = "written"
                except OSError as error:
                    result[place] = type(error).__name__
        """
        told = await explore(ext, code, name=name, program=EXPLORER[-1])
        assert Path(name).name in told.pop("tmp")
        assert "written" not in told.values(), told
    assert not Path(name).exists()


@trial
async def its_own_folder_is_there_to_read() -> None:
    async with exploring() as ext:
        code = "result = open(facts['file']).readline()"
        assert "morphir" in await explore(ext, code, file=EXPLORER[-1])


# -- rights --------------------------------------------------------------------------------------


@trial
async def remounting_and_core_pattern_are_denied() -> None:
    async with exploring() as ext:
        tried = await explore(
            ext,
            """
            import ctypes, errno, os
            libc = ctypes.CDLL(None, use_errno=True)
            def call(*words):
                return "done" if libc.mount(*words) == 0 else errno.errorcode[ctypes.get_errno()]
            result = {
                "remount": call(b"none", b"/usr", None, 32 | 4096, None),
                "tmpfs": call(b"tmpfs", b"/tmp", b"tmpfs", 0, None),
                "umount": "done" if libc.umount2(b"/usr", 2) == 0 else errno.errorcode[ctypes.get_errno()],
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
                result["setuid"] = subprocess.run([facts["id"], "-u"], capture_output=True, text=True).stdout.strip()
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
        pids = [os.getpid(), other.stats["pid"], one.stats["pid"]]
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


# -- refusals ------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def refusing(code: str, **settings: Any) -> AsyncIterator[Refused]:
    """This is refused with this code, and nothing is spawned for it."""
    spawned: list[Spawned] = []
    bus = exthost.events.Bus()
    bus.subscribe(Spawned, spawned.append)
    try:
        async with exthost.connect(EXPLORER, events=bus, **settings):
            raise AssertionError("it was started")
    except Refused as refused:
        assert refused.code == code and refused.exit_code == 4 and refused.help, refused
        assert not spawned
        yield refused


@trial
async def without_bwrap_it_is_refused_and_nothing_is_spawned() -> None:
    with folder() as place:
        place.chmod(0o755)
        forbidden = place / "bwrap"
        forbidden.write_text(
            "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
        )
        forbidden.chmod(0o755)
        for program, why in (
            (str(place / "missing"), "cannot be executed"),
            (str(forbidden), "No permissions to create new namespace"),
        ):
            os.environ["EXTHOST_BWRAP"] = program
            try:
                async with refusing("X0302", permissions={}) as refused:
                    assert why in refused.message, refused
                async with impatient(
                    EXPLORER, permissions={}, sandbox="best-effort", restart={"strategy": "never"}
                ) as ext:
                    assert ext.enforced["network"] == "open"
                    assert ext.enforced["sandbox"] == "best-effort"
            finally:
                del os.environ["EXTHOST_BWRAP"]


@trial
async def a_grant_that_cannot_be_is_refused_with_what_to_write_instead() -> None:
    with folder() as place:
        (place / "link").symlink_to("/etc")
        (place / "root").symlink_to("/")
        for entry, code in (
            ("/", "X0381"),
            ("/proc", "X0381"),
            ("/proc/self", "X0381"),
            ("/sys", "X0381"),
            ("/dev/shm", "X0381"),
            ("/usr/..", "X0381"),
            (f"{place}/root", "X0381"),
            (f"{place}/missing", "X0382"),
            (f"{place}/link", "X0383"),
            (f"{place}/link/passwd:rw", "X0383"),
        ):
            async with refusing(code, permissions={"filesystem": [entry]}) as refused:
                assert refused.evidence.key == "permissions.filesystem"


@trial
async def a_path_swapped_for_a_link_between_load_and_spawn_is_refused() -> None:
    with folder() as place:
        granted = place / "granted"
        granted.mkdir()
        own = place / "own"
        own.mkdir()
        (own / "explorer.py").write_bytes(Path(EXPLORER[-1]).read_bytes())
        for swapped, code in ((granted, "X0383"), (own, "X0384")):
            config = {
                "extensions": [
                    {
                        "name": "late",
                        "start": "lazy",
                        "permissions": {"filesystem": [str(granted)]},
                        "source": {
                            "command": sys.executable,
                            "args": ["-S", "-E", str(own / "explorer.py")],
                        },
                    }
                ]
            }
            async with exthost.Host.from_config(config) as host:
                assert host["late"].state == "admitted"
                elsewhere = swapped.rename(place / "elsewhere")
                swapped.symlink_to(elsewhere)
                try:
                    await host["late"].call("explore", {"code": "result = 1"})
                    raise AssertionError("it ran")
                except Refused as refused:
                    assert refused.code == code, refused
                finally:
                    swapped.unlink()
                    elsewhere.rename(swapped)


@trial
async def names_cannot_smuggle_options_in() -> None:
    with folder() as place:
        odd = place / "--share-net\n--dev-bind"
        odd.mkdir()
        (odd / "file").write_text("inside")
        settings = {"permissions": {"filesystem": [str(odd)]}, "cwd": str(odd)}
        async with exploring(**settings) as ext:
            code = """
                import os, sys
                result = {"cwd": os.getcwd(), "file": open("file").read(),
                          "root": os.path.exists("/root/.ssh") or os.path.exists("/boot")}
            """
            assert await explore(ext, code) == {"cwd": str(odd), "file": "inside", "root": False}

