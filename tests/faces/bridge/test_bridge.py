"""Tests of remote MCP servers as extensions, and of the login to them.

An MCP server in the config that has a URL instead of a command is reached through a bridge: a
process (`exthost bridge URL`) that the host starts like any other extension, and that passes the
messages between its stdin and stdout and the server. Here the server runs on this machine
(`extensions/remote_server.py`).
"""

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import exthost
from exthost.errors import CallFailed, ExtensionGone, HandshakeFailed, Refused
from exthost.faces.bridge.login import browser_login, login_failed_error, stored_login
from exthost.faces.bridge.relay import RemoteServer, log_in
from exthost.faces.bridge.token_file import TokenFile
from exthost.launch.bridge import token_folder
from tests.faces.bridge.running import remote_server
from tests.faces.cli.cli_process import run_inside

# Longer than pytest lets a test run, so that no verdict depends on the speed of the machine. A
# bridge that starts imports the package mcp, which takes seconds on a busy machine.
LIMITS = {"handshake": "10m", "start": "10m", "call": "10m"}


def make_config(url: Any, **keys: Any) -> dict[str, Any]:
    """Return a config with one remote server, `far`. `keys` are further keys of its entry."""
    return {"mcp_servers": {"far": {"url": url, "limits": LIMITS, **keys}}}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "EXTHOST_HOME": str(tmp_path / "state")}


@pytest.mark.more
@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("era", ["auto", "handshake"])
async def test_a_remote_server_is_called_like_any_other(
    transport: str, era: str, environ: dict[str, str]
) -> None:
    with remote_server(transport) as url:
        entry = {"headers": {"X-Team": {"from": "TEAM"}}, "options": {"era": era}}
        names = {**environ, "TEAM": "docs"}
        async with exthost.Host.from_config(make_config(url, **entry), environ=names) as host:
            assert host["far"].cause is None
            assert (await host.call_tool("ext_far_add", {"a": 1, "b": 2})).data == {"result": 3}
            reported: list[Any] = []
            work = {"steps": 3}
            result = await host.call_tool("far:work", work, on_progress=reported.append)
            assert result.text == "done" and [step.progress for step in reported] == [1, 2, 3]
            assert (await host.call_tool("far:headers", {})).text == "docs"
            assert "docs" not in " ".join(host["far"].argv)


@pytest.mark.more
async def test_a_call_fails_if_the_server_ends_during_its_answer(
    environ: dict[str, str],
) -> None:
    # One restart without a delay: the default is five, with delays that add up to 31 s.
    restart = {"strategy": "immediate", "max_retries": 1}
    with remote_server("http") as url:
        entry = make_config(url, restart=restart)
        async with exthost.Host.from_config(entry, environ=environ) as host:
            # The server may end before or after it has begun its response.
            expected = "without a response|ended during die"
            with pytest.raises((CallFailed, ExtensionGone), match=expected):
                await host.call_tool("far:die", {})
            # The host starts another bridge, which does not reach the server (X1809).
            with pytest.raises((ExtensionGone, HandshakeFailed)) as caught:
                await host.call_tool("far:add", {"a": 1, "b": 2})
            assert "X1809" in "\n".join(caught.value.evidence.stderr)


@pytest.mark.more
async def test_a_token_is_passed_by_reference_and_a_missing_one_is_reported(
    environ: dict[str, str],
) -> None:
    with remote_server("http", "--token", "hush") as url:
        names = {**environ, "TOKEN": "hush"}
        entry = make_config({"from": "URL"}, token={"from": "TOKEN"})
        async with exthost.Host.from_config(entry, environ={**names, "URL": url}) as host:
            assert (await host.call_tool("far:add", {"a": 1, "b": 2})).data == {"result": 3}
            assert "hush" not in repr(host["far"].spec)
        async with exthost.Host.from_config(make_config(url), environ=environ) as host:
            error = host["far"].cause
            assert isinstance(error, HandshakeFailed | ExtensionGone)
            assert "requires a login" in "\n".join(error.evidence.stderr)


@pytest.mark.more
async def test_a_server_that_cannot_be_reached_fails_the_start(environ: dict[str, str]) -> None:
    async with exthost.Host.from_config(
        make_config("http://127.0.0.1:9/mcp", restart={"strategy": "never"}), environ=environ
    ) as host:
        error = host["far"].cause
        assert error is not None and "cannot be reached" in "\n".join(error.evidence.stderr)


