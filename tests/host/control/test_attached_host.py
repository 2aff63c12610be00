"""A program attaches to the control socket of another program's host, and has the same API.

`exthost.attach(config)` returns an `AttachedHost`, whose calls are made by the host that runs for
this config. Most tests make each call with both, `for item in (host, attached)`, and expect the
same result. The extensions are `text`, with the tool `shout`; `h`, the hostile extension of the
tests, whose method `keep` is answered only after `release`; and `toy`, of the dialect roder.
"""

import asyncio
import json
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.config import Config
from exthost.dialects.meanings import Progress
from exthost.host.control import attached_host, protocol, server_connection
from exthost.host.control.async_client import AsyncHostClient
from exthost.host.control.attached_host import AttachedHost
from exthost.host.control.host_lock import HostLock
from exthost.host.control.protocol import encode_event, encode_success
from exthost.host.host import Host
from exthost.session.trace.secrets import SecretFilter
from tests.extensions.harness import HOSTILE, wait_until
from tests.extensions.roder import config_entry as roder_entry
from tests.host.test_hooks import guard
from tests.host.test_host import TEXT
from tests.toys import stepper


def toml_entry(name: str, program: str) -> str:
    args = json.dumps(["-S", "-E", program])
    source = f"{{ type = 'process', command = '{sys.executable}', args = {args} }}"
    return f'[[extensions]]\nname = "{name}"\nsource = {source}\n'


@asynccontextmanager
async def open_host_and_attach(folder: Path) -> AsyncIterator[tuple[Host, AttachedHost]]:
    """Yield a host of three extensions, and a host attached to it."""
    path = folder / "exthost.toml"
    roder = "\n".join(f"{key} = {json.dumps(value)}" for key, value in roder_entry(folder).items())
    text = toml_entry("text", TEXT) + toml_entry("h", str(HOSTILE))
    path.write_text(f"{text}\n[[process_extensions]]\n{roder}\n")
    async with Host.from_config(path, control=True) as host, exthost.attach(path) as attached:
        yield host, attached


async def test_arguments_of_a_wrong_type_cause_the_errors_of_a_host(tmp_path: Path) -> None:
    wrong_value: Any = 5
    async with open_host_and_attach(tmp_path) as (host, attached):
        for item in (host, attached):
            for name in ("ext_text_shout", "ext_toy_fail"):
                with pytest.raises(errors.UsageError) as caught:
                    await item.call_tool(name, {"text": "x"}, context=wrong_value)
                assert caught.value.code == "X1338"  # the context is not a mapping
            with pytest.raises(errors.UsageError) as caught:
                await item.call_tool("ext_text_shout", {"text": "x"}, on_progress=wrong_value)
            assert caught.value.code == "X1332"  # not a function
            with pytest.raises(errors.CallTimeout, match="was not sent"):
                await item.call_tool("ext_text_shout", {"text": "x"}, timeout=-1)


async def test_a_long_result_is_cut_as_by_a_host(tmp_path: Path) -> None:
    path = tmp_path / "exthost.toml"
    path.write_text(toml_entry("text", TEXT) + 'limits = { result = "1KB" }\n')
    async with Host.from_config(path, control=True) as host, exthost.attach(path) as attached:
        arguments = {"text": "x" * 5000}
        expected = await host.call_tool("shout", arguments)
        result = await attached.call_tool("shout", arguments)
        assert result.text == expected.text
        assert len(result.text) <= 1024


