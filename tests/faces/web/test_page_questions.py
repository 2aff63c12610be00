"""Tests of the questions that the web page shows: may this call be made?

A rule of the config (`do = "ask"`) or a hook of an extension can require that a person agrees to a
call. If the call was made on the page, that page gets the question among the events of the call.
If the caller cannot be asked, as with `exthost call`, all open pages get it (`api/questions`). The
person answers by a request to `api/answer`.

The tests run a host with the page, and send the requests of the page's JavaScript.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from exthost.errors import NotFound, Refused
from exthost.extension.confirmation import Confirmation
from exthost.faces.web import page_questions
from exthost.faces.web.page_questions import PageQuestions
from tests.extensions.harness import wait_until
from tests.extensions.synaps_tree import write_plugin
from tests.faces.cli.cli_process import run_exthost
from tests.faces.web.page_process import Page, page, showcase_config
from tests.faces.web.test_page_api import call, client, events

# The example extension `showcase` has many tools. One of them is denied, and `echo` needs a yes.
HIDDEN = '[overrides.showcase]\ntools = { deny = ["crash"] }\n'
RULE = '[[rules]]\ntools = "showcase:echo"\ndo = "ask"\nreason = "look first"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a config with `showcase`, and with `guard`, whose hook asks about `chart`."""
    folder = tmp_path_factory.mktemp("questions")
    asks = {"hooks": {"before_tool_call": {"action": "confirm", "message": "really?"}}}
    hooks = [{"hook": "before_tool_call", "tool": "ext_showcase_chart"}]
    write_plugin(folder / "plugins" / "guard", asks, hooks=hooks)
    discovery = f'[discovery]\nsearch_paths = ["{folder / "plugins"}"]\n'
    audit = f'[audit]\npath = "{folder / "audit.jsonl"}"\n'
    showcase_config(folder, RULE, HIDDEN, discovery, audit)
    return folder


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Page]:
    """A host that serves the page."""
    with page(folder) as running_page:
        yield running_page


class CallWithQuestion:
    """A call on the page whose question has come.

    `question` is the event with the question, `id` is its id, and `rest` are the further events.
    """

    def __init__(self, http: httpx2.AsyncClient, question: dict[str, Any], rest: Any) -> None:
        self.http, self.question, self.rest = http, question, rest
        self.id = question["question"]

    async def answer(self, agreed: Any, question_id: Any = None) -> httpx2.Response:
        """Answer this question, or the one with this id."""
        body = {"question": question_id or self.id, "agreed": agreed}
        return await self.http.post("api/answer", json=body)

    async def end(self) -> dict[str, Any]:
        """Return the last event, which has the result or the error of the call."""
        last_event: dict[str, Any] = [event async for event in self.rest][-1]
        return last_event


@asynccontextmanager
async def call_with_question(
    running: Page, text: str, tool: str = "echo", **more: Any
) -> AsyncIterator[CallWithQuestion]:
    """Call a tool on the page, wait for the question, and yield the call."""
    arguments = {"text": text} if tool == "echo" else {}
    body = {"extension": "showcase", "tool": tool, "arguments": arguments, "timeout": 100, **more}
    async with (
        client(running) as http,
        http.stream("POST", "api/call", json=body) as answer,
    ):
        rest = events(answer)
        async for event in rest:
            assert event["kind"] in ("question", "log"), event
            if event["kind"] == "question":
                yield CallWithQuestion(http, event, rest)
                break


def outcomes(folder: Path) -> list[str]:
    """Return the outcome of each call that a rule applied to, from the audit log."""
    lines = map(json.loads, (folder / "audit.jsonl").read_text().splitlines())
    return [line["outcome"] for line in lines if line["method"] == "rules"]


async def test_the_page_shows_the_call_and_a_yes_makes_it(running: Page, folder: Path) -> None:
    async with call_with_question(running, "a \u202e b") as pending:
        shown = pending.question
        assert "look first" in shown["message"] and shown["extension"] == ""
        assert shown["tool"] == "ext_showcase_echo" and 0 < shown["seconds"] <= 100
        assert shown["arguments"] == '{"text":"a \\u202e b"}', "no character hides another"
        assert (await pending.answer(True)).status_code == 200
        assert (await pending.end())["result"]["text"] == "a \u202e b"
    assert outcomes(folder)[-1] == "agreed"


@pytest.mark.parametrize("agreed", [False, None, "yes", 1, [True]])
async def test_any_other_answer_is_a_no(running: Page, folder: Path, agreed: Any) -> None:
    async with call_with_question(running, "a") as pending:
        assert (await pending.answer(agreed)).status_code == 200
        assert (await pending.end())["error"]["code"] == "X1842"
    assert outcomes(folder)[-1] == "declined"


