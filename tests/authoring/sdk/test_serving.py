"""The messages that an extension of the SDK sends in a call, after it, and when it is cancelled.

The tests pass messages of the host to an endpoint, the part of the SDK that speaks one dialect
(protocol), and look at the messages that it writes.
"""

import asyncio
import json
import os
import re
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from exthost_sdk.dialects import load_dialect
from exthost_sdk.endpoints.endpoint import Endpoint, Identity
from exthost_sdk.errors import CallCancelled, ToolError
from exthost_sdk.serving.server import Server
from exthost_sdk.wire.loop_writer import LoopWriter

from exthost.sdk import Context, Extension

# A time limit that no test reaches.
LONG_SECONDS = 60.0


# Before each message, in the dialects that do not have a message in a line.
_HEADER = re.compile(rb"Content-Length: [0-9]+\r\n\r\n")


class ListWriter:
    """Keeps the messages that are sent."""

    def __init__(self) -> None:
        self.is_broken = False
        self.messages: list[dict[str, Any]] = []
        self._has_message = threading.Condition()

    def send(self, data: bytes) -> None:
        with self._has_message:
            self.messages += map(json.loads, filter(None, _HEADER.sub(b"\n", data).split(b"\n")))
            self._has_message.notify_all()

    def wait(self) -> Generator[Any, None, None]:
        yield from ()

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        """Return the messages when there are this many."""
        with self._has_message:
            assert self._has_message.wait_for(lambda: len(self.messages) >= count, LONG_SECONDS)
            return self.messages


def identify(extension: Extension, dialect: str) -> Identity:
    manifest = b"provides = []" if dialect == "roder" else None
    return extension.identity(dialect, manifest)


@contextmanager
def serving(extension: Extension, dialect: str = "mcp") -> Iterator[tuple[Endpoint, ListWriter]]:
    """Yield the endpoint of an extension, and the writer that keeps its messages."""
    writer = ListWriter()
    server = Server(writer)
    server.endpoint = endpoint = load_dialect(dialect).endpoint(
        identify(extension, dialect), server
    )
    try:
        yield endpoint, writer
        assert server.wait_until_idle(LONG_SECONDS)
    finally:
        server.close(LONG_SECONDS)


