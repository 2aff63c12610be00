"""A hook requests confirmation: the client that made the call is asked over the control socket.

A hook of an extension can demand that a person agrees to a tool call. The host calls a function
`confirm`, which asks the person: that of the call, or of the program that made the call, or of the
host. If the call came from another process through the control socket of the host, that process
gets a question with a number, and sends the answer with this number.
"""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import Refused, UsageError
from exthost.extension.confirmation import Confirm, Confirmation
from exthost.host.control import server_connection
from exthost.host.control.async_client import AsyncHostClient
from exthost.host.control.attached_host import AttachedHost
from exthost.host.control.call_requests import CallPerformer
from exthost.host.control.client import HostClient, connect_to_host
from exthost.host.control.protocol import ControlRequest
from exthost.host.host import Host
from tests.extensions.harness import error_of, wait_until
from tests.extensions.synaps_tree import write_plugin
from tests.faces.gateway.gateway_process import write_config

NOT_CONFIRMED = "X0332"  # the answer was no
NOT_ASKED = "X0354"  # there was no answer
NOT_A_FUNCTION = "X1332"

TOOL = "ext_tools_echo"
SECONDS = 60.0  # the limit of waits; enough for a busy machine

# A program that attaches, calls the tool, and does not answer the question.
SILENT_CLIENT = """
import asyncio, sys, exthost

async def confirm(_):
    print("asked", flush=True)
    await asyncio.Event().wait()

async def main():
    async with exthost.attach(sys.argv[1], confirm=confirm) as host:
        await host.call_tool("ext_tools_echo", {"a": 1})

asyncio.run(main())
"""


def write_guarded_config(folder: Path) -> Path:
    """Write a config of a tool, and of a guard that requests a person for each call."""
    write_plugin(folder / "plugins" / "tools", {"heard": str(folder / "heard")})
    confirm = {"hooks": {"before_tool_call": {"action": "confirm", "message": "really?"}}}
    write_plugin(folder / "plugins" / "guard", confirm, hooks=[{"hook": "before_tool_call"}])
    return write_config(folder, {"discovery": {"search_paths": [str(folder / "plugins")]}})


def was_called(folder: Path) -> bool:
    """Return whether the tool received a call. It writes its messages to the file `heard`."""
    received = folder / "heard"
    return received.exists() and "tool.call" in received.read_text()


@asynccontextmanager
async def open_host_and_attach(
    folder: Path, confirm: Confirm | None, confirm_of_host: Confirm | None = None
) -> AsyncIterator[tuple[Host, AttachedHost]]:
    """Yield a host, and a host attached to it with this function for confirmations."""
    config = write_guarded_config(folder)
    async with (
        Host.from_config(config, control=True, confirm=confirm_of_host) as host,
        exthost.attach(config, confirm=confirm) as client,
    ):
        yield host, client


@asynccontextmanager
async def raw_client(config: Path) -> AsyncIterator[AsyncHostClient]:
    """Yield a client with which a test can send any request."""
    client = AsyncHostClient(connect_to_host(str(config), os.environ, SECONDS))
    try:
        yield client
    finally:
        client.abort()


def call_params(**params: Any) -> dict[str, Any]:
    return {"tool": "echo", "arguments": {"a": 1}, "confirm": True, "timeout": SECONDS, **params}


def fail_if_asked(_: Confirmation) -> bool:
    raise AssertionError("the wrong function was asked")


async def wait_forever(_: Confirmation) -> bool:
    await asyncio.Event().wait()
    return True


# -- the answer of the caller -----------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_caller_is_asked_instead_of_the_host_and_its_answer_decides(
    tmp_path: Path, is_async: bool
) -> None:
    confirmations: list[Confirmation] = []

    def confirm_plain(confirmation: Confirmation) -> Any:
        confirmations.append(confirmation)
        answers: Mapping[int, Any] = {1: True, 2: False, 3: "yes", 4: 1}
        return answers[confirmation.event["arguments"]["a"]]

    async def confirm_async(confirmation: Confirmation) -> Any:
        return confirm_plain(confirmation)

    async with open_host_and_attach(
        tmp_path, confirm_async if is_async else confirm_plain, confirm_of_host=fail_if_asked
    ) as (_, client):
        for call in (client.call_tool, client["tools"].call_tool):
            name = TOOL if call == client.call_tool else "echo"
            assert (await call(name, {"a": 1})).data == {"a": 1}
        for number in (2, 3, 4):  # only True confirms
            error = await error_of(client.call_tool(TOOL, {"a": number}))
            assert isinstance(error, Refused) and error.code == NOT_CONFIRMED
            assert "not confirmed: really?" in error.message and error.extension == "guard"
    first = confirmations[0]
    assert (first.extension, first.message, first.hook) == ("guard", "really?", "before_tool_call")
    event = first.event
    assert (event["tool_name"], event["tool"], event["extension_id"]) == (TOOL, "echo", "tools")
    assert (tmp_path / "heard").read_text().count("tool.call") == 2


