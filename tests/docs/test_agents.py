"""Tests of the example agents, with fake servers of the APIs of OpenAI and Anthropic.

An agent asks a model, and calls the tools of extensions that the model requests.

A fake server checks a request as the API would, calls a tool once, and then answers with the result
that it received.
"""

import importlib.util
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

AGENTS = Path(__file__).parents[2] / "examples" / "agent"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CALL = {"name": "ext_text_shout", "arguments": {"text": "hello"}}


def answer_as_openai(path: str, headers: Any, request: Any) -> Any:
    """Return the response of the OpenAI API to a request of the agent."""
    assert path == "/chat/completions" and headers["Authorization"] == "Bearer secret"
    for tool in request["tools"]:
        assert tool["type"] == "function" and NAME.fullmatch(tool["function"]["name"])
        assert tool["function"]["parameters"]["type"] == "object"
    *_, last = request["messages"]
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if last["role"] == "user":
        function = {"name": CALL["name"], "arguments": json.dumps(CALL["arguments"])}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    else:
        call_id = request["messages"][-2]["tool_calls"][0]["id"]
        assert (last["role"], last["tool_call_id"]) == ("tool", call_id)
        message["content"] = f"It says {last['content']}"
    return {"choices": [{"index": 0, "message": message}]}


def answer_as_anthropic(path: str, headers: Any, request: Any) -> Any:
    """Return the response of the Anthropic API to a request of the agent."""
    assert path == "/v1/messages" and headers["x-api-key"] == "secret"
    assert headers["anthropic-version"] and request["max_tokens"]
    for tool in request["tools"]:
        assert NAME.fullmatch(tool["name"]) and tool["input_schema"]["type"] == "object"
    *_, last = request["messages"]
    assert last["role"] == "user"
    if isinstance(last["content"], str):
        tool_use = {
            "type": "tool_use",
            "id": "toolu_1",
            "name": CALL["name"],
            "input": CALL["arguments"],
        }
        return {"role": "assistant", "content": [tool_use], "stop_reason": "tool_use"}
    [block] = last["content"]
    call_id = request["messages"][-2]["content"][0]["id"]
    assert (block["type"], block["tool_use_id"]) == ("tool_result", call_id)
    message = {"type": "text", "text": f"It says {block['content']}"}
    return {"role": "assistant", "content": [message], "stop_reason": "end_turn"}


@contextmanager
def serve_api(answer: Callable[[str, Any, Any], Any]) -> Iterator[str]:
    """Serve an API on a free port, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, reply = 200, answer(self.path, self.headers, request)
            except (AssertionError, KeyError, ValueError) as error:
                status, reply = 400, {"error": repr(error)}
            body = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def load_agent(name: str) -> ModuleType:
    """Import an example agent. It reads its environment variables when it is imported."""
    spec = importlib.util.spec_from_file_location(name, AGENTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "answer"), [("openai", answer_as_openai), ("anthropic", answer_as_anthropic)]
)
async def test_an_example_agent_uses_the_tools_of_extensions(
    name: str, answer: Callable[[str, Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "secret")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve_api(answer) as url:
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", url)
        text = await load_agent(f"{name}_agent").run("Shout hello")
    assert text.startswith("It says ") and "HELLO" in text
