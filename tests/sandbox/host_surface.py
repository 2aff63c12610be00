"""Trials of what an extension can reach through the host, which writes files for it, prints its
text to a terminal, shares an event loop and descriptors with it, and reads its documents.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. The
explorer is an extension for attacks: `explore(extension, code, **facts)` runs the code in it, and
returns its variable `result`.
"""

import asyncio
import contextlib
import io
import json
import os
import socket
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import exthost
from exthost.config.discovery.configfile import read_config
from exthost.dialects.calls import FileFragment
from exthost.errors import ConfigError, NotFound, Refused
from exthost.events import Bus, LogLine
from exthost.faces.cli.common import show_json
from exthost.faces.http_server import server
from exthost.faces.http_server.access import Access
from exthost.faces.http_server.listener import listen
from exthost.faces.http_server.token import Token, Tokens
from exthost.host.control.address import socket_paths
from exthost.host.control.client import connect_to_host
from exthost.host.control.server import ControlServer
from exthost.host.control.status_report import StatusReport
from exthost.host.file_writer import write_files
from exthost.launch.grant_advice import suggest_grant
from exthost.model.documents.toml_text import parse_toml
from exthost.model.launch_plan import LaunchPlan, Wrapper
from tests.extensions.harness import wait_until
from tests.sandbox.confined import EXPLORER, explore, folder, shared_folder, started_explorer
from tests.sandbox.trial_host import started_extension
from tests.sandbox.trials import trial

# Files that git, a shell, an editor, direnv or a package manager runs or reads as settings. Some
# names are such a name only on a file system that ignores case, a dot or a space at the end, or
# characters without a width.
PROTECTED_FILES = (
    *(".git/config", ".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", "a/HEAD"),
    *(".envrc", ".bashrc", ".profile", ".zshenv", ".vscode/tasks.json", ".idea/x.xml"),
    *(".config/fish/config.fish", ".gitconfig", ".cargo/config.toml", ".mise.toml"),
    *(".g\u200cit/config", ".\u017f\u017fh/config", "git~1/config", ".git./x", ".bashrc "),
    *(".claude/settings.json", ".cursor/mcp.json", "exthost.toml", ".vim/plugin/x.vim"),
    *(".gitlab-ci.yml", "Jenkinsfile", ".zed/settings.json", ".bash_aliases", "x/plugin.toml"),
    *("AGENTS.md", "CLAUDE.md", "conftest.py", "package.json", "x.pth", "justfile", "pip.conf"),
)


@trial
async def files_that_other_programs_obey_are_not_written() -> None:
    with folder() as place:
        (place / ".git").mkdir()
        (place / "docs").symlink_to(".git")
        for path in (*PROTECTED_FILES, "docs/config"):
            fragments = [FileFragment("plain.txt", "a"), FileFragment(path, "b")]
            try:
                write_files(fragments, place)
            except Refused as refused:
                assert "--write-protected" in refused.help, refused
            else:
                raise AssertionError(f"{path} was written")
        assert {item.name for item in place.iterdir()} == {".git", "docs"}
        assert write_files([FileFragment(".gitignore", "a")], place) == (".gitignore",)


# The maximum of lines between two measurements: two slices of a flood, each of a hundred
# microseconds, at half a microsecond for each line.
MAX_LINES_PER_STEP = 1000

# The first output of a flood, which shows that it is a flood, is not sliced.
UNSLICED_STEPS = 3

FLOOD = """
    import json, os, time
    notice = {"method": "log", "params": {"level": "info", "message": "a"}}
    line = json.dumps(notice) if facts["notices"] else "x"
    for _ in range(7):
        data = (line + chr(10)).encode() * 1200
        while data:
            data = data[os.write(1, data):]
        time.sleep(0.01)
"""


@trial
async def a_flood_is_handled_in_small_steps_and_a_neighbour_is_served() -> None:
    for notices in (False, True):
        async with started_explorer() as noisy, started_explorer() as neighbour:
            # The number of lines that the host has handled in each step of this loop.
            steps = [0]
            reader = noisy.internals.queue.sessions[0]._reader
            handle_items = reader.on_items

            def count_items(
                items: list[Any], steps: list[int] = steps, handle_items: Any = handle_items
            ) -> None:
                steps[-1] += len(items)
                handle_items(items)

            reader.on_items = count_items
            flood = asyncio.ensure_future(explore(noisy, FLOOD, notices=notices))
            answers = 0
            while not flood.done():
                steps.append(0)
                await asyncio.sleep(0.001)
                if len(steps) % 20 == 0:
                    assert await neighbour.call("echo", answers) == answers
                    answers += 1
            assert await flood is None and answers and sum(steps) > 8_000, (answers, sum(steps))
            large_steps = [count for count in steps if count > MAX_LINES_PER_STEP]
            assert len(large_steps) <= UNSLICED_STEPS, large_steps