async def test_the_confirm_of_a_call_has_precedence_over_that_of_the_program(
    tmp_path: Path,
) -> None:
    async with open_host_and_attach(tmp_path, fail_if_asked, confirm_of_host=fail_if_asked) as (
        host,
        client,
    ):
        for caller in (host, client):
            result = await caller.call_tool(TOOL, {"a": 1}, confirm=lambda _: True)
            assert result.data == {"a": 1}
            extension = caller["tools"]
            assert (await extension.call_tool("echo", {"a": 1}, confirm=lambda _: True)).text
            error = await error_of(caller.call_tool(TOOL, {"a": 1}, confirm=lambda _: False))
            assert "not confirmed" in error.message


def test_a_blocking_call_can_have_its_own_confirm(tmp_path: Path) -> None:
    with exthost.SyncHost.from_config(
        write_guarded_config(tmp_path), confirm=fail_if_asked
    ) as host:
        assert host.call_tool(TOOL, {"a": 1}, confirm=lambda _: True).data == {"a": 1}
        assert host["tools"].call_tool("echo", {"a": 1}, confirm=lambda _: True).text
        with pytest.raises(Refused, match="not confirmed"):
            host.call_tool(TOOL, {"a": 1}, confirm=lambda _: False)


async def test_the_blocking_client_answers_questions(tmp_path: Path) -> None:
    config = write_guarded_config(tmp_path)

    def call(agreed: bool) -> Any:
        with HostClient(str(config), timeout=SECONDS) as client:
            request = ControlRequest("call", "tools", call_params())
            return client.ask(request, timeout=SECONDS, confirm=lambda _: agreed)

    async with Host.from_config(config, control=True, confirm=fail_if_asked):
        assert (await asyncio.to_thread(call, True))["raw"] == {"a": 1}
        assert "not confirmed" in (await error_of(asyncio.to_thread(call, False))).message


async def test_an_async_confirm_has_the_context_variables_of_its_caller(tmp_path: Path) -> None:
    user = contextvars.ContextVar("user", default="")

    async def confirm(_: Confirmation) -> bool:
        return user.get() == "me"

    async with open_host_and_attach(tmp_path, confirm) as (_, client):
        assert (await error_of(client.call_tool(TOOL, {"a": 1}))).code == NOT_CONFIRMED
        user.set("me")
        assert (await client.call_tool(TOOL, {"a": 1})).data == {"a": 1}


async def test_a_confirm_that_is_not_a_function_is_refused(tmp_path: Path) -> None:
    wrong: Any = "yes"
    with pytest.raises(UsageError) as caught:
        exthost.attach(tmp_path / "exthost.toml", confirm=wrong)
    assert caught.value.code == NOT_A_FUNCTION
    async with open_host_and_attach(tmp_path, None) as (host, client):
        for caller in (host, client):
            error = await error_of(caller.call_tool(TOOL, {"a": 1}, confirm=wrong))
            assert error.code == NOT_A_FUNCTION


# -- without an answer, the call is refused ---------------------------------------------------


async def test_a_client_that_cannot_answer_is_not_asked(tmp_path: Path) -> None:
    async with open_host_and_attach(tmp_path, None) as (_, client):
        error = await error_of(client.call_tool(TOOL, {"a": 1}))
        assert error.code == NOT_ASKED and "no person to ask" in error.message
        assert "exthost.attach" in error.help and "--yes" in error.help
        # Only `true` declares that a client can answer.
        assert (
            await error_of(client.ask("call", "tools", call_params(confirm=1)))
        ).code == NOT_ASKED
    assert not was_called(tmp_path)


