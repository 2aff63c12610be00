"""Tools in the forms of model APIs; the tool calls in a response are run and answered.

`host.tools.as_openai()`, `as_anthropic()` and `as_gemini()` return the tools for a request to a
model. `host.run_calls(response)` finds the tool calls in the response of the model, runs them, and
returns the messages with their results for the next request. No test needs a model: the tests
contain the responses.
"""

import asyncio
import base64
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import exthost
from exthost.dialects.meanings import Progress
from exthost.errors import UsageError
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.model.offer import RegisteredTool

TEXT = Path(__file__).parents[3] / "examples" / "morphir" / "text.py"
ENTRY = {
    "name": "text",
    "source": {"type": "process", "command": sys.executable, "args": [str(TEXT)]},
}


@pytest.mark.parametrize("schema", [None, True, {}, {"type": "array"}, {"type": "object"}])
def test_the_schema_of_every_tool_is_an_object(schema: Any) -> None:
    tools = RegisteredTools({"a_b": RegisteredTool("a_b", "", schema, tool="b", extension="a")})
    [openai], [anthropic], [mcp] = tools.as_openai(), tools.as_anthropic(), tools.as_mcp()
    expected = {"type": "object", "properties": {}}
    assert openai["function"]["parameters"] == anthropic["input_schema"] == mcp["inputSchema"]
    assert mcp["inputSchema"] == expected
    assert openai["function"]["description"] == anthropic["description"] == "b"


def function_call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


async def test_calls_of_openai_and_anthropic_are_run_and_answered() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        name = "ext_text_shout"
        assert name in [tool["function"]["name"] for tool in host.tools.as_openai()]
        arguments = json.dumps({"text": "hi"})
        message = {
            "role": "assistant",
            "tool_calls": [
                function_call("1", name, arguments),
                function_call("2", name, "{"),  # not JSON
                function_call("3", "no", "{}"),  # no such tool
            ],
        }
        answers = await host.run_calls({"choices": [{"message": message}]})
        assert [item["tool_call_id"] for item in answers] == ["1", "2", "3"]
        assert json.loads(answers[0]["content"]) == {"text": "HI"}
        assert answers[1]["content"].startswith("Error: its arguments are not JSON")
        assert answers[2]["content"].startswith("Error: ") and "no" in answers[2]["content"]
        # The SDK of Anthropic returns objects instead of dicts.
        block = SimpleNamespace(type="tool_use", id="x", name=name, input={"text": "hi"})
        invalid_block = {"type": "tool_use", "id": "y", "name": name, "input": {"text": 3}}
        [answer] = await host.run_calls(
            SimpleNamespace(
                role="assistant", content=[{"type": "text", "text": ""}, block, invalid_block]
            )
        )
        assert [(item["tool_use_id"], item["is_error"]) for item in answer["content"]] == [
            ("x", False),
            ("y", True),
        ]
        assert not any(item["content"].startswith("Error: ") for item in answer["content"])


# -- parameters of `run_calls` -------------------------------------------------------------------

MCP_CHILD = Path(__file__).parents[2] / "extensions" / "mcp_child.py"
IMAGE = base64.b64encode(b"\x89PNG an image").decode()
AUDIO = base64.b64encode(b"RIFF a sound").decode()


CHILD = {
    "name": "child",
    "dialect": "mcp",
    "source": {"type": "process", "command": sys.executable, "args": ["-S", "-E", str(MCP_CHILD)]},
}