@trial
async def a_flood_on_stderr_is_dropped_beyond_a_thousand_lines_a_second() -> None:
    code = r"import os; [os.write(2, b'a line\n' * 9000) for _ in range(40)]"
    bus, lines = Bus(), list[LogLine]()
    bus.subscribe(LogLine, lines.append)
    async with exthost.connect(EXPLORER, dialect="morphir", permissions={}, events=bus) as ext:
        began = time.monotonic()
        await explore(ext, code)
        assert await ext.call("echo", 1) == 1
        seconds = time.monotonic() - began
    lines_logged = [line for line in lines if line.text == "a line"]
    assert len(lines_logged) <= 1000 * (seconds + 2), (len(lines_logged), seconds)
    assert any(line.text.startswith("dropped: ") for line in lines)


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


@trial
async def half_open_requests_do_not_take_the_descriptors_of_the_host() -> None:
    before = server.HEADER_SECONDS, server.MAX_CONNECTIONS, server.IDLE_SECONDS
    server.HEADER_SECONDS, server.MAX_CONNECTIONS, server.IDLE_SECONDS = 600, 20, 1
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    access = Access("127.0.0.1", Tokens(Token("secret")))
    serving = asyncio.ensure_future(server.serve_app(_hello, listener, access))
    complete_request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def hold_connection(number: int) -> None:
        """Open a connection, send nothing or half a request, and return at its end. Some complete
        one request first; the number chooses between four kinds."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer), contextlib.suppress(OSError, EOFError):
            if number % 4 == 3:
                writer.write(complete_request)
                await reader.readuntil(b"ok")
            half_request = complete_request[:20]
            data_by_kind = (b"", half_request, complete_request + half_request, half_request)
            writer.write(data_by_kind[number % 4])
            await reader.read()

    try:
        # These are closed only because of their number.
        held_connections = [
            asyncio.ensure_future(hold_connection(number % 2)) for number in range(40)
        ]
        await wait_until(lambda: sum(task.done() for task in held_connections) >= 20)
        for task in held_connections:
            task.cancel()
        await asyncio.wait(held_connections)
        server.HEADER_SECONDS, server.MAX_CONNECTIONS = 0.3, 40
        await asyncio.gather(*map(hold_connection, range(40)))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(complete_request)
        assert b"200 OK" in await reader.readline()
        writer.close()
    finally:
        server.HEADER_SECONDS, server.MAX_CONNECTIONS, server.IDLE_SECONDS = before
        serving.cancel()
        await asyncio.wait([serving])
        listener.close()


@trial
async def a_document_of_absurd_depth_is_refused_before_it_is_parsed() -> None:
    key = ".".join("a" * 32_000)
    for line in ("{} = 1", "[{}]", "a = {{ {} = 1 }}", '"quoted . x".{} = 1'):
        try:
            parse_toml("first = 1\n" + line.format(key))
        except ValueError as error:
            assert "parts" in str(error), error
        else:
            raise AssertionError("it was parsed")


@trial
async def a_result_does_not_steer_the_terminal() -> None:
    value = {"a": "\x9b31m \x9d \x7f \u202e \u2066 \u200e", "b": "käse \x1b]0;x\x07"}
    text = "result = facts['value']"
    async with started_explorer() as ext:
        answer = await explore(ext, text, value=value)
    assert answer == value
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out):
        show_json(answer)
        out.flush()
    printed = out.buffer.getvalue().decode()
    assert json.loads(printed) == value and "käse" in printed
    assert printed.rstrip("\n").replace("\n", "").isprintable(), ascii(printed)


@trial
async def only_a_plain_file_of_a_few_megabytes_is_a_config() -> None:
    with folder() as place:
        os.mkfifo(place / "pipe.toml")
        (place / "zero.toml").symlink_to("/dev/zero")
        (place / "large.toml").touch()
        os.truncate(place / "large.toml", 3 * 2**30)
        kind, size = "it is not a regular file", "it is larger than"
        for name, reason in (("pipe", kind), ("zero", kind), ("large", size), (".", kind)):
            try:
                read_config(place / (name if name == "." else f"{name}.toml"))
            except ConfigError as error:
                assert error.code == "X0101" and reason in error.message, error
            else:
                raise AssertionError(f"{name} was read")


@trial
async def advice_names_no_secret() -> None:
    wrapper = Wrapper(options=("/usr/bin/bwrap",), init=b"", filter=b"x")
    plan = LaunchPlan(argv=("/bin/true",), wrapper=wrapper)
    with folder() as place:
        for name, mode, is_named in (
            ("models/large.bin", 0o644, True),
            ("models/tokenizer.json", 0o644, True),
            (".ssh/id_ed25519", 0o644, False),
            (".aws/credentials", 0o644, False),
            ("keys/private.pem", 0o600, False),
            ("sync/Passwords.kdbx", 0o644, False),
            ("snap/firefox/common/logins.json", 0o644, False),
            (".local/share/uv/credentials/credentials.toml", 0o644, False),
            (".local/share/keyrings/login.keyring", 0o644, False),
            ("backup/etc/shadow", 0o644, False),
        ):
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            path.chmod(mode)
            advice = suggest_grant(plan.wrapper, [f"cannot open {path}: No such file or directory"])
            assert (str(path) in advice) == is_named, advice
    home = os.path.expanduser("~")  # noqa: PTH111
    for shared_folder_path in ("/", "/home", "/home/somebody", "/root", home, "/var/lib", "/etc"):
        for line in (
            f"cannot open {shared_folder_path}: No such file",
            f"{shared_folder_path}/x: Read-only file system",
        ):
            advice = suggest_grant(plan.wrapper, [line])
            assert f'"{shared_folder_path}"' not in advice and ":rw" not in advice, advice


ASK_HOST = """
    import json, socket
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(facts["path"])
    result = json.loads(connection.makefile().readline())["error"]["code"]
