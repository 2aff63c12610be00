"""Tools in the forms of model APIs; the tool calls in a response are run and answered."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import exthost
from exthost.errors import UsageError
from exthost.host.model_api.model_calls import read_calls
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


async def test_calls_of_both_forms_are_run_and_answered() -> None:
    async with exthost.Host.from_config({"extensions": [ENTRY]}) as host:
        name = "ext_text_shout"
        assert name in [tool["function"]["name"] for tool in host.tools.as_openai()]
        arguments = json.dumps({"text": "hi"})
        message = {
            "role": "assistant",
            "tool_calls": [
                function_call("1", name, arguments),
                function_call("2", name, "{"),
                function_call("3", "no", "{}"),
            ],
        }
        answers = await host.run_calls({"choices": [{"message": message}]})
        assert [item["tool_call_id"] for item in answers] == ["1", "2", "3"]
        assert json.loads(answers[0]["content"]) == {"text": "HI"}
        assert answers[1]["content"].startswith("Error: its arguments are not JSON")
        assert answers[2]["content"].startswith("Error: ") and "no" in answers[2]["content"]
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


def test_a_response_without_calls_needs_no_answer() -> None:
    assert read_calls({"role": "assistant", "content": "done"}).messages([]) == []
    assert read_calls([{"type": "text", "text": "done"}]).messages([]) == []


def test_a_document_that_is_not_a_response_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        read_calls({"nonsense": 1})
    assert caught.value.code == "X1330"