async def test_an_answer_counts_once_and_for_its_own_call(running: Page) -> None:
    async with (
        call_with_question(running, "first") as first,
        call_with_question(running, "second") as second,
    ):
        assert first.id != second.id
        for unknown in ("1", "", 1, None, ["x"], "x" * 10_000):
            body = {"question": unknown, "agreed": True}
            refused = await first.http.post("api/answer", json=body)
            assert refused.status_code == 404 and refused.json()["error"]["code"] == "X1846"
        assert (await first.answer(False)).status_code == 200
        again = await second.answer(True, question_id=first.id)
        assert again.status_code == 404, "the first answer has counted"
        assert (await first.end())["error"]["code"] == "X1842"
        assert (await second.answer(True)).status_code == 200
        assert (await second.end())["result"]["text"] == "second"


async def test_an_answer_needs_the_token(running: Page) -> None:
    async with call_with_question(running, "a") as pending:
        body = {"question": pending.id, "agreed": True}
        async with client(running, Authorization="") as stranger:
            assert (await stranger.post("api/answer", json=body)).status_code == 401
        assert (await pending.answer(False)).status_code == 200
        assert (await pending.end())["error"]["code"] == "X1842"


@pytest.mark.more
async def test_a_question_without_an_answer_in_time_counts_as_a_no(
    running: Page, folder: Path
) -> None:
    async with call_with_question(running, "a", timeout=0.3) as pending:
        end = await pending.end()
        assert end["error"]["code"] == "X1842" and "no answer arrived" in end["error"]["message"]
        assert (await pending.answer(True)).status_code == 404
    assert outcomes(folder)[-1] == "unanswered"


@asynccontextmanager
async def open_page(running: Page) -> AsyncIterator[tuple[httpx2.AsyncClient, Any]]:
    """Open a page, and yield its questions about calls of others, after the first empty list."""
    async with client(running) as http, http.stream("GET", "api/questions") as answer:
        following = events(answer)
        assert (await anext(following))["questions"] == []
        yield http, following


async def test_every_open_page_is_asked_about_a_caller_that_cannot_be_asked(
    running: Page, folder: Path
) -> None:
    arguments = ("call", "ext_showcase_echo", "text=hi")
    refused = await asyncio.to_thread(run_exthost, folder, *arguments)
    assert refused.returncode == 4 and "no page is open" in refused.stderr
    async with open_page(running) as (http, first), open_page(running) as (_, second):
        for agreed in (True, False):
            calling = asyncio.ensure_future(asyncio.to_thread(run_exthost, folder, *arguments))
            ([question], same) = [(await anext(each))["questions"] for each in (first, second)]
            assert same == [question] and question["arguments"] == '{"text":"hi"}'
            body = {"question": question["question"], "agreed": agreed}
            assert (await http.post("api/answer", json=body)).status_code == 200
            again = await http.post("api/answer", json=body | {"agreed": True})
            assert again.status_code == 404, "the first answer counts"
            result = await calling
            assert result.returncode == (0 if agreed else 4), result.stderr
            for each in (first, second):
                assert (await anext(each))["questions"] == []


async def test_questions_to_all_pages_are_bounded_in_number_and_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_questions, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(page_questions, "MAX_SHARED_QUESTIONS", 2)
    questions = PageQuestions()
    confirmation = Confirmation("", "?", "rules", {"tool_name": "x", "arguments": {}})
    async with aclosing(questions.follow()) as following:
        await anext(following)
        asking = [questions.confirm(confirmation) for _ in range(3)]
        errors = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(error, Refused) for error in errors)
    assert [str(error).count("no answer came") for error in errors] == [1, 1, 0]
    with pytest.raises(Refused, match="no page is open"):
        await questions.confirm(confirmation)


async def test_a_question_ends_with_its_call() -> None:
    questions, sent = PageQuestions(), []  # type: PageQuestions, list[Any]

    async def send(event: Any) -> None:
        sent.append(event)

    question = {"extension": "", "message": "?", "hook": "rules", "event": {}, "seconds": 1.0}
    asking = asyncio.ensure_future(questions.ask(question, send))
    await wait_until(lambda: bool(sent))
    asking.cancel()
    with pytest.raises(NotFound):
        questions.answer(sent[0]["question"], True)
    await asyncio.wait([asking])
    assert asking.cancelled()


async def test_long_arguments_are_shown_in_part(running: Page) -> None:
    async with call_with_question(running, "x" * 1_000_000) as pending:
        shown = pending.question["arguments"]
        assert len(shown) < 21_000 and shown.endswith("more characters")
        await pending.answer(False)
        await pending.end()


async def test_the_page_answers_the_questions_of_hooks(running: Page) -> None:
    async with call_with_question(running, "", tool="chart") as pending:
        assert (pending.question["extension"], pending.question["message"]) == (
            "guard",
            "really?",
        )
        assert (await pending.answer(True)).status_code == 200
        assert (await pending.end())["result"]["content"][0]["type"] == "image"


async def test_a_denied_tool_does_not_exist_for_the_page(running: Page) -> None:
    async with client(running) as http:
        extension = (await http.get("api/extension", params={"name": "showcase"})).json()
    names = {tool["name"] for tool in extension["tools"]}
    assert "echo" in names and "crash" not in names
    (end,) = await call(running, extension="showcase", tool="crash", arguments={})
    assert end["error"]["code"] == "X1202"
