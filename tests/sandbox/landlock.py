"""Trials of the Landlock sandbox: what an extension with `sandbox = "landlock"` cannot do.

Landlock is the kernel's way for a process to give up access to files, for machines without user
namespaces. There is no namespace in these trials, not even a PID namespace. A trial is a test that
runs as root and as an ordinary user. `explore(extension, code, **facts)` runs code in a sandboxed
extension and returns its variable `result`.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from exthost.config import spec_from_mapping
from exthost.errors import ExthostError, Refused
from exthost.extension.extension import Extension
from exthost.launch import sandbox_probe
from exthost.launch.plan import prepare
from tests.extensions.harness import SHORT_SHUTDOWN
from tests.sandbox.confined import explore, shared_folder, system_explorer
from tests.sandbox.trial_host import started_extension
from tests.sandbox.trials import trial

# The beginning of the code of an attack, whose result is the outcome of each attempt by its name.
ATTEMPT = """
import os, socket, signal
result = {}
def attempt(name, action):
    try:
        action()
    except OSError as error:
        result[name] = type(error).__name__
    else:
        result[name] = "allowed"
"""


@asynccontextmanager
async def landlocked(place: Path, **settings: Any) -> AsyncIterator[Extension]:
    """Yield an explorer in the Landlock sandbox, without a PID namespace."""
    defaults: dict[str, Any] = {
        "permissions": {},
        "sandbox": "landlock",
        "lifetime": "plain",
        "restart": {"strategy": "never"},
    }
    argv = [str(system_explorer(place / "run"))]
    async with started_extension(argv, **(defaults | settings)) as extension:
        yield extension


def enforced_uid(extension: Extension) -> int | None:
    """Return the user that a root host runs the extension as; None for the user of the host."""
    uid = extension.enforced.get("uid", "")
    return int(uid) if uid.isdecimal() else None


def outcomes(*lines: str) -> str:
    return ATTEMPT + "\n".join(lines)


@trial
async def landlock_confines_reading_and_writing() -> None:
    with shared_folder() as place:
        for name in ("granted", "writable", "other"):
            (place / name).mkdir()
            (place / name).chmod(0o777)
            (place / name / "file").write_text("text")
            (place / name / "file").chmod(0o666)
        (place / "granted" / "link").symlink_to(place / "other" / "file")
        permissions = {"filesystem": [f"{place}/granted", f"{place}/writable:rw"]}
        async with landlocked(place, permissions=permissions) as extension:
            code = outcomes(
                "place = facts['place']",
                "attempt('read', lambda: open(place + '/granted/file').read())",
                "attempt('write', lambda: open(place + '/writable/new', 'w').write('x'))",
                "w = place + '/writable/'",
                "attempt('rename', lambda: os.rename(w + 'new', w + 'n'))",
                "attempt('other', lambda: open(place + '/other/file').read())",
                "attempt('link', lambda: open(place + '/granted/link').read())",
                "attempt('dots', lambda: open(place + '/granted/../other/file').read())",
                "attempt('list', lambda: os.listdir(place + '/other'))",
                "attempt('change', lambda: open(place + '/granted/file', 'a'))",
                "attempt('truncate', lambda: os.truncate(place + '/granted/file', 0))",
                "attempt('delete', lambda: os.unlink(place + '/granted/file'))",
                "attempt('move', lambda: os.rename(place + '/other/file', w + 'm'))",
                "attempt('hard link', lambda: os.link(place + '/other/file', w + 'h'))",
                "attempt('mode', lambda: os.chmod(place + '/other/file', 0o777))",
                "attempt('owner', lambda: os.chown(place + '/other/file', 0, 0))",
                "attempt('dates', lambda: os.utime(place + '/other/file', (1, 1)))",
                # The kernel would allow these through a descriptor that can only read.
                "fd = os.open(facts['own'], os.O_RDONLY)",
                "attempt('open mode', lambda: os.fchmod(fd, 0o777))",
                "attempt('open owner', lambda: os.fchown(fd, os.getuid(), os.getgid()))",
                "attempt('open attribute', lambda: os.setxattr(fd, 'user.x', b'1'))",
                "attempt('temporary', lambda: open('/tmp/exthost-landlock', 'w'))",
                "attempt('memory', lambda: open('/dev/mem', 'rb'))",
            )
            own = place / "granted" / "own"
            own.touch(mode=0o600)
            if (uid := enforced_uid(extension)) is not None:
                os.chown(own, uid, uid)
            result = await explore(extension, code, place=str(place), own=str(own))
            assert own.stat().st_mode & 0o777 == 0o600
            enforced = extension.enforced
        allowed = {name for name, outcome in result.items() if outcome == "allowed"}
        assert allowed == {"read", "write", "rename"}, result
        assert (place / "granted" / "file").read_text() == "text"
        assert enforced["filesystem"] == "landlock"
        assert len(enforced["weaker"]) >= 5


@trial
async def landlock_without_network_makes_no_socket() -> None:
    families = ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_VSOCK", "AF_PACKET")
    with shared_folder() as place:
        async with landlocked(place) as extension:
            lines = (
                f"attempt({name!r}, lambda: socket.socket(socket.{name}, socket.SOCK_STREAM))"
                for name in families
            )
            result = await explore(extension, outcomes(*lines))
            assert set(result.values()) == {"PermissionError"}, result
            assert extension.enforced["network"] == "seccomp"
        async with landlocked(place, permissions={"network": True}) as extension:
            result = await explore(extension, outcomes("attempt('s', lambda: socket.socket())"))
            assert result == {"s": "allowed"}


@trial
async def landlock_keeps_an_extension_from_the_host_and_its_rights() -> None:
    with shared_folder() as place:
        async with landlocked(place) as extension:
            code = outcomes(
                "host = facts['host']",
                "attempt('signal', lambda: os.kill(host, 0))",
                "attempt('variables', lambda: open(f'/proc/{host}/environ').read())",
                "attempt('memory', lambda: open(f'/proc/{host}/mem', 'rb'))",
                "attempt('root', lambda: os.listdir(f'/proc/{host}/root/'))",
                "attempt('user', lambda: os.setuid(0) if os.getuid() else os.setgroups([1]))",
                "status = open('/proc/self/status').read()",
                "result['capabilities'] = [l for l in status.splitlines() if l[:4] in "
                "('CapP', 'CapE', 'NoNe', 'Secc')]",
            )
            result = await explore(extension, code, host=os.getpid())
    lines = result.pop("capabilities")
    assert "allowed" not in result.values(), result
    assert "CapPrm:\t0000000000000000" in lines
    assert "NoNewPrivs:\t1" in lines
    assert "Seccomp:\t2" in lines


@trial
async def landlock_refuses_code_in_a_writable_folder() -> None:
    """The program is in the folder that it may write, and Landlock cannot close it there."""
    with shared_folder() as place:
        settings = {"permissions": {"filesystem": [f"{place}:rw"]}}
        await _expect_refusal("X1884", place, **settings)
        await _expect_refusal("X1885", place, on_weaker="refuse")


@trial
async def landlock_is_not_replaced_by_nothing_where_the_kernel_lacks_it() -> None:
    launcher = sandbox_probe.LANDLOCK_LAUNCHER
    results = dict(sandbox_probe._results)
    sandbox_probe._results.clear()
    sandbox_probe.LANDLOCK_LAUNCHER = ("/bin/false",)
    try:
        with shared_folder() as place:
            await _expect_refusal("X0302", place)
    finally:
        sandbox_probe.LANDLOCK_LAUNCHER = launcher
        sandbox_probe._results.clear()
        sandbox_probe._results.update(results)


@trial
async def landlock_is_applied_before_a_library_of_the_extension_is_loaded() -> None:
    """A library that LD_PRELOAD names must not run in the script that applies the rules."""
    with shared_folder() as place:
        env = {"LD_PRELOAD": str(place / "missing.so")}
        async with landlocked(place, env=env) as extension:
            code = "import os\nresult = os.environ['LD_PRELOAD']"
            assert await explore(extension, code) == env["LD_PRELOAD"]
        argv = [str(system_explorer(place / "run"))]
        source = {"type": "process", "command": argv[0]}
        spec = spec_from_mapping(
            {"name": "family", "source": source, "sandbox": "landlock", "permissions": {}}
            | {"env": env}
        )
        plan = prepare(spec, SHORT_SHUTDOWN, os.environ).plan
        assert "LD_PRELOAD" not in plan.env
        assert json.loads(plan.before[-1])["env"] == env


@trial
async def landlock_refuses_a_list_of_hosts() -> None:
    with shared_folder() as place:
        await _expect_refusal("X1853", place, permissions={"network": ["example.com:443"]})


async def _expect_refusal(code: str, place: Path, **settings: Any) -> None:
    try:
        async with landlocked(place, **settings):
            raise AssertionError("it was started")
    except ExthostError as error:
        assert isinstance(error, Refused), repr(error)
        assert error.code == code, repr(error)