@pytest.mark.more
async def test_a_sandboxed_remote_server_reaches_its_own_host(environ: dict[str, str]) -> None:
    with remote_server("http") as url:
        entry = make_config(url, permissions={})
        async with exthost.Host.from_config(entry, environ=environ) as host:
            assert (await host.call_tool("far:add", {"a": 1, "b": 2})).data == {"result": 3}
            assert host["far"].enforced["hosts"] == [urlsplit(url).netloc]


async def test_a_remote_server_at_an_unknown_url_needs_the_network(environ: dict[str, str]) -> None:
    entry = make_config({"from": "URL"}, permissions={"network": False})
    names = {**environ, "URL": "https://example.org/mcp"}
    async with exthost.Host.from_config(entry, environ=names) as host:
        error = host["far"].cause
        assert isinstance(error, Refused) and error.code == "X1805"


async def test_without_the_package_a_remote_server_is_refused(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.launch.bridge.find_spec", lambda _: None)
    async with exthost.Host.from_config(
        make_config("https://example.org/mcp"), environ=environ
    ) as host:
        error = host["far"].cause
        assert isinstance(error, Refused) and error.code == "X1804"
        assert "exthost[bridge]" in error.help


@pytest.mark.parametrize("arguments", [["ftp://h"], ["nothing"], ["--url-from", "NOT_SET"], []])
def test_wrong_arguments_are_reported(arguments: list[str]) -> None:
    result = run_inside("bridge", *arguments, "--json")
    assert result.returncode == 2 and json.loads(result.stdout)["error"]["code"] == "X1810"


@pytest.mark.more  # imports the packages of the bridge
def test_a_bridge_without_input_ends() -> None:
    """The event loop cannot connect to /dev/null."""
    command = [sys.executable, "-m", "exthost", "bridge", "http://127.0.0.1:9/mcp"]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert b"Traceback" not in result.stderr and result.returncode == 0, result.stderr


@pytest.mark.more
def test_the_last_request_is_answered_with_files_as_stdin_and_stdout(tmp_path: Path) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "file", "version": "1"},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    requests, replies = tmp_path / "requests", tmp_path / "replies"
    requests.write_text(json.dumps(request) + "\n")
    with remote_server("http") as url, requests.open() as stdin, replies.open("w") as stdout:
        command = [sys.executable, "-m", "exthost", "bridge", url]
        result = subprocess.run(command, stdin=stdin, stdout=stdout, timeout=90, check=False)
    assert result.returncode == 0
    assert json.loads(replies.read_text())["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.more
def test_a_request_that_the_bridge_cannot_send_is_answered_and_the_next_is_served(
    tmp_path: Path,
) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "file", "version": "1"},
    }
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": params},
        {"id": 2, "method": "a\nmethod"},
        {"id": 3, "method": "tools/call", "params": {"name": "\ud800"}},
        {"id": 4, "method": "ping"},
    ]
    command = [sys.executable, "-m", "exthost", "bridge"]
    with (
        remote_server("http") as url,
        subprocess.Popen(
            [*command, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as bridge,
    ):
        assert bridge.stdin is not None and bridge.stdout is not None
        replies = []
        for line in lines:
            bridge.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
            bridge.stdin.flush()
            replies.append(json.loads(bridge.stdout.readline()))
        bridge.stdin.close()
        assert bridge.wait(90) == 0
    assert [reply["id"] for reply in replies] == [1, 2, 3, 4]
    assert ["error" in reply for reply in replies] == [False, True, True, False]


# -- logins ----------------------------------------------------------------------------------------


async def test_tokens_are_kept_in_a_file_that_only_the_user_can_read(tmp_path: Path) -> None:
    from mcp.shared.auth import OAuthToken

    tokens = TokenFile(tmp_path / "a" / "b")
    assert await tokens.get_tokens() is None and not tokens.exists()
    await tokens.set_tokens(OAuthToken(access_token="hush"))
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(tokens.path.parent.stat().st_mode) == 0o700
    stored = await tokens.get_tokens()
    assert stored is not None and stored.access_token == "hush"
    tokens.path.chmod(0o644)
    with pytest.raises(Refused) as caught:
        await tokens.get_tokens()
    assert caught.value.code == "X1806" and "hush" not in caught.value.message
    assert tokens.delete() and not tokens.delete()
    tokens.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        await tokens.get_tokens()


async def test_a_login_that_never_returns_ends_at_its_time_limit(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, and never answers
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server = RemoteServer(url, {}, "auto", TokenFile(tmp_path))
        with pytest.raises(Refused, match="not completed within") as caught:
            await log_in(server, 0.2)
        assert caught.value.code == "X1808"


async def test_the_redirect_of_a_browser_completes_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_urls: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened_urls.append)
    async with browser_login("https://h.example/mcp", TokenFile(tmp_path)) as login:
        context = login.context
        assert context.redirect_handler is not None and context.callback_handler is not None
        assert context.client_metadata.redirect_uris is not None
        redirect = str(context.client_metadata.redirect_uris[0])
        await context.redirect_handler("https://h.example/authorize")
        assert opened_urls == ["https://h.example/authorize"]
        with pytest.raises(Refused):
            await context.redirect_handler("file:///etc/passwd")
        assert "404" in await _get(redirect.replace("/callback", "/favicon.ico"))
        assert "logged in" in await _get(f"{redirect}?code=c&state=s")
        answer = await context.callback_handler()
        assert (answer.code, answer.state) == ("c", "s")
    async with browser_login("https://h.example/mcp", TokenFile(tmp_path)) as login:
        context = login.context
        assert context.callback_handler is not None
        assert context.client_metadata.redirect_uris is not None
        await _get(f"{context.client_metadata.redirect_uris[0]}?error=access_denied")
        with pytest.raises(Refused, match="access_denied"):
            await context.callback_handler()
    assert login_failed_error("x").exit_code == 4


async def test_the_next_login_asks_for_the_scope_that_a_call_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_urls: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened_urls.append)
    url, tokens = "https://h.example/mcp", TokenFile(tmp_path)
    refuse = stored_login(url, tokens).context.redirect_handler
    assert refuse is not None
    with pytest.raises(Refused) as caught:
        await refuse("https://h.example/authorize?scope=read+write&state=s")
    assert caught.value.code == "X1807"
    async with browser_login(url, tokens) as login:
        assert login.context.redirect_handler is not None
        await login.context.redirect_handler("https://h.example/authorize?scope=list+read&state=t")
    assert opened_urls == ["https://h.example/authorize?scope=list+read+write&state=t"]


async def test_a_second_login_uses_neither_the_tokens_nor_the_registration_of_the_first(
    tmp_path: Path,
) -> None:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

    tokens = TokenFile(tmp_path)
    await tokens.set_tokens(OAuthToken(access_token="first"))
    await tokens.set_client_info(OAuthClientInformationFull(client_id="first"))
    async with browser_login("https://h.example/mcp", tokens) as login:
        storage = login.context.storage
        assert await storage.get_tokens() is None and await storage.get_client_info() is None
        await storage.set_tokens(OAuthToken(access_token="second"))
    stored = await tokens.get_tokens()
    assert stored is not None and stored.access_token == "second"


async def _get(url: str) -> str:
    """Request a page; return the whole response."""
    host, _, target = url.removeprefix("http://").partition("/")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    writer.write(f"GET /{target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


def test_each_url_has_a_separate_token_folder(environ: dict[str, str]) -> None:
    first, second = (token_folder(f"https://h/{path}", environ) for path in ("a", "b"))
    assert first != second and first.startswith(environ["EXTHOST_HOME"])


@pytest.mark.parametrize(
    ("arguments", "value", "message"),
    [
        (["--token-from", "TOK"], "käse", "an HTTP header cannot have"),
        (["--header", "X-Key=TOK"], "a\nb", "an HTTP header cannot have"),
        (["--header", "X Key=TOK"], "a", "'X Key=TOK' is not a header and its variable"),
        (["--header", "TOK"], "a", "'TOK' is not a header and its variable"),
    ],
)
def test_a_header_that_cannot_be_sent_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], value: str, message: str
) -> None:
    monkeypatch.setenv("TOK", value)
    result = run_inside("bridge", "http://127.0.0.1:1", *arguments)
    assert result.returncode == 2 and message in result.stderr


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://user:secret@h.example/a?key=b", "https://h.example"),
        ("http://[::1]:8080/a", "http://[::1]:8080"),
        ("http://h.example:0/", "http://h.example:0"),
    ],
)
def test_messages_name_the_origin_of_a_server_alone(tmp_path: Path, url: str, origin: str) -> None:
    assert RemoteServer(url, {}, "auto", TokenFile(tmp_path)).origin == origin