def request(id: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def notification(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def test_progress_and_items_after_the_reply_are_not_sent() -> None:
    ext = Extension("late")
    contexts: list[Context] = []

    @ext.tool
    def work(ctx: Context) -> str:
        contexts.append(ctx)
        ctx.progress(1)
        return "done"

    with serving(ext) as (endpoint, writer):
        endpoint.receive(request(1, "tools/call", name="work", _meta={"progressToken": 7}))
        assert writer.wait_for(2)[0]["params"] == {"progressToken": 7, "progress": 1}
        assert endpoint.server.wait_until_idle(LONG_SECONDS)
        contexts[0].progress(2)
        contexts[0].emit("late")
        assert writer.messages[1]["id"] == 1 and len(writer.messages) == 2


def test_all_requests_of_a_cancelled_call_are_cancelled() -> None:
    ext = Extension("asking")
    outcomes: list[BaseException] = []

    @ext.tool
    def ask_thrice(ctx: Context) -> None:
        def ask() -> None:
            with pytest.raises(CallCancelled) as caught:
                ctx.call("roots/list", timeout=LONG_SECONDS)
            outcomes.append(caught.value)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with serving(ext) as (endpoint, writer):
        endpoint.receive(request(1, "tools/call", name="ask_thrice"))
        writer.wait_for(3)
        endpoint.receive(notification("notifications/cancelled", requestId=1))
        assert endpoint.server.wait_until_idle(LONG_SECONDS)
        requests, cancellations = writer.messages[:3], writer.messages[3:]
        assert {message["method"] for message in cancellations} == {"notifications/cancelled"}
        cancelled_ids = {message["params"]["requestId"] for message in cancellations}
        assert cancelled_ids == {message["id"] for message in requests}
    assert len(outcomes) == 3


def test_a_request_without_an_answer_in_time_is_cancelled_in_the_client() -> None:
    ext = Extension("asking")

    @ext.tool
    def ask(ctx: Context) -> None:
        ctx.call("roots/list", timeout=0.001)

    with serving(ext) as (endpoint, writer):
        endpoint.receive(request(1, "tools/call", name="ask"))
        roots, cancellation, reply = writer.wait_for(3)
    assert cancellation["method"] == "notifications/cancelled"
    assert cancellation["params"]["requestId"] == roots["id"]
    assert "did not answer" in reply["result"]["content"][0]["text"]


def test_two_calls_with_the_same_id_are_both_cancelled_at_the_end() -> None:
    ext = Extension("hanging")
    started, cancelled = threading.Semaphore(0), threading.Semaphore(0)

    @ext.tool
    def hang(ctx: Context) -> None:
        started.release()
        while not ctx.cancelled:
            threading.Event().wait(0.01)
        cancelled.release()

    with serving(ext) as (endpoint, _):
        for _ in range(2):
            endpoint.receive(request(1, "tools/call", name="hang"))
            assert started.acquire(timeout=LONG_SECONDS)
        endpoint.server.cancel_all()
        for _ in range(2):
            assert cancelled.acquire(timeout=LONG_SECONDS)


def test_a_cancellation_whose_id_has_a_wrong_type_is_ignored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(Extension("any")) as (endpoint, _):
        ids: tuple[object, ...] = ([], {}, None)
        for id in ids:
            assert not endpoint.receive(notification("notifications/cancelled", requestId=id))
    assert capsys.readouterr().err == ""


def test_a_request_that_cannot_be_encoded_does_not_wait_for_an_answer() -> None:
    ext = Extension("asking")

    @ext.tool
    def ask(ctx: Context) -> None:
        ctx.call("roots/list", object())

    with serving(ext) as (endpoint, writer):
        endpoint.receive(request(1, "tools/call", name="ask"))
        assert writer.wait_for(1)[0]["result"]["isError"]
        assert not endpoint.server.requests._waiting


def test_the_server_is_idle_only_when_the_reply_was_sent() -> None:
    """The extension may end as soon as the server is idle."""
    ext = Extension("quick")
    idle: list[bool] = []

    @ext.tool(thread=True)
    def work() -> str:
        return "done"

    with serving(ext) as (endpoint, writer):
        send = writer.send

        def observe(data: bytes) -> None:
            idle.append(endpoint.server.is_idle)
            send(data)

        writer.send = observe  # type: ignore[method-assign]
        endpoint.receive(request(1, "tools/call", name="work"))
        writer.wait_for(1)
    assert idle == [False]


async def test_a_call_that_is_cancelled_before_it_runs_does_not_stay() -> None:
    extension = Extension("x")

    @extension.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    server = Server(ListWriter(), loop=asyncio.get_running_loop())
    endpoint = load_dialect("mcp").endpoint(identify(extension, "mcp"), server)
    server.endpoint = endpoint
    assert endpoint.receive(request(1, "tools/call", name="wait", arguments={})) is None
    assert endpoint.receive(notification("notifications/cancelled", requestId=1)) is None
    assert await server.wait_until_idle_async(LONG_SECONDS)


def test_a_command_whose_error_cannot_be_sent_ends_its_task() -> None:
    extension = Extension("x")

    @extension.command
    def build(context: Context) -> None:
        context.progress(1, 2)
        raise ToolError("broken", data=object())

    with serving(extension, "synaps") as (endpoint, writer):
        params = {"command": "build", "args": [], "request_id": "r"}
        assert endpoint.receive(request(1, "command.invoke", **params)) is None
        methods = [message.get("method") for message in writer.wait_for(4)]
    assert methods == ["task.start", "task.update", "task.done", None]


def test_a_method_whose_name_is_nearly_as_long_as_a_message_is_refused() -> None:
    with serving(Extension("x"), "roder") as (endpoint, _):
        reply = endpoint.receive(request(1, "x" * (4 * 2**20 - 60)))
    assert reply is not None and json.loads(reply)["error"]["code"] == -32601


async def test_a_closing_writer_writes_what_a_thread_has_sent() -> None:
    reader_fd, writer_fd = os.pipe()
    try:
        writer = LoopWriter(writer_fd, asyncio.get_running_loop())
        thread = threading.Thread(target=writer.send, args=(b"a reply\n",))
        thread.start()
        thread.join()
        await writer.close()
        os.close(writer_fd)
        writer_fd = -1
        assert os.read(reader_fd, 100) == b"a reply\n"
    finally:
        for fd in (reader_fd, writer_fd):
            if fd >= 0:
                os.close(fd)


# The method and the params that call the tool `work` in each dialect.
TOOL_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "nexo": ("tools/call", {"name": "work"}),
    "roder": ("tools/call", {"toolName": "work"}),
    "mcp": ("tools/call", {"name": "work"}),
}


@pytest.mark.parametrize("execution", ["plain", "thread", "failing"])
@pytest.mark.parametrize("dialect", TOOL_CALLS)
def test_a_tool_call_without_an_id_has_no_reply(dialect: str, execution: str) -> None:
    ext = Extension("quiet")

    @ext.tool(thread=execution == "thread")
    def work() -> str:
        if execution == "failing":
            raise ValueError
        return "done"

    method, params = TOOL_CALLS[dialect]
    with serving(ext, dialect) as (endpoint, writer):
        assert not endpoint.receive(notification(method, **params))
        assert endpoint.server.wait_until_idle(LONG_SECONDS)
        assert writer.messages == []


MALFORMED_REQUESTS: list[tuple[str, str, Any, str]] = [
    ("synaps", "settings.editor.commit", [], "category is missing"),
    ("synaps", "settings.editor.commit", None, "category is missing"),
    (
        "roder",
        "inference/streamTurn",
        {"engineId": "parrot", "streamId": "s", "request": {"tools": 7}},
        "tools must be a list",
    ),
    (
        "roder",
        "inference/streamTurn",
        {"engineId": "parrot", "streamId": "s", "request": {"transcript": "hi"}},
        "transcript must be a list",
    ),
]


@pytest.mark.parametrize(("dialect", "method", "params", "reason"), MALFORMED_REQUESTS)
def test_malformed_params_are_refused_without_a_traceback(
    dialect: str, method: str, params: Any, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ext = Extension("strict")
    ext.provider("parrot", models=["parrot-1"])(lambda turn: turn.prompt)
    ext.settings_editor("looks", "colour")(lambda event: None)
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with serving(ext, dialect) as (endpoint, _):
        reply = endpoint.receive(json.dumps(message).encode())
    assert reply is not None
    error = json.loads(reply[reply.index(b"{") :])["error"]  # after the header of synaps
    assert (error["code"], error["message"]) == (-32602, f"{method}: {reason}")
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("meta", [None, [], ["a"], "text", 7])
def test_a_meta_that_is_not_an_object_is_ignored(meta: Any) -> None:
    ext = Extension("lenient")

    @ext.tool
    def work(ctx: Context) -> dict[str, Any]:
        return dict(ctx.meta)

    with serving(ext) as (endpoint, writer):
        arguments = {"_meta": {"agent": "a"}}
        endpoint.receive(request(1, "tools/call", name="work", arguments=arguments, _meta=meta))
        assert writer.wait_for(1)[0]["result"]["structuredContent"] == {"agent": "a"}


@pytest.mark.parametrize("how", ["item", "progress", "error"])
def test_messages_that_are_too_large_for_the_host_fail_the_call(how: str) -> None:
    """A host of roder reads no line above 4 MiB, so it would drop such a message."""
    ext = Extension("large")
    text = "x" * 5 * 2**20

    @ext.stream
    def work(ctx: Context) -> Iterator[str]:
        if how == "progress":
            ctx.progress(1, message=text)
        if how == "error":
            raise ToolError("refused", data=text)
        yield text

    with serving(ext, "roder") as (endpoint, writer):
        params = {"executorId": "work", "executionId": "e"}
        endpoint.receive(request(1, "tasks/execute", **params))
        event = writer.wait_for(2)[1]["params"]["event"]
        assert event["type"] == "failed"
        assert ("refused" if how == "error" else "allows 4194304") in event["error"]
        endpoint.receive(request(2, "tools/call", toolName="work"))
        result = writer.wait_for(3)[2]["result"]
        assert result["isError"]


def test_the_data_of_an_error_that_is_too_large_is_left_out() -> None:
    ext = Extension("large")

    @ext.tool
    def work() -> None:
        raise ToolError("refused", data="x" * 5 * 2**20)

    with serving(ext, "synaps") as (endpoint, _):
        reply = endpoint.receive(request(1, "tool.call", name="work"))
        assert reply is not None
        error = json.loads(reply.partition(b"\r\n\r\n")[2])["error"]
    assert error["message"].startswith("refused") and "data" not in error


def test_a_huge_integer_can_be_reported_as_progress_again() -> None:
    for dialect, count in (("mcp", 2), ("morphir", 3)):
        ext = Extension("huge")

        @ext.tool
        def work(ctx: Context) -> str:
            ctx.progress(10**400, 10**400)
            ctx.progress(10**400)
            return "done"

        with serving(ext, dialect) as (endpoint, writer):
            if dialect == "mcp":
                meta = {"progressToken": 7}
                endpoint.receive(request(1, "tools/call", name="work", _meta=meta))
                first, second = writer.wait_for(3)[:2]
                assert second["params"]["progress"] > first["params"]["progress"]
            else:
                endpoint.receive(request(1, "work"))
            assert "error" not in writer.wait_for(count)[-1]


def test_the_parameters_of_a_resource_template_are_converted_to_their_types() -> None:
    ext = Extension("library")

    @ext.resource("pages://{book}/{number}")
    def page(book: str, number: int) -> str:
        return f"{book}: {number + 1}"

    with serving(ext) as (endpoint, writer):
        endpoint.receive(request(1, "resources/read", uri="pages://1/41"))
        [reply] = writer.wait_for(1)
        assert reply["result"]["contents"][0]["text"] == "1: 42"
        refusal = endpoint.receive(request(2, "resources/read", uri="pages://1/last"))
        assert refusal is not None
        error = json.loads(refusal)["error"]
        assert error["code"] == -32602
        assert "number: expected a whole number, got 'last'" in error["message"]


ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "greet"}), ("resources/read", {"uri": "greetings://one"})],
)
def test_prompts_and_resources_can_ask_a_person_in_the_stateless_era(
    method: str, params: dict[str, Any]
) -> None:
    ext = Extension("polite")

    @ext.prompt
    def greet(ctx: Context) -> str:
        return f"Hello {ctx.elicit('Your name?', str).content}"

    ext.resource("greetings://one")(greet)
    params = {**params, "_meta": ENVELOPE}
    with serving(ext) as (endpoint, writer):
        endpoint.receive(request(1, method, **params))
        question = writer.wait_for(1)[0]["result"]
        assert question["resultType"] == "input_required"
        assert question["inputRequests"]["answer"]["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"value": "Ada"}}
        repeated = {"inputResponses": {"answer": answer}, "requestState": question["requestState"]}
        endpoint.receive(request(2, method, **params, **repeated))
        result = writer.wait_for(2)[1]["result"]
        assert result["resultType"] == "complete" and "Hello Ada" in json.dumps(result)
        other = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
        refusal = endpoint.receive(request(3, method, **{**params, "_meta": other}))
        assert refusal is not None and json.loads(refusal)["error"]["code"] == -32022