def tool_use(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """Return a tool call in the form of Anthropic's API."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def outcomes(answers: list[Any]) -> list[tuple[bool, Any]]:
    """Return whether each result in the form of Anthropic's API is an error, and its content."""
    return [(block["is_error"], block["content"]) for block in answers[0]["content"]]


async def test_only_the_chosen_tools_are_called() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        blocks = [
            tool_use("1", "ext_text_shout", text="a"),
            tool_use("2", "ext_text_count", text="a"),
        ]
        for only in (["ext_text_shout"], "ext_*_shout", host.tools.select("text:shout")):
            answers = await host.run_calls(blocks, only=only)
            (shout_failed, _), (count_failed, error) = outcomes(answers)
            assert not shout_failed and count_failed and "cannot be used here" in error
        assert all(failed for failed, _ in outcomes(await host.run_calls(blocks, only=[])))
        assert host["text"].stats.calls == 3  # one of the tool `shout` for each form of `only`


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"context": 5}, "context"),
        ({"timeout": "1"}, "timeout"),
        ({"only": 5}, "a pattern of tools"),
        ({"only": ["ext_*", None]}, "a pattern of tools"),
        ({"media": 5}, "media"),
        ({"media": [[]]}, "media"),
        ({"media": iter(["image"])}, "media"),
        ({"media": ["video"]}, "media"),
        ({"on_progress": 5}, "on_progress"),
        ({"confirm": 5}, "confirm"),
    ],
)
async def test_an_option_of_a_wrong_type_is_reported_and_nothing_is_called(
    options: dict[str, Any], argument: str
) -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        with pytest.raises(UsageError, match=f"^{argument} must be"):
            await host.run_calls([tool_use("1", "ext_text_shout", text="a")], **options)
        assert host["text"].stats.calls == 0
        assert await host.run_calls([tool_use("1", "ext_text_count", text="a")], timeout=None)


def test_wrong_arguments_of_the_list_of_tools_are_reported() -> None:
    tools: Any = RegisteredTools({})
    with pytest.raises(UsageError, match="a pattern of tools must be a text"):
        tools.select(5)
    with pytest.raises(UsageError, match="form must be one of"):
        tools.changes("x")


async def test_answers_have_no_lone_surrogates() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        blocks = [
            tool_use("1", "ext_text_\ud800", text="a"),
            tool_use("2", "ext_text_shout", text="\ud800"),
            tool_use("3", "ext_text_shout", text=["\ud800"]),
        ]
        for confirm in (None, lambda question: question.event["call_id"] == "2"):
            [message] = await host.run_calls(blocks, confirm=confirm)
            for block in message["content"]:
                block["content"].encode()


async def test_a_call_that_is_not_confirmed_is_not_made() -> None:
    questions = []

    def confirm(question: Any) -> Any:
        questions.append(question)
        if question.event["arguments"]["text"] == "raise":
            raise RuntimeError("nobody there")
        return question.event["arguments"]["text"] == "yes" or "not True"

    async def confirm_async(question: Any) -> Any:
        return confirm(question)

    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        blocks = [tool_use(text, "ext_text_shout", text=text) for text in ("yes", "no", "raise")]
        for function in (confirm, confirm_async):
            answers = outcomes(await host.run_calls(blocks, confirm=function))
            assert [failed for failed, _ in answers] == [False, True, True]
            assert "not confirmed" in answers[1][1] and "not confirmed" in answers[2][1]
        assert host["text"].stats.calls == 2  # "yes" of each function
        assert questions[0].extension == "text" and '{"text":"yes"}' in questions[0].message


async def test_each_call_has_the_time_limit_and_its_progress_has_the_id_of_the_model() -> None:
    async with exthost.Host.from_config({"extensions": [CHILD]}) as host:
        reports: list[Progress] = []
        blocks = [tool_use("one", "ext_child_steps", times=2)]
        await host.run_calls(blocks, on_progress=reports.append)
        assert [(report.id, report.progress) for report in reports] == [("one", 1), ("one", 2)]
        hanging = [tool_use("two", "ext_child_hang")]
        [(failed, error)] = outcomes(await host.run_calls(hanging, timeout=0.2))
        assert failed and "0.2" in error


@pytest.mark.more
async def test_ten_thousand_calls_are_answered_in_order_a_few_at_a_time() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        most_unfinished = 0

        def count_unfinished(_: Any) -> None:
            nonlocal most_unfinished
            stats = host["text"].stats
            most_unfinished = max(most_unfinished, stats.in_flight + stats.waiting)

        host.events.subscribe(exthost.events.CallEnded, count_unfinished)
        blocks = [tool_use(str(n), "ext_text_shout", text=str(n)) for n in range(10_000)]
        [answer] = await host.run_calls(blocks)
        texts = [json.loads(block["content"])["text"] for block in answer["content"]]
        assert texts == [str(n) for n in range(10_000)]
        assert 1 < most_unfinished <= 64  # the calls that `run_calls` makes at the same time