async def test_calls_have_the_results_and_errors_of_a_host(tmp_path: Path) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        for item in (host, attached):
            for name in ("ext_text_shout", "text:shout", "shout"):
                assert (await item.call_tool(name, {"text": "x"})).data == {"text": "X"}
            assert await item["h"].call("echo", [1]) == [1]
            with pytest.raises(errors.CallFailed) as caught:
                await item.call_tool("ext_toy_fail")
            assert caught.value.code == "X0702"  # a result that is marked as an error
            assert (await item.call_tool("ext_toy_fail", check=False)).is_error
            with pytest.raises(errors.CallFailed) as error_reply:
                await item["toy"].call_tool("refuse")
            result = await item["toy"].call_tool("refuse", check=False)
            assert result.is_error and result.error_reply is not None
            assert result.error_reply.error_code == error_reply.value.error_code is not None
            with pytest.raises(errors.UsageError):
                await item.call_tool("ext_text_shout", {"txt": 1})
            with pytest.raises(errors.NotFound) as not_found:
                await item.call_tool("ext_text_shoot")
            assert not_found.value.help == "did you mean 'ext_text_shout'?"
            with pytest.raises(errors.CallTimeout):
                await item["h"].call("keep", timeout=0.1)
            with pytest.raises(errors.NotFound):
                item["nope"]


@pytest.mark.parametrize("with_progress", [False, True])
async def test_the_error_of_a_tool_has_the_help_and_evidence_of_the_host(
    with_progress: bool, tmp_path: Path
) -> None:
    on_progress = print if with_progress else None  # a call with on_progress runs in a task
    async with open_host_and_attach(tmp_path) as (host, attached):
        await host["toy"].start()
        [session] = host["toy"].internals.queue.live_sessions
        session.diagnostics.suggest_grant = lambda text: "grant it permissions.network"
        for item in (host, attached):
            with pytest.raises(errors.CallFailed) as caught:
                await item["toy"].call_tool("fail", on_progress=on_progress)
            assert caught.value.code == "X0702"
            assert caught.value.help == "grant it permissions.network"
            assert caught.value.evidence.argv == session.diagnostics.evidence().argv


async def test_a_secret_in_the_error_of_a_tool_is_hidden_for_an_attached_program(
    tmp_path: Path,
) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        await host["toy"].start()
        result = await host["toy"].call_tool("fail", check=False)
        secret = result.text[-6:]
        [session] = host["toy"].internals.queue.live_sessions
        session.diagnostics.use_secret_filter(SecretFilter([secret]))
        for item in (host, attached):
            with pytest.raises(errors.CallFailed) as caught:
                await item["toy"].call_tool("fail")
            error = caught.value
            assert error.code == "X0702" and error.message.endswith("***")
            assert secret not in json.dumps(error.as_dict()) + repr(error.data)
            assert await item["toy"].call_tool("fail", check=False) == result


@pytest.mark.parametrize("name", [None, 5, ["text"]])
async def test_a_name_that_is_not_a_string_is_reported(tmp_path: Path, name: Any) -> None:
    path = tmp_path / "exthost.toml"
    path.write_text(toml_entry("text", TEXT))
    async with Host.from_config(path, control=True), exthost.attach(path) as attached:
        uses: list[Callable[[], Any]] = [
            lambda: attached["text"].call(name),
            lambda: attached["text"].call_tool(name),
            lambda: attached["text"].stream(name).__aenter__(),
            lambda: attached.call_tool(name),
            lambda: attached.find_tool(name),
            lambda: attached[name],
        ]
        for use in uses:
            with pytest.raises(errors.UsageError, match="must be a string, not") as caught:
                await asyncio.wait_for(use(), 120)
            assert caught.value.code == "X1335"