async def test_a_call_is_refused_without_an_answer_within_its_time(tmp_path: Path) -> None:
    waiting = 0

    async def confirm(confirmation: Confirmation) -> bool:
        nonlocal waiting
        waiting += 1
        try:
            return await wait_forever(confirmation)
        finally:
            waiting -= 1

    async with open_host_and_attach(tmp_path, confirm) as (host, client):
        await asyncio.gather(host["guard"].start(), host["tools"].start())
        error = await error_of(client.call_tool(TOOL, {"a": 1}, timeout=0.2))
        assert isinstance(error, Refused) and error.code == NOT_ASKED
        assert "no answer arrived within the 0.2 s of the call: really?" in error.message
        assert "timeout" in error.help
        await wait_until(lambda: waiting == 0)  # the function was cancelled
        assert not was_called(tmp_path)
        assert (await client.call_tool(TOOL, {"a": 1}, confirm=lambda _: True)).data == {"a": 1}


async def test_a_call_is_refused_if_confirm_fails(tmp_path: Path) -> None:
    def confirm(_: Confirmation) -> bool:
        raise ValueError("no terminal")

    async with open_host_and_attach(tmp_path, confirm, confirm_of_host=lambda _: True) as (
        _,
        client,
    ):
        error = await error_of(client.call_tool(TOOL, {"a": 1}))
        assert (
            error.code == NOT_ASKED and "could not ask (ValueError: no terminal)" in error.message
        )
    assert not was_called(tmp_path)


async def test_the_call_of_a_client_that_is_killed_while_asked_is_not_made(tmp_path: Path) -> None:
    config = write_guarded_config(tmp_path)
    async with Host.from_config(config, control=True, confirm=lambda _: True) as host:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SILENT_CLIENT, config, stdout=subprocess.PIPE
        )
        assert client.stdout is not None
        assert await asyncio.wait_for(client.stdout.readline(), SECONDS) == b"asked\n"
        assert not was_called(tmp_path)
        client.send_signal(signal.SIGKILL)
        await asyncio.wait_for(client.communicate(), SECONDS)
        # A later call is the only call that the tool receives.
        async with exthost.attach(config) as other:
            assert (await other.call_tool(TOOL, {"a": 2})).data == {"a": 2}
        await wait_until(lambda: host["tools"].stats.in_flight == 0)
    assert (tmp_path / "heard").read_text().count("tool.call") == 1


async def test_a_call_that_is_cancelled_while_asked_is_not_made(tmp_path: Path) -> None:
    was_asked = asyncio.Event()

    async def confirm(confirmation: Confirmation) -> bool:
        was_asked.set()
        return await wait_forever(confirmation)

    async with open_host_and_attach(tmp_path, confirm) as (_, client):
        call = asyncio.ensure_future(client.call_tool(TOOL, {"a": 1}))
        await asyncio.wait_for(was_asked.wait(), SECONDS)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.call_tool(TOOL, {"a": 2}, confirm=lambda _: True)).data == {"a": 2}
    assert (tmp_path / "heard").read_text().count("tool.call") == 1


# -- answers belong to a question and a client ------------------------------------------------


async def test_two_clients_that_are_asked_together_get_their_own_questions(
    tmp_path: Path,
) -> None:
    config = write_guarded_config(tmp_path)
    both_asked = asyncio.Barrier(2)
    arguments_by_client: dict[str, list[Any]] = {"yes": [], "no": []}

    def make_confirm(name: str) -> Confirm:
        async def confirm(confirmation: Confirmation) -> bool:
            arguments_by_client[name].append(confirmation.event["arguments"])
            async with asyncio.timeout(SECONDS):
                await both_asked.wait()
            return name == "yes"

        return confirm

    async with (
        Host.from_config(config, control=True, confirm=fail_if_asked),
        exthost.attach(config, confirm=make_confirm("yes")) as agreeing,
        exthost.attach(config, confirm=make_confirm("no")) as refusing,
    ):
        refused = asyncio.ensure_future(error_of(refusing.call_tool(TOOL, {"of": "no"})))
        result = await agreeing.call_tool(TOOL, {"of": "yes"})
        assert result.data == {"of": "yes"} and (await refused).code == NOT_CONFIRMED
    assert arguments_by_client == {"yes": [{"of": "yes"}], "no": [{"of": "no"}]}


