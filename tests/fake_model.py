"""A fake model: a server on this machine with the APIs of OpenAI, Anthropic and Gemini.

Tests of frameworks use it in place of a real model. The question tells it what to do: it calls the
tool NAME for each line `call NAME {"a": 1}`, all at once. When it has the results, its answer
repeats them: `It says: TEXTS; images: N`. It refuses a request that the API would refuse, as far as
tests depend on it.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["fake_model", "model_environment"]

CALL = re.compile(r"call ([\w:-]+) (\{.*\})")
# The key of a tool's schema in requests to Gemini.
SCHEMA_KEYS = ("parametersJsonSchema", "parameters_json_schema")
# The names of tools that all APIs accept.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def requested_calls(question: Any) -> list[tuple[str, Any]]:
    """Return the calls that the question names."""
    text = question if isinstance(question, str) else json.dumps(question).replace('\\"', '"')
    return [(name, json.loads(arguments)) for name, arguments in CALL.findall(text)]


def summary(texts: list[str], images: int) -> str:
    """Return the last answer of the model."""
    return f"It says: {'; '.join(texts)}; images: {images}"


def count_images(request: Any) -> int:
    """Return how many PNG images a request has, in the form of any API."""
    text = json.dumps(request)
    return text.count("data:image/png;base64,") + text.count('"image/png", "data"')


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


# -- the APIs ----------------------------------------------------------------------------------


def chat(request: Any) -> Any:
    """Answer a request of OpenAI's chat completions."""
    for tool in request.get("tools") or ():
        function = tool["function"]
        assert NAME.fullmatch(function["name"]) and function["parameters"]["type"] == "object"
    if any(tool["function"]["name"] == "final_answer" for tool in request.get("tools") or ()):
        return chat_of_smolagents(request)
    answered = [message for message in request["messages"] if message["role"] == "tool"]
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if answered:
        texts = [_text_of(item["content"]) for item in answered]
        message["content"] = summary(texts, count_images(request["messages"]))
    else:
        [*_, last] = [item for item in request["messages"] if item["role"] == "user"]
        calls = requested_calls(_text_of(last["content"]))
        assert calls, last
        message["tool_calls"] = function_calls(calls)
    return completion(message)


def chat_of_smolagents(request: Any) -> Any:
    """Answer the framework smolagents, which sends results as messages of the user, and expects the
    last answer as a call of the tool `final_answer`."""
    texts = [_text_of(message["content"]) for message in request["messages"]]
    observed = [text for text in texts if text.startswith("Observation:")]
    [task] = [text for text in texts if text.startswith("New task:")]
    calls = requested_calls(task)
    if observed:
        calls = [("final_answer", {"answer": summary(observed, count_images(request))})]
    return completion({"role": "assistant", "content": None, "tool_calls": function_calls(calls)})


def function_calls(calls: list[tuple[str, Any]]) -> list[Any]:
    """Return these calls in the form of chat completions."""
    return [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for n, (name, arguments) in enumerate(calls)
    ]