def test_attaching_works_with_uvloop(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")
    path = tmp_path / "exthost.toml"
    path.write_text(toml_entry("text", TEXT))

    async def call_with_large_text() -> None:
        large_text = "x" * 1_000_000  # more than a socket accepts in one write
        async with Host.from_config(path, control=True), exthost.attach(path) as attached:
            calls = [attached.call_tool("ext_text_shout", {"text": large_text}) for _ in range(3)]
            for result in await asyncio.gather(*calls):
                assert result.data == {"text": large_text.upper()}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(call_with_large_text())


async def test_tools_and_states_are_those_of_the_host(tmp_path: Path) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        assert set(attached.tools) == set(host.tools) and list(attached) == list(host)
        assert dict(attached.tools) == dict(host.tools)
        for name, tool in host.tools.items():
            assert attached.tools[name].extra == tool.extra
        shout = attached.tools["ext_text_shout"]
        assert (shout.tool, shout.extension) == ("shout", "text")
        assert shout.input_schema == host.tools["ext_text_shout"].input_schema
        await attached["text"].restart()
        assert (attached["text"].state, str(host["text"].state)) == ("ready", "ready")
        await attached["text"].drain()
        assert (attached["text"].state, str(host["text"].state)) == ("stopped", "stopped")
        assert "ext_text_shout" not in attached.tools
        await attached["text"].start()
        rows = await attached.status()
        assert [row["state"] for row in rows] == ["ready", "ready", "admitted"]


async def test_many_calls_run_together_and_a_cancellation_ends_only_its_call(
    tmp_path: Path,
) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        unanswered = [
            asyncio.ensure_future(attached["h"].call("keep", number)) for number in range(3)
        ]
        await wait_until(lambda: host["h"].stats.in_flight == 3)
        answers = await asyncio.gather(*(attached["h"].call("echo", n) for n in range(20)))
        assert answers == list(range(20))
        unanswered[1].cancel()
        await wait_until(lambda: host["h"].stats.in_flight == 2)
        await attached["h"].call("release")
        assert (await unanswered[0], await unanswered[2]) == (0, 2)
        # Closing ends the calls in flight of this client; the host continues.
        last_call = asyncio.ensure_future(attached["h"].call("keep"))
        await wait_until(lambda: host["h"].stats.in_flight == 1)
        await attached.close()
        with pytest.raises(errors.ExtensionGone, match="this program has closed") as closed:
            await last_call
        assert closed.value.code == "X1005"
        await wait_until(lambda: host["h"].stats.in_flight == 0)
        assert await host["h"].call("echo", 1) == 1
        with pytest.raises(errors.UsageError):
            await attached["h"].call("echo")


async def test_calls_are_cancelled_although_the_client_has_as_many_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "MAX_REQUESTS", 3)
    async with open_host_and_attach(tmp_path) as (host, attached):
        calls = [asyncio.ensure_future(attached["h"].call("keep", number)) for number in range(7)]
        await wait_until(lambda: host["h"].stats.in_flight == 3)
        calls[5].cancel()  # it waits behind others: it is never sent to the extension
        for call in calls[:4]:
            call.cancel()
        await wait_until(lambda: host["h"].stats.cancelled == 3 and host["h"].stats.in_flight == 2)
        await asyncio.wait_for(attached["h"].call("release"), 25)  # less than the calls may take
        assert (await calls[4], await calls[6]) == (4, 6)
        assert host["h"].stats.cancelled == 3  # the others were not sent


async def test_the_end_of_a_client_is_seen_although_requests_of_it_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "MAX_REQUESTS", 3)
    async with open_host_and_attach(tmp_path) as (host, attached):
        calls = [asyncio.ensure_future(attached["h"].call("keep", number)) for number in range(7)]
        await wait_until(lambda: host["h"].stats.in_flight == 3)
        await attached.close()
        await wait_until(lambda: host["h"].stats.in_flight == 0)
        assert host["h"].stats.calls == 3
        await asyncio.gather(*calls, return_exceptions=True)


async def test_events_of_a_stream_are_plain_data(tmp_path: Path) -> None:
    deltas = [{"MessageDelta": {"text": "Hel"}}, {"MessageDelta": {"text": "lo"}}]
    steps = [["ack"], *(["event", delta] for delta in deltas), ["event", {"Completed": {}}]]
    params = {"engineId": "e", "request": {"script": steps}}
    async with open_host_and_attach(tmp_path) as (_, attached):
        async with attached["toy"].stream("inference/streamTurn", params) as events:
            texts = [event["data"].get("text") async for event in events]
        assert texts[:2] == ["Hel", "lo"] and "stop_reason" in events.result
        async with attached["toy"].stream("inference/streamTurn", params):
            pass  # leave the stream at once
        with pytest.raises(errors.ExthostError):
            async with attached["toy"].stream("no/such/method") as events:
                async for _event in events:
                    pass


