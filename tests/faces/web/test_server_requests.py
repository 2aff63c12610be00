"""Tests of the requests that an MCP server sends to its client, on the web page of a host.

During a call, a server can ask for the fields of a form (elicitation), for a text of the client's
model (sampling), or for the folders of the user (roots). The page shows such a request beside the
call, and a person answers or refuses it. `asking_server.py` has a tool for each of them; its
result is the answer that the server got.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import CallFailed
from exthost.faces.web.page_questions import PageQuestions
from exthost.faces.web.server_requests import ELICITATION, SAMPLING, ServerRequests
from tests.faces.cli.cli_process import run_exthost
from tests.faces.web.browser import chromium, find_program
from tests.faces.web.page_process import Page, entry, page
from tests.faces.web.test_page_api import client, events

SERVER = Path(__file__).with_name("asking_server.py")


def write_config(folder: Path) -> None:
    (folder / "exthost.toml").write_text(entry("asking", "mcp", "-S", "-E", str(SERVER)))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("requests")
    write_config(folder)
    """A host that serves the page, with the server."""
    with page(folder) as running_page:
        yield running_page


@asynccontextmanager
async def call_with_request(
    running: Page, tool: str
) -> AsyncIterator[tuple[Any, dict[str, Any], Any]]:
    """Call a tool. Yield the HTTP client, the request that the server sends during the call, and
    the further events of the call."""
    body = {"extension": "asking", "tool": tool, "arguments": {}, "timeout": 100}
    async with client(running) as http, http.stream("POST", "api/call", json=body) as reply:
        rest = events(reply)
        async for event in rest:
            if event["kind"] == "request":
                yield http, event, rest
                break


async def read_answer(rest: Any) -> Any:
    """Return the answer that the server got, which is the text of the result."""
    last = [event async for event in rest][-1]
    return json.loads(last["result"]["text"])


@pytest.mark.more
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_form_of_a_server_is_filled_in_or_refused(running: Page, agreed: bool) -> None:
    async with call_with_request(running, "form") as (http, request, rest):
        assert request["method"] == "elicitation/create" and request["extension"] == "asking"
        assert request["message"] == "Where <b>to</b>?"
        assert request["params"]["requestedSchema"]["required"] == ["city"]
        body = {"question": request["question"], "agreed": agreed, "value": {"city": "Lima"}}
        assert (await http.post("api/answer", json=body)).status_code == 200
        assert (await http.post("api/answer", json=body)).status_code == 404  # it is answered
        accepted = {"action": "accept", "content": {"city": "Lima"}}
        assert await read_answer(rest) == (accepted if agreed else {"action": "decline"})


@pytest.mark.more
async def test_a_person_writes_the_answer_of_a_model_or_refuses(running: Page) -> None:
    async with call_with_request(running, "sample") as (http, request, rest):
        assert "A haiku, please" in request["shown"] and "You are a poet" in request["shown"]
        value = {"text": "frog", "model": "basho"}
        body = {"question": request["question"], "agreed": True, "value": value}
        await http.post("api/answer", json=body)
        answer = await read_answer(rest)
        assert answer["content"] == {"type": "text", "text": "frog"}
        assert answer["model"] == "basho" and answer["role"] == "assistant"
    async with call_with_request(running, "sample") as (http, request, rest):
        await http.post("api/answer", json={"question": request["question"], "agreed": False})
        error = (await read_answer(rest))["error"]
        assert error["code"] == -1 and "refused" in error["message"]


@pytest.mark.more
async def test_the_page_has_the_roots_of_a_server(running: Page) -> None:
    body = {"extension": "asking", "tool": "roots", "arguments": {}}
    async with client(running) as http:
        for wrong in ("file:///a", ["/a"], [1]):
            refused = await http.post("api/roots", json={"name": "asking", "roots": wrong})
            assert refused.status_code == 400
        saved = await http.post("api/roots", json={"name": "asking", "roots": ["file:///srv/a"]})
        assert saved.json() == {"roots": ["file:///srv/a"]}
        async with http.stream("POST", "api/call", json=body) as reply:
            assert await read_answer(events(reply)) == {"roots": [{"uri": "file:///srv/a"}]}


async def test_a_request_without_an_open_page_is_refused_at_once() -> None:
    requests = ServerRequests(PageQuestions())
    for method in (SAMPLING, ELICITATION):
        with pytest.raises(CallFailed) as caught:
            await requests.answer("asking", method, {})
        assert caught.value.code == "X1933"
        assert "no page of the host is open" in caught.value.error_message
    assert await requests.answer("asking", "roots/list", None) == {"roots": []}


async def test_a_request_outside_of_a_page_call_is_shown_on_every_page() -> None:
    questions = PageQuestions()
    requests = ServerRequests(questions)
    following = questions.follow()  # as an open page does
    assert await anext(following) == {"questions": []}
    answer = asyncio.create_task(requests.answer("asking", ELICITATION, {"message": "x\u202ey"}))
    (shown,) = (await anext(following))["questions"]
    assert shown["kind"] == "request" and shown["message"] == "x\\u202ey"
    questions.answer(shown["question"], True, {"a": 1})
    assert await answer == {"action": "accept", "content": {"a": 1}}
    await following.aclose()


@pytest.mark.more
def test_requests_are_answered_in_a_browser_beside_the_call(tmp_path: Path) -> None:
    if find_program() is None:
        pytest.skip("there is no Chromium (make browser installs it if it can)")
    write_config(tmp_path)
    with page(tmp_path) as running, chromium(tmp_path) as browser:
        browser.set_screen(width=1200, height=800)
        browser.go(f"{running.url}?token={running.token}")
        browser.click(".ext[data-id=asking]")

        form = "details[data-tool=form]"
        browser.click(f"{form} summary")
        browser.click(f"{form} button.primary")
        browser.wait_for_text("Where <b>to</b>?", f"{form} .question")
        # An answer without the required field is not sent: the form shows the problem.
        browser.click(f"{form} .question .agree")
        browser.wait_for(f"document.querySelector('{form} .question [aria-invalid=true]')")
        browser.evaluate(
            f"(input => {{ input.value = 'Lima'; input.dispatchEvent(new Event('input', "
            f"{{bubbles: true}})) }})(document.querySelector('{form} .question input[type=text]'))"
        )
        browser.click(f"{form} .question .agree")
        browser.wait_for_text("Lima", f"{form} .end")
        browser.wait_for_text("elicitation/create: answered", f"{form} .requests")
        # The messages beside the call have the request of the server.
        browser.wait_for_text("elicitation/create", f"{form} .messages")

        sample = "details[data-tool=sample]"
        browser.click(f"{sample} summary")
        browser.click(f"{sample} button.primary")
        browser.wait_for_text("A haiku, please", f"{sample} .question")
        browser.click(f"{sample} .question .decline")
        browser.wait_for_text("refused", f"{sample} .end")

        browser.go(f"{running.url}#/x/asking/roots")
        browser.wait_for("document.querySelector('textarea.roots:enabled')")
        browser.evaluate("document.querySelector('textarea.roots').value = 'file:///srv/b'")
        browser.click(".save-roots")
        browser.wait_for_text("the server was notified", "main")
        called = run_exthost(tmp_path, "call", "ext_asking_roots")
        assert "file:///srv/b" in called.stdout
        assert browser.page_errors() == []