def completion(message: Any) -> Any:
    """Return the response of chat completions with this message."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    fields = {"id": "c1", "created": 1, "model": "m", "object": "chat.completion"}
    return fields | {"choices": [choice], "usage": usage}


def chat_chunks(response: Any) -> Iterator[Any]:
    """Yield the response in parts, as the API streams it."""
    fields = {"id": "c1", "created": 1, "model": "m", "object": "chat.completion.chunk"}

    def chunk(delta: Any, reason: str | None = None) -> Any:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return fields | {"choices": [choice]}

    message = response["choices"][0]["message"]
    yield chunk({"role": "assistant", "content": message["content"] or ""})
    for index, call in enumerate(message.get("tool_calls", ())):
        text = call["function"]["arguments"]
        first = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [first]})
        for piece in (text[:3], text[3:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, response["choices"][0]["finish_reason"])


def responses(request: Any) -> Any:
    """Answer a request of OpenAI's Responses API."""
    for tool in request.get("tools") or ():
        assert NAME.fullmatch(tool["name"]) and tool["strict"] is False, tool
    items = request["input"]
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    answered = [item for item in items if item.get("type") == "function_call_output"]
    if answered:
        texts = [
            item["output"]
            if isinstance(item["output"], str)
            else "".join(part.get("text", "") for part in item["output"])
            for item in answered
        ]
        text = {"type": "output_text", "text": summary(texts, count_images(items))}
        content: Any = [{**text, "annotations": []}]
        fields = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
        output = [fields | {"content": content}]
    else:
        output = [
            {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"call_{n}",
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
            for n, (name, arguments) in enumerate(requested_calls(_text_of(items[-1]["content"])))
        ]
        assert output, items
    return {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def responses_events(response: Any) -> Iterator[Any]:
    """Yield the response as the events of a stream."""
    yield {"type": "response.created", "sequence_number": 0, "response": response | {"output": []}}
    for index, item in enumerate(response["output"]):
        started = item | {"status": "in_progress"}
        if item["type"] == "function_call":
            started["arguments"] = ""
        fields = {"sequence_number": 1, "output_index": index}
        yield {"type": "response.output_item.added", **fields, "item": started}
        yield {"type": "response.output_item.done", **fields, "item": item}
    yield {"type": "response.completed", "sequence_number": 2, "response": response}


def anthropic(request: Any) -> Any:
    """Answer a request of Anthropic's Messages API."""
    for tool in request["tools"]:
        assert NAME.fullmatch(tool["name"]) and tool["input_schema"]["type"] == "object"
    last = request["messages"][-1]["content"]
    blocks = [] if isinstance(last, str) else last
    results = [block for block in blocks if block["type"] == "tool_result"]
    if results:
        texts = [_text_of(block["content"]) for block in results]
        content: list[Any] = [{"type": "text", "text": summary(texts, count_images(last))}]
    else:
        content = [
            {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": arguments}
            for n, (name, arguments) in enumerate(requested_calls(_text_of(last)))
        ]
    fields = {"id": "m1", "type": "message", "role": "assistant", "model": "m"}
    reason = "end_turn" if results else "tool_use"
    ends = {"stop_reason": reason, "stop_sequence": None}
    return fields | ends | {"content": content, "usage": {"input_tokens": 1, "output_tokens": 1}}


def anthropic_events(response: Any) -> Iterator[Any]:
    """Yield the response as the events of a stream."""
    started = response | {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": started}
    for index, block in enumerate(response["content"]):
        is_call = block["type"] == "tool_use"
        nothing: dict[str, Any] = {"input": {}} if is_call else {"text": ""}
        empty = block | nothing
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        text = json.dumps(block["input"]) if is_call else block["text"]
        for piece in (text[:3], text[3:]):
            delta = (
                {"type": "input_json_delta", "partial_json": piece}
                if is_call
                else {"type": "text_delta", "text": piece}
            )
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ends = {"stop_reason": response["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ends, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def gemini(request: Any) -> Any:
    """Answer a request of Google's Gemini API."""
    for declaration in request["tools"][0]["functionDeclarations"]:
        assert NAME.fullmatch(declaration["name"]), declaration
        # The API takes both spellings, and its package sends the second one.
        [schema] = [declaration[key] for key in declaration if key in SCHEMA_KEYS]
        assert schema["type"] == "object", request
    last = request["contents"][-1]
    results = [part["functionResponse"] for part in last["parts"] if "functionResponse" in part]
    if results:
        texts = [next(iter(result["response"].values())) for result in results]
        pictures = [part for part in last["parts"] if "inlineData" in part]
        parts: list[Any] = [{"text": summary(texts, len(pictures))}]
    else:
        calls = requested_calls(last["parts"][0]["text"])
        parts = [{"functionCall": {"name": name, "args": args}} for name, args in calls]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}


def gemini_chunks(response: Any) -> Iterator[Any]:
    content = response["candidates"][0]["content"]
    for part in content["parts"]:
        yield {"candidates": [{"content": {**content, "parts": [part]}}]}
    yield {"usageMetadata": {"totalTokenCount": 2}}


# The end of a path, the function that answers, and the function that splits an answer into the
# parts of a stream.
APIS = [
    ("/chat/completions", chat, chat_chunks),
    ("/responses", responses, responses_events),
    ("/messages", anthropic, anthropic_events),
    (":generateContent", gemini, gemini_chunks),
    (":streamGenerateContent", gemini, gemini_chunks),
]


# -- the server --------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of all APIs, by the end of their paths."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        [(answer, stream_parts)] = [row[1:] for row in APIS if path.endswith(row[0])]
        is_stream = request.get("stream") or "streamGenerateContent" in path
        try:
            status, response = 200, answer(request)
        except (AssertionError, KeyError, TypeError, ValueError, IndexError) as error:
            status, response = 400, {"error": {"message": repr(error), "type": "fake"}}
        if status == 200 and is_stream:
            self._send(status, "text/event-stream", b"".join(map(_event, stream_parts(response))))
        else:
            self._send(status, "application/json", json.dumps(response).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _event(piece: Any) -> bytes:
    name = f"event: {piece['type']}\n" if "type" in piece else ""
    return f"{name}data: {json.dumps(piece)}\n\n".encode()


class Server(ThreadingHTTPServer):
    daemon_threads = True  # a client that was ended may leave its connection open


@contextmanager
def fake_model() -> Iterator[str]:
    """Serve the APIs on a free port, and yield the URL."""
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def model_environment(url: str) -> dict[str, str]:
    """Return the variables by which the packages of the APIs use the fake model."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "secret",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "secret",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "secret",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