async def test_progress_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(stepper.installed(tmp_path / "toys"))
    path = tmp_path / "program.toml"
    reports: list[Progress] = []
    host = Host(Config(specs=(stepper.spec("climber"),)), control=path)
    async with host, exthost.attach(path) as attached:
        arguments: Any = {"steps": 2}
        await attached.call_tool("climb", arguments, on_progress=reports.append)
    assert [(report.progress, report.total, report.message) for report in reports] == [
        (1, 2, "step 1"),
        (2, 2, "step 2"),
    ]


@pytest.mark.parametrize("failure", [ValueError("mine"), asyncio.CancelledError()])
async def test_a_progress_callback_that_fails_affects_no_call(
    failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise failure

    own_end, other_end = socket.socketpair()
    client = AsyncHostClient(own_end)
    try:
        calls = [asyncio.ensure_future(client.ask("call", on_event=fail)) for _ in range(3)]
        await asyncio.sleep(0)  # the calls are sent
        # One read has replies before and after the event whose callback fails.
        lines = [encode_success("a", 1), encode_event({"kind": "progress"}, 2)]
        other_end.sendall(b"".join([*lines, encode_success("b", 2), encode_success("c", 3)]))
        async with asyncio.timeout(60):
            assert await asyncio.gather(*calls) == ["a", "b", "c"]
        assert "callback of a request to the host failed" in caplog.text
    finally:
        client.abort()
        other_end.close()


async def test_a_request_that_is_too_large_is_reported_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        unanswered = asyncio.ensure_future(attached["h"].call("keep", 1))
        await wait_until(lambda: host["h"].stats.in_flight == 1)
        with monkeypatch.context() as patch:
            patch.setattr(protocol, "REQUEST_BYTES", 10_000)
            with pytest.raises(errors.UsageError, match="over the limit") as caught:
                await attached.call_tool("ext_text_shout", {"text": "x" * 10_000})
        assert caught.value.code == "X1303"  # it is too large
        # The connection and its calls continue.
        assert (await attached.call_tool("ext_text_shout", {"text": "x"})).data == {"text": "X"}
        await attached["h"].call("release")
        assert await unanswered == 1


async def test_time_limits_are_those_of_a_host(tmp_path: Path) -> None:
    wrong_limits: tuple[Any, ...] = ("1s", math.nan)
    path = tmp_path / "exthost.toml"
    path.write_text("[defaults]\nlimits = { call = '200ms' }\n" + toml_entry("h", str(HOSTILE)))
    async with Host.from_config(path, control=True) as host, exthost.attach(path) as attached:
        for item in (host, attached):
            for use in (item["h"].call, item["h"].call_tool):
                for limit in wrong_limits:
                    with pytest.raises(errors.UsageError) as caught:
                        await use("echo", {}, timeout=limit)
                    assert caught.value.code == "X1318"
            with pytest.raises(errors.CallTimeout):
                await item["h"].call("keep")
            # An infinite limit replaces the limit of the config.
            unanswered = asyncio.ensure_future(item["h"].call("keep", timeout=math.inf))
            with pytest.raises(errors.CallTimeout):
                await item["h"].call("keep")
            assert not unanswered.done()
            await item["h"].call("release", timeout=60)
            await unanswered


async def test_an_attached_host_cannot_be_used_in_another_loop(tmp_path: Path) -> None:
    async with open_host_and_attach(tmp_path) as (_, attached):

        def use() -> None:
            for call in (attached.call_tool, attached["text"].call_tool, attached["h"].call):
                asyncio.run(call("ext_text_shout", {"text": "x"}))

        with pytest.raises(errors.UsageError) as caught:
            await asyncio.to_thread(use)
        assert caught.value.code == "X1319"  # another event loop
        assert (await attached.call_tool("ext_text_shout", {"text": "x"})).data == {"text": "X"}


async def test_attaching_to_a_host_that_does_not_answer_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "exthost.toml"
    with HostLock(str(path)) as lock, socket.socket(socket.AF_UNIX) as silent_socket:
        silent_socket.bind(str(lock.socket_path))
        silent_socket.listen()
        monkeypatch.setattr(attached_host, "HELLO_SECONDS", 0.05)
        with pytest.raises(errors.CallTimeout, match=f"process {os.getpid()}") as caught:
            async with exthost.attach(path):
                pass
        lock.socket_path.unlink()
    assert caught.value.code == "X0875"


async def test_errors_after_the_end_of_the_host_advise_to_attach_again(
    tmp_path: Path,
) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        unanswered = asyncio.ensure_future(attached["h"].call("keep"))
        await wait_until(lambda: host["h"].stats.in_flight == 1)
        await host.close()
        with pytest.raises(errors.ExtensionGone):
            await unanswered
        for _ in range(2):
            with pytest.raises(errors.ExtensionGone, match="nothing was sent") as caught:
                await attached.call_tool("ext_text_shout", {"text": "x"})
            assert caught.value.code == "X1075" and "attach" in caught.value.help


async def test_an_extension_that_a_reload_removed_is_reported_as_not_found(tmp_path: Path) -> None:
    path = tmp_path / "exthost.toml"
    path.write_text(toml_entry("text", TEXT))
    async with Host.from_config(path, control=True) as host, exthost.attach(path) as attached:
        text = attached["text"]
        path.write_text("")
        await host.reload()
        await attached.refresh()
        for read_attribute in (lambda: text.state, lambda: text.health, lambda: text.stats):
            with pytest.raises(errors.NotFound) as caught:
                read_attribute()
            assert caught.value.code == "X1205"
        assert repr(text) == "<AttachedExtension 'text' removed>"


async def test_a_missing_host_a_host_without_a_config_and_a_second_host_are_errors(
    tmp_path: Path,
) -> None:
    with pytest.raises(errors.NotFound) as missing:
        async with exthost.attach(tmp_path / "x.toml"):
            pass
    assert missing.value.code == "X1275"  # no host runs
    assert "no such file" in missing.value.help
    (tmp_path / "x.toml").touch()
    with pytest.raises(errors.NotFound) as not_started:
        async with exthost.attach(tmp_path / "x.toml"):
            pass
    assert not_started.value.code == "X1275" and "start=True" in not_started.value.help
    with pytest.raises(errors.UsageError) as without_config:
        Host(control=True)
    assert without_config.value.code == "X1381"
    path = tmp_path / "exthost.toml"
    path.write_text("")
    async with Host.from_config(path, control=True):
        with pytest.raises(errors.UsageError) as second:
            async with Host.from_config(path, control=True):
                pass
        assert second.value.code == "X1375"
    async with Host.from_config(path, control=True):  # the socket is free again
        pass


async def test_a_deeply_nested_result_is_returned(tmp_path: Path) -> None:
    nested: list[Any] = []
    for _ in range(600):
        nested = [nested]
    async with open_host_and_attach(tmp_path) as (host, attached):
        for item in (host, attached):
            async with asyncio.timeout(60):
                result = await item["h"].call_tool("echo", {"value": nested})
            assert json.dumps(result.raw) == json.dumps({"value": nested})


@asynccontextmanager
async def open_host_with_guard(folder: Path) -> AsyncIterator[tuple[Host, AttachedHost]]:
    """Yield a host whose guard, an extension with a hook, blocks every call; and a host attached to
    it."""
    guard(folder / "plugins", "guard", before_tool_call={"abort": True, "reason": "never"})
    path = folder / "exthost.toml"
    search = json.dumps([str(folder / "plugins")])
    path.write_text(f"[discovery]\nsearch_paths = {search}\n{toml_entry('text', TEXT)}")
    async with Host.from_config(path, control=True) as host, exthost.attach(path) as attached:
        yield host, attached


async def test_a_hook_stops_a_call_of_an_attached_program(tmp_path: Path) -> None:
    async with open_host_with_guard(tmp_path) as (host, attached):
        for item in (host, attached):
            with pytest.raises(errors.Refused, match="was stopped by guard: never") as caught:
                await item.call_tool("ext_text_shout", {"text": "x"})
            assert caught.value.code == "X0332"  # a hook blocked the call
            result = await item.call_tool("ext_text_shout", {"text": "x"}, hooks=False)
            assert result.data == {"text": "X"}
        await attached["guard"].drain()
        with pytest.raises(errors.Refused):  # calls are refused while the guard does not run
            await attached.call_tool("ext_text_shout", {"text": "x"})


async def test_an_attached_host_runs_the_calls_of_a_model(tmp_path: Path) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        assert attached.tools.as_openai() == host.tools.as_openai()
        name = "ext_text_shout"
        blocks = [
            {"type": "tool_use", "id": "a", "name": name, "input": {"text": "x"}},
            {"type": "tool_use", "id": "b", "name": "ext_toy_fail", "input": {}},
            {"type": "tool_use", "id": "c", "name": "nope", "input": {}},
        ]
        answers = [await item.run_calls(blocks) for item in (host, attached)]
        assert answers[0] == answers[1]
        [answer] = answers[1]
        assert [block["is_error"] for block in answer["content"]] == [False, True, True]


async def test_find_tool_has_the_results_of_a_host(tmp_path: Path) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        for name in ("ext_text_shout", "text:shout", "shout"):
            assert await attached.find_tool(name) == await host.find_tool(name)
        with pytest.raises(errors.NotFound):
            await attached.find_tool("nope", ask_all=True)


async def test_an_attached_program_reloads_the_config(tmp_path: Path) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        path = tmp_path / "exthost.toml"
        path.write_text(toml_entry("more", TEXT) + path.read_text())
        outcome = await attached.reload()
        assert (outcome.added, outcome.removed, outcome.failed) == (("more",), (), ())
        assert "more" in attached and "more" in host


async def test_a_notification_is_sent_over_the_socket(tmp_path: Path) -> None:
    async with open_host_and_attach(tmp_path) as (host, attached):
        for item in (host, attached):
            with pytest.raises(errors.UsageError) as caught:  # this dialect has no notifications
                await item["text"].notify("note")
            assert caught.value.code == "X1304"  # the dialect has no such message
            await item["toy"].start()
            await item["toy"].notify("note", {"a": 1})


async def test_results_of_nexos_second_contract_and_replaced_results_are_decoded(
    tmp_path: Path,
) -> None:
    extensions = Path(__file__).parents[2] / "extensions"
    roots = [str(extensions / name) for name in ("nexo_second", "synaps_today")]
    path = tmp_path / "exthost.toml"
    allowlist = json.dumps(["tide", "redact"])
    path.write_text(f"[discovery]\nsearch_paths = {json.dumps(roots)}\nallowlist = {allowlist}\n")
    async with Host.from_config(path, control=True) as host, exthost.attach(path) as attached:
        for item in (host, attached):
            assert (await item.call_tool("tide_next", {"port": "Brest"})).text.startswith("high at")
            failed = await item.call_tool("tide_fail", {}, check=False)
            assert failed.is_error and failed.text == "no gauge"
            leak = await item.call_tool("ext_redact_leak", {"text": "it is hunter2"})
            assert (leak.text, leak.is_error) == ("it is *******", False)
            failed = await item.call_tool("ext_redact_fail", {}, check=False)
            assert failed.is_error and "hunter2" not in failed.text