"""

PRETEND_TO_BE_THE_HOST = """
    import socket
    socket.listener = socket.socket(socket.AF_UNIX)  # not closed at the end of this code
    socket.listener.bind(facts["path"])
    socket.listener.listen()
    result = True
"""


@trial
async def the_control_socket_of_the_host_is_not_for_sandboxed_extensions() -> None:
    with shared_folder() as place:
        config, environ = str(place / "x.toml"), {"EXTHOST_HOME": str(place / "state")}
        host = exthost.Host.from_config({"extensions": []})
        control = ControlServer(host, StatusReport(host), config, environ)
        await control.serve()
        try:
            # If the host is root, this extension also has the user 0, because no other user can
            # read its script.
            script = place / "explorer.py"
            script.write_bytes(Path(EXPLORER[-1]).read_bytes())
            script.chmod(0o600)
            permissions = {"network": True, "filesystem": [str(place)]}
            async with started_extension(
                [*EXPLORER[:-1], str(script)], permissions=permissions
            ) as ext:
                assert await explore(ext, ASK_HOST, path=str(control.path)) == "X0376"
        finally:
            await control.close()
            await host.close()


READ_CLIENT = """
    import glob
    clients = []
    for name in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(name, "rb") as file:
                if facts["mark"].encode() in file.read():
                    clients.append(name.replace("cmdline", "environ"))
        except OSError:
            pass
    result = [len(clients)]
    for name in clients:
        try:
            with open(name) as file:
                result.append(file.read())
        except PermissionError:
            result.append("denied")
"""


@trial
async def no_extension_reads_the_variables_of_a_command_that_uses_the_running_host() -> None:
    with shared_folder() as place:
        config, home = place / "x.toml", str(place / "state")
        config.write_text("")
        source = {"command": EXPLORER[0], "args": EXPLORER[1:]}
        entry = {"name": "e", "source": source, "dialect": "morphir", "lifetime": "plain"}
        host = exthost.Host.from_config({"extensions": [entry]})
        control = ControlServer(host, StatusReport(host), str(config), {"EXTHOST_HOME": home})
        async with host:
            await control.serve()
            try:
                params = {"code": textwrap.dedent(READ_CLIENT), "facts": {"mark": str(config)}}
                client = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "exthost", "call", "--method", "e", "explore"),
                    *("--config", str(config), "--args", json.dumps(params)),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env={**os.environ, "EXTHOST_HOME": home, "CLIENT_SECRET": "of-the-client"},
                )
                printed, messages = await client.communicate()
            finally:
                await control.close()
        assert client.returncode == 0 and b"through the running host" in messages, messages
        count, *contents = json.loads(printed)
        assert count == 1
        if os.geteuid() == 0:  # root can read every process
            assert "of-the-client" in contents[0]
        else:
            assert contents == ["denied"]


@trial
async def no_sandboxed_extension_passes_for_the_host() -> None:
    with shared_folder() as place:
        config, environ = str(place / "x.toml"), {"EXTHOST_HOME": str(place / "state")}
        (path,) = (path for path in socket_paths(config, environ) if place in path.parents)
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o777)
        permissions = {"network": True, "filesystem": [f"{path.parent}:rw"]}
        async with started_explorer(permissions=permissions) as ext:
            assert await explore(ext, PRETEND_TO_BE_THE_HOST, path=str(path)) is True
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))  # the extension does listen
            try:
                connect_to_host(config, environ, timeout=10).close()
            except NotFound:
                return
            raise AssertionError("a client accepted the extension as its host")