async def test_an_answer_applies_only_to_its_question_and_its_client(tmp_path: Path) -> None:
    config = write_guarded_config(tmp_path)
    async with (
        Host.from_config(config, control=True),
        raw_client(config) as client,
        raw_client(config) as other,
    ):
        questions: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

        async def ask(client: AsyncHostClient) -> tuple[Any, int]:
            call = client.send("call", "tools", call_params(), questions.put_nowait)
            question = await asyncio.wait_for(questions.get(), SECONDS)
            assert question["kind"] == "question" and 0 < question["seconds"] <= SECONDS
            return call, question["question"]

        async def wait_until_handled(client: AsyncHostClient) -> None:
            await client.ask("status")  # requests sent before this are handled

        call, number = await ask(client)
        wrong_numbers: list[Any] = [number + 1, None, str(number), float(number), True, [number]]
        for wrong_number in wrong_numbers:
            client.answer({"question": wrong_number, "agreed": True})
        client.answer({"agreed": True})
        other.answer({"question": number, "agreed": True})
        await wait_until_handled(client)
        await wait_until_handled(other)
        assert not call.ended and not was_called(tmp_path)
        client.answer({"question": number, "agreed": True})
        client.answer({"question": number, "agreed": True})  # repeated
        await call
        # An answer that is late, or before its question, is ignored.
        client.answer({"question": number + 1, "agreed": True})
        await wait_until_handled(client)
        call, second = await ask(client)
        assert second != number
        client.answer({"question": number, "agreed": True})
        await wait_until_handled(client)
        assert not call.ended
        client.answer({"question": second, "agreed": "true"})
        assert (await error_of(_await(call))).code == NOT_CONFIRMED
    assert (tmp_path / "heard").read_text().count("tool.call") == 1


async def _await(pending: Any) -> Any:
    await pending
    return pending.value


@pytest.mark.parametrize("error", [{"error": "x" * 10_000}, {"error": None}, {"error": [1]}])
async def test_an_answer_with_an_error_refuses_the_call_and_the_error_is_cut(
    tmp_path: Path, error: dict[str, Any]
) -> None:
    config = write_guarded_config(tmp_path)
    async with Host.from_config(config, control=True), raw_client(config) as client:

        def answer(event: Mapping[str, Any]) -> None:
            client.answer({"question": event["question"], "agreed": True, **error})

        refused = await error_of(client.ask("call", "tools", call_params(), answer))
    assert refused.code == NOT_ASKED and len(refused.message) < 1000
    assert not was_called(tmp_path)


# -- limits ----------------------------------------------------------------------------------------


async def test_open_questions_do_not_count_as_requests_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "MAX_REQUESTS", 4)
    all_asked = asyncio.Barrier(20)

    async def confirm(_: Confirmation) -> bool:
        await all_asked.wait()
        return True

    async with open_host_and_attach(tmp_path, confirm) as (_, client):
        calls = [client.call_tool(TOOL, {"a": n}, timeout=SECONDS) for n in range(20)]
        results = await asyncio.gather(*calls)
        assert [result.data for result in results] == [{"a": n} for n in range(20)]


async def test_a_call_is_refused_if_too_many_questions_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "MAX_QUESTIONS", 3)
    async with open_host_and_attach(tmp_path, None) as (_, client):
        may_answer = asyncio.Event()

        async def confirm(_: Confirmation) -> bool:
            await may_answer.wait()
            return True

        calls = [
            asyncio.ensure_future(client.call_tool(TOOL, {"a": n}, confirm=confirm))
            for n in range(4)
        ]
        done, _ = await asyncio.wait(calls, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        error = done.pop().exception()
        assert isinstance(error, Refused) and error.code == NOT_ASKED
        assert "3 questions" in error.message and not was_called(tmp_path)
        may_answer.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(result, Refused) for result in results) == 1


async def test_without_hooks_a_call_with_confirm_runs_without_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def perform(*_: Any) -> Any:
        raise AssertionError("the call was made in a task")

    monkeypatch.setattr(CallPerformer, "perform", perform)
    write_plugin(tmp_path / "plugins" / "tools")
    config = write_config(tmp_path, {"discovery": {"search_paths": [str(tmp_path / "plugins")]}})
    async with (
        Host.from_config(config, control=True) as host,
        exthost.attach(config, confirm=fail_if_asked) as client,
    ):
        await host["tools"].start()
        await host.call_tool(TOOL, {"a": 1})  # the host has read the hooks
        assert (await client.call_tool(TOOL, {"a": 1})).data == {"a": 1}