async def test_a_cancelled_run_cancels_its_calls() -> None:
    async with exthost.Host.from_config({"extensions": [CHILD]}) as host:
        blocks = [tool_use(str(n), "ext_child_hang") for n in range(3)]
        started, all_started = [], asyncio.Event()

        def count(event: exthost.events.CallStarted) -> None:
            started.append(event)
            if len(started) == 3:
                all_started.set()

        host.events.subscribe(exthost.events.CallStarted, count)
        task = asyncio.create_task(host.run_calls(blocks))
        async with asyncio.timeout(30):
            await all_started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert host["child"].stats.cancelled == 3


# -- images and audio ---------------------------------------------------------------------------


CONTENT = [
    {"type": "text", "text": "look"},
    {"type": "image", "data": IMAGE, "mimeType": "image/png"},
    {"type": "audio", "data": AUDIO, "mimeType": "audio/wav"},
    {"type": "image", "data": "not base64!", "mimeType": "image/png"},
    {"type": "image", "data": IMAGE, "mimeType": "image/svg+xml"},
]
NAME = "ext_child_typed"
RESULT = {"content": CONTENT, "structuredContent": {"sum": 1}}
ARGUMENTS = json.dumps(RESULT)


async def test_images_and_audio_are_sent_in_the_form_of_each_api() -> None:
    async with exthost.Host.from_config({"extensions": [CHILD]}) as host:
        url = f"data:image/png;base64,{IMAGE}"
        message = {"role": "assistant", "tool_calls": [function_call("1", NAME, ARGUMENTS)]}
        tool, user = await host.run_calls(message)
        notes = "[audio: audio/wav]\n[image: image/png]\n[image: image/svg+xml]"
        assert tool["content"] == f"look\n{notes}"
        assert user["role"] == "user" and user["content"][1]["image_url"] == {"url": url}
        item = {"type": "function_call", "call_id": "1", "name": NAME, "arguments": ARGUMENTS}
        [output] = await host.run_calls({"object": "response", "output": [item]})
        assert output["call_id"] == "1" and output["type"] == "function_call_output"
        assert output["output"][0] == {"type": "input_text", "text": "look"}
        assert output["output"][1]["image_url"] == url
        [[_, blocks]] = outcomes(await host.run_calls([tool_use("1", NAME, **RESULT)]))
        source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
        assert blocks[1] == {"type": "image", "source": source}
        assert [block["type"] for block in blocks] == ["text", "image", "text", "text", "text"]
        part = {"functionCall": {"name": NAME, "args": RESULT}}
        response = {"candidates": [{"content": {"role": "model", "parts": [part]}}]}
        [content] = await host.run_calls(response)
        first, image, audio, _ = content["parts"]
        assert first["functionResponse"]["name"] == NAME and content["role"] == "user"
        assert "look" in first["functionResponse"]["response"]["output"]
        assert image["inlineData"] == {"mimeType": "image/png", "data": IMAGE}
        assert audio["inlineData"] == {"mimeType": "audio/wav", "data": AUDIO}


async def test_the_program_sets_the_media_that_its_model_accepts() -> None:
    async with exthost.Host.from_config({"extensions": [CHILD]}) as host:
        message = {"role": "assistant", "tool_calls": [function_call("1", NAME, ARGUMENTS)]}
        _, user = await host.run_calls(message, media=["audio"])
        assert user["content"][1]["input_audio"] == {"data": AUDIO, "format": "wav"}
        [tool] = await host.run_calls(message, media=[])
        assert "[image: image/png]" in tool["content"]
        for media in ("image", ["images"]):
            with pytest.raises(UsageError, match="media must be a list of image, audio, document"):
                await host.run_calls(message, media=media)
