"""Tests of the HTTP API of a host's web page (`exthost run --web PORT`).

The tests send the requests that the JavaScript of the page sends, to a real host with the example
extensions `showcase`, `fragile` and `notes`. Other modules use `client`, `events` and `call`.
"""

import asyncio
import http.client
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.faces.cli.cli_process import RUN_SECONDS, run_exthost, run_json, run_process
from tests.faces.web.page_process import PLUGINS, Page, page, showcase_config
from tests.faces.web.showcase import ATTACK


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the config."""
    folder = tmp_path_factory.mktemp("page")
    showcase_config(folder, f'[discovery]\nsearch_paths = ["{PLUGINS / "notes"}"]\n')
    return folder


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Page]:
    """The page of a host for all tests of this module."""
    with page(folder) as running:
        yield running


@asynccontextmanager
async def client(running: Page, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield an HTTP client with the token of the page."""
    timeout = httpx2.Timeout(RUN_SECONDS)
    async with httpx2.AsyncClient(
        base_url=running.url, headers=running.headers | headers, timeout=timeout, verify=False
    ) as session:
        yield session


async def events(answer: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of an event stream."""
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def call(running: Page, traceparent: str = "", **body: Any) -> list[dict[str, Any]]:
    """Make a call by the API; return its events, the last of which has the result or the error."""
    async with (
        client(running, **({"traceparent": traceparent} if traceparent else {})) as http,
        http.stream("POST", "api/call", json=body) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        return [event async for event in events(answer)]


# -- access ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("", {}, 200),
        ("", {"Authorization": ""}, 401),
        ("?token=wrong", {"Authorization": ""}, 401),
        ("?token={token}", {"Authorization": ""}, 303),
        ("static/app.js", {"Authorization": ""}, 401),
        ("static/app.js", {}, 200),
        ("static/style.css", {"Authorization": ""}, 200),
        ("static/../page.py", {}, 404),
        ("static/%2e%2e/page.py", {}, 404),
        ("api/host", {}, 200),
        ("api/host", {"Authorization": ""}, 401),
        ("api/host", {"Authorization": "Bearer wrong"}, 401),
        ("api/host", {"Host": "attacker.example"}, 421),
        ("api/host", {"Host": "localhost:1"}, 200),
        ("api/host", {"Origin": "https://attacker.example"}, 403),
        ("api/host", {"Origin": "null"}, 403),
        ("api/host", {"Origin": "http://localhost:5173"}, 403),
        ("api/host", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ("api/extension?name=nobody", {}, 404),
        ("api/frames?name=showcase&from=x&to=1", {}, 400),
        ("healthz", {"Authorization": ""}, 200),
        ("healthz", {"Authorization": "", "Host": "attacker.example"}, 421),
        ("metrics", {"Authorization": ""}, 401),
        ("metrics", {"Host": "attacker.example"}, 421),
        ("metrics", {}, 200),
    ],
)
async def test_requests_without_the_token_or_from_other_origins_are_refused(
    running: Page, path: str, headers: dict[str, str], status: int
) -> None:
    async with client(running) as http:
        answer = await http.get(path.replace("{token}", running.token), headers=headers)
    assert answer.status_code == status, answer.text


async def test_the_token_sets_a_cookie_that_gives_access_only_to_the_page(
    running: Page,
) -> None:
    async with client(running, Authorization="") as http:
        answer = await http.get("", params={"token": running.token})
        assert answer.headers["location"] == f"/#token={running.token}"
        assert "httponly" in answer.headers["set-cookie"].lower()
        assert running.token not in answer.headers["set-cookie"]
        assert (await http.get("")).status_code == 200
        assert (await http.get("api/host")).status_code == 401, (
            "the cookie gives no access to the API"
        )
        form = await http.post("login", data={"token": "wrong"})
        assert form.status_code == 401
        form = await http.post("login", data={"token": running.token})
        assert form.status_code == 303


async def test_responses_have_strict_security_headers(running: Page) -> None:
    async with client(running) as http:
        answers = [await http.get(path) for path in ("", "static/app.js", "api/host")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("api/steer", "application/json", b'{"verb": "explode", "name": "showcase"}'),
        ("api/steer", "text/plain", b'{"verb": "stop", "name": "showcase"}'),
        ("api/steer", "application/json", b"["),
        ("api/steer", "application/json", b"[]"),
        ("api/call", "application/json", b'{"extension": "showcase", "timeout": "soon"}'),
        ("api/call", "application/json", b'{"extension": "showcase", "timeout": true}'),
    ],
)
async def test_an_invalid_request_is_an_error(
    running: Page, path: str, kind: str, body: bytes
) -> None:
    async with client(running) as http:
        answer = await http.post(path, content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "X1395"


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999", "x", ""])
async def test_an_invalid_number_is_an_error(running: Page, number: str) -> None:
    async with client(running) as http:
        for path in ("api/frame?name=showcase&number=", "api/frames?name=showcase&to=1&from="):
            answer = await http.get(path + number)
            assert answer.status_code == 400 and answer.json()["error"]["code"] == "X1395"


# -- responses -------------------------------------------------------------------------------


async def test_the_api_returns_the_tools_and_permissions_of_an_extension(running: Page) -> None:
    async with client(running) as http:
        extension = (await http.get("api/extension", params={"name": "showcase"})).json()
    tools = {tool["name"]: tool for tool in extension["tools"]}
    assert tools["forecast"]["schema"]["required"] == ["city"]
    assert extension["state"] == "ready"
    assert extension["permissions"]["granted"] is None
    assert "network" in extension["permissions"]["in_force"]
    assert [move["state"] for move in extension["moves"]][-3:] == ["ready", "starting", "admitted"]


async def test_a_call_returns_its_progress_and_its_result(running: Page) -> None:
    *progress, end = await call(running, extension="showcase", tool="count", arguments={"steps": 3})
    updates = [item for item in progress if item["kind"] == "progress"]
    assert [(item["progress"], item["total"]) for item in updates] == [(1, 3), (2, 3), (3, 3)]
    assert end["result"]["text"] == "counted to 3" and not end["result"]["is_error"]


async def test_a_call_returns_tables_and_pictures(running: Page) -> None:
    (table,) = await call(running, extension="showcase", tool="forecast", arguments={"city": "x"})
    assert len(table["result"]["data"]["forecast"]) == 3
    (picture,) = await call(running, extension="showcase", tool="chart", arguments={})
    (block,) = picture["result"]["content"]
    assert (block["type"], block["mime_type"]) == ("image", "image/png")


async def test_a_stream_is_returned_as_events(running: Page) -> None:
    params = {"command": "export", "args": ["2"]}
    *stream, end = await call(running, extension="notes", method="command.invoke", arguments=params)
    assert {item["kind"] for item in stream} <= {"stream", "log"}
    assert "exported 2 notes\n" in [item.get("shown") for item in stream]
    assert end["kind"] == "result"


async def test_invalid_arguments_are_an_error(running: Page) -> None:
    (end,) = await call(running, extension="showcase", tool="forecast", arguments={"days": 2})
    assert end["kind"] == "error" and "city" in end["error"]["message"]


async def test_the_messages_and_stderr_of_a_failed_call_can_be_requested(running: Page) -> None:
    async with client(running) as http:
        # The messages are recorded from now on.
        await http.get("api/extension", params={"name": "showcase"})
        parent = f"00-{'a' * 32}-{'b' * 16}-01"
        end = (await call(running, parent, extension="showcase", tool="fail", arguments={}))[-1]
        assert end["result"]["is_error"]
        extension = (await http.get("api/extension", params={"name": "showcase"})).json()
        last_call = extension["calls"][0]
        window = {"from": last_call["ended"] - last_call["seconds"], "to": last_call["ended"]}
        answer = await http.get(
            "api/frames", params={"name": "showcase", "outcome": last_call["outcome"], **window}
        )
        records = answer.json()["records"]
    messages = [item for item in records if item["kind"] in ("request", "reply")]
    assert [item["kind"] for item in messages] == ["request", "reply"]
    assert '"fail"' in messages[0]["preview"] and parent in messages[0]["preview"]
    stderr_lines = [item["text"] for item in records if item["kind"] == "stderr"]
    assert "fail: the sensor is not connected" in stderr_lines


async def test_messages_can_be_searched_and_requested_in_full(
    running: Page,
) -> None:
    long = "needle " + "x" * 2000
    async with client(running) as http:
        await http.get("api/watch", params={"name": "showcase"})
        await call(running, extension="showcase", tool="echo", arguments={"text": long})
        query = {"name": "showcase", "search": "NEEDLE request"}
        async with http.stream("GET", "api/traffic", params=query) as answer:
            async for batch in events(answer):
                if batch["records"]:
                    break
        (record,) = batch["records"]
        assert record["is_cut"] and len(record["preview"]) < len(long)
        frame = await http.get("api/frame", params={"name": "showcase", "number": record["number"]})
        assert frame.json()["data"]["arguments"]["text"] == long


async def test_the_event_stream_shows_a_crash_and_the_recovery(running: Page) -> None:
    rows = []
    async with client(running) as http, http.stream("GET", "api/events") as answer:
        changes = events(answer)
        first = await anext(changes)
        assert {row["id"] for row in first["rows"]} >= {"showcase", "fragile", "notes"}
        assert first["order"] is not None
        body: dict[str, Any] = {
            "extension": "fragile",
            "tool": "divide",
            "arguments": {"a": 1, "b": 0},
        }
        (end,) = [item for item in await call(running, **body) if item["kind"] != "log"]
        assert end["error"]["code"] == "X1001"
        async for change in changes:
            rows += [row for row in change["rows"] if row["id"] == "fragile"]
            if rows and rows[-1]["state"] == "ready" and rows[-1]["crashes"]:
                break
    assert rows[-1]["restarts"] == 1 and rows[-1]["last_error"]


async def test_the_api_can_stop_start_restart_and_reload(running: Page, folder: Path) -> None:
    async with client(running) as http:
        for verb, state in (("stop", "stopped"), ("start", "ready"), ("restart", "ready")):
            answer = await http.post("api/steer", json={"verb": verb, "name": "notes"})
            assert answer.json()["state"] == state, answer.text
        answer = await http.post("api/reload", json={})
        assert answer.json()["failed"] == []
        log = (await http.get("api/log", params={"name": "notes"})).json()["lines"]
    assert "stopped" in [line["text"] for line in log]
    rows = await asyncio.to_thread(run_json, folder, "status")
    assert {row["id"] for row in rows["extensions"]} >= {"showcase", "notes"}


async def test_markup_in_a_result_is_returned_as_text(running: Page) -> None:
    (end,) = await call(running, extension="showcase", tool="attack", arguments={})
    assert end["result"]["content"] == [{"type": "text", "text": ATTACK}]


# -- metrics ---------------------------------------------------------------------------------


@pytest.mark.more
async def test_metrics_and_status_count_the_same_calls(running: Page, folder: Path) -> None:
    await call(running, extension="showcase", tool="echo", arguments={"text": "hi"})
    async with client(running) as http:
        text = (await http.get("metrics")).text
        health = await http.get("healthz")
    assert health.json() == {"status": "ok"}
    rows = {
        row["id"]: row
        for row in (await asyncio.to_thread(run_json, folder, "status"))["extensions"]
    }
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    calls = rows["showcase"]["calls"]
    assert calls > 0
    assert float(values['exthost_call_seconds_count{extension="showcase"}']) == calls
    outcomes = ("result", "error", "timeout", "cancelled", "gone")
    assert calls == sum(
        float(values[f'exthost_calls_total{{extension="showcase",outcome="{outcome}"}}'])
        for outcome in outcomes
    )
    assert values['exthost_extension_ready{extension="showcase"}'] == "1.0"


# -- start and end of the service ------------------------------------------------------------


@pytest.mark.more
def test_the_host_ends_while_pages_are_open(tmp_path: Path) -> None:
    showcase_config(tmp_path)
    with page(tmp_path) as running:
        address = urlsplit(running.url)
        browser = http.client.HTTPConnection(address.netloc, timeout=RUN_SECONDS)
        browser.request("GET", "/api/events", headers=running.headers)
        with browser.getresponse() as stream:
            assert stream.readline().startswith(b"data: ")
            running.process.send_signal(signal.SIGTERM)
            _, stderr = running.process.communicate(timeout=RUN_SECONDS)
            stream.read()
        browser.close()
    assert "Traceback" not in stderr and "Exception" not in stderr, stderr


@pytest.mark.more
def test_a_missing_package_and_a_token_file_without_a_service_are_errors(
    tmp_path: Path,
) -> None:
    fake_package = tmp_path / "fake_package" / "starlette"
    fake_package.mkdir(parents=True)
    (fake_package / "__init__.py").write_text("raise ImportError('not here', name='starlette')")
    (tmp_path / "exthost.toml").write_text("")
    path = os.pathsep.join(
        [str(fake_package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    result = run_process("run", "--web", "0", cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})
    assert result.returncode == 3 and "pip install 'exthost[web]'" in result.stderr
    result = run_exthost(tmp_path, "run", "--token-file", "t")
    assert result.returncode == 2 and "X1366" in result.stderr
