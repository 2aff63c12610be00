"""Requirements of morphir that need a process, a clock or several messages to test.

morphir is a dialect, a protocol that extensions speak: each line is a JSON object with an id. A
session begins with the requests `initialize` (id 0) and `capabilities` (id 1). `@shows` names the
requirements (`requirements.toml` of the dialect) that a test shows; those that need only one
message are shown by vectors, examples in data files. `hostile_extension` starts an extension that
misbehaves as its arguments and calls ask: `keep` answers only after `release`, `leave` exits.
"""

import asyncio
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.dialects.codec import Role
from exthost.dialects.morphir.dialect import DIALECT
from exthost.errors import (
    CallFailed,
    CallTimeout,
    ExtensionGone,
    HandshakeFailed,
    NotFound,
    ProtocolViolation,
    UsageError,
)
from exthost.events import Bus, Exited, LogLine, Spawned
from exthost.launch.limits import resolve_limits
from exthost.model.messages import Failure, Noise, Notification, Reply, Request
from exthost.model.shutdown_steps import CloseStdin, Terminate
from exthost.model.spec import Spec
from exthost.wire import jsontext
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import (
    check_call_counts,
    closed_at_end,
    error_of,
    hostile_extension,
    pid_of,
    unstarted_extension,
    wait_until,
)

MIB = 2**20

# A program that prints each request to stderr and answers with the params.
REQUEST_PRINTER = """
import json, sys
for line in sys.stdin:
    print("heard", line.strip(), file=sys.stderr, flush=True)
    request = json.loads(line)
    result = [] if request["id"] < 2 else request["params"]
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


# -- messages --------------------------------------------------------------------------------


@shows("morphir-wire-07")
def test_neither_role_can_send_a_message_that_the_dialect_lacks() -> None:
    # A guest is the extension, the other side of the conversation.
    host, guest = DIALECT.codec(Role.HOST), DIALECT.codec(Role.GUEST)
    for message in (Notification("log", {}), Reply(1, 2), Failure(1, "no")):
        with pytest.raises(UsageError) as caught:
            host.encode(message)
        assert caught.value.code == "X1304"
    with pytest.raises(UsageError) as caught:
        guest.encode(Request("ask", {}, 1))
    assert caught.value.code == "X1304"


@shows("morphir-wire-07")
async def test_a_notification_to_a_morphir_extension_is_a_usage_error() -> None:
    async with hostile_extension() as ext:
        error = await error_of(ext.notify("log", {}))
        assert isinstance(error, UsageError) and error.code == "X1304"
        assert await ext.call("echo", 1) == 1


@shows("morphir-wire-10")
def test_a_value_nested_100_000_deep_is_noise() -> None:
    host = DIALECT.codec(Role.HOST)
    deep_value = b"[" * 100_000 + b"]" * 100_000
    for frame in (
        deep_value,
        b'{"id":2,"result":' + deep_value + b"}",
        b'{"id":2,"error":' + deep_value + b"}",
    ):
        noise = host.decode(frame)
        assert type(noise) is Noise and "deep" in noise.reason and len(noise.data) <= 4096


@shows("morphir-wire-14")
def test_an_error_reply_of_any_readable_depth_is_a_failure() -> None:
    host = DIALECT.codec(Role.HOST)
    message_types = set()
    # The interpreter limits the depth that it can read, somewhere in this range.
    for depth in (*range(100, 1100), 100_000):
        decoded = host.decode(b'{"id":2,"error":' + b"[" * depth + b"]" * depth + b"}")
        message_types.add(type(decoded))
        if isinstance(decoded, Failure):
            assert decoded.message
    assert message_types == {Failure, Noise}


@shows("morphir-wire-06", "morphir-wire-08")
async def test_log_notifications_and_stderr_become_log_events() -> None:
    bus = Bus()
    lines: list[LogLine] = []
    bus.subscribe(LogLine, lines.append)
    async with hostile_extension(events=bus) as ext:
        await ext.call("log", {"level": "error", "message": "disk full"})
        await ext.call("log", {"level": "shout", "message": "hey"})
        await ext.call("stderr", {"bytes": 0})
    assert LogLine("hostile", "log", 40, "disk full") in lines
    assert LogLine("hostile", "log", 20, "hey") in lines
    assert LogLine("hostile", "stderr", 20, "the last line of stderr") in lines


@shows("morphir-wire-15", "morphir-sample-02")
async def test_a_reply_with_the_previous_id_is_dropped_and_counted() -> None:
    async with hostile_extension() as ext:
        assert await ext.call("old_id", "mine") == "mine"
        assert await ext.call("echo", "next") == "next"
        assert ext.stats.dropped == {"late or repeated replies": 1}


@shows("morphir-wire-11", "morphir-load-11")
async def test_the_handshake_with_cat_fails() -> None:
    bus = Bus()
    pids: list[int] = []
    bus.subscribe(Spawned, lambda event: pids.append(event.pid))

    async def connect_to_cat() -> None:
        async with exthost.connect(
            ["cat"], limits={"handshake": "300ms"}, events=bus, dialect="morphir"
        ):
            pass

    error = await error_of(connect_to_cat())
    assert isinstance(error, HandshakeFailed) and error.code == "X0504"
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@shows("morphir-wire-16")
def test_the_maximum_length_of_a_line_is_64_mib() -> None:
    assert DIALECT.traits.limits.max_message == 64 * MIB


@shows("morphir-wire-16", "morphir-wire-17", "morphir-wire-18")
async def test_a_call_whose_reply_is_too_long_fails_and_the_next_call_is_served() -> None:
    async with hostile_extension(limits={"max_message": 100_000, "call": "40s"}) as ext:
        error = await error_of(ext.call("huge", {"bytes": 200_000}))
        assert isinstance(error, ProtocolViolation) and error.code == "X0603"
        assert "100,000" in error.message
        assert await ext.call("huge_noise", {"bytes": 200_000}) == "after the noise"
        assert ext.stats.dropped == {"messages over the size limit": 2}
        error = await error_of(ext.call("echo", "x" * 100_000))
        assert isinstance(error, UsageError) and error.code == "X1303"
        check_call_counts(ext, 2, result=1, error=1)


# -- load ------------------------------------------------------------------------------------


@shows("morphir-load-01")
async def test_the_command_runs_without_a_shell_and_with_configured_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONFIGURED", "by the host")
    monkeypatch.setenv("INHERITED", "by the host")
    argument = "a word; $HOME && `true` > /dev/null"
    async with hostile_extension(argument, env={"CONFIGURED": "by the config"}) as ext:
        environment = await ext.call("environment")
        assert environment["CONFIGURED"] == "by the config"
        assert environment["INHERITED"] == "by the host"
        assert environment["PATH"] == os.environ["PATH"]
        assert ext.argv[-1] == argument
        assert _command_line(pid_of(ext))[-1] == argument


def _command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]


async def _requests_of_a_connection(**settings: Any) -> list[dict[str, Any]]:
    """Return the requests that a program gets in two calls, a restart and another call."""
    bus = Bus()
    received: list[dict[str, Any]] = []

    def record_request(line: LogLine) -> None:
        received.append(jsontext.decode(line.text.removeprefix("heard ").encode()))

    bus.subscribe(LogLine, record_request)
    command = [sys.executable, "-S", "-E", "-c", REQUEST_PRINTER]
    async with exthost.connect(
        command, events=bus, name="listener", **settings, dialect="morphir"
    ) as ext:
        await ext.call("one", 1)
        await ext.call("two", 2)
        await ext.restart()
        await ext.call("three", 3)
    return received


@shows(
    "morphir-wire-02", "morphir-load-02", "morphir-load-05", "morphir-load-06", "morphir-call-06"
)
async def test_each_process_gets_requests_from_id_0_and_calls_from_id_2() -> None:
    config = {"b": [1, None], "a": {"é": 0.5}}
    assert await _requests_of_a_connection(config=config) == [
        {"id": 0, "method": "initialize", "params": config},
        {"id": 1, "method": "capabilities", "params": None},
        {"id": 2, "method": "one", "params": 1},
        {"id": 3, "method": "two", "params": 2},
        {"id": 0, "method": "initialize", "params": config},
        {"id": 1, "method": "capabilities", "params": None},
        {"id": 2, "method": "three", "params": 3},
    ]


@shows("morphir-load-07", "morphir-call-01")
def test_each_request_of_the_handshake_and_each_call_has_30_seconds() -> None:
    limits = resolve_limits(Spec(id="x", argv=("x",)), DIALECT)
    assert (limits.handshake, limits.call) == (30, 30)
    assert limits.start is not None and limits.start >= 60, "enough for two requests of 30 s each"


@shows("morphir-load-07", "morphir-load-11")
@pytest.mark.parametrize("request_method", ["initialize", "capabilities"])
async def test_a_child_that_hangs_in_its_handshake_is_killed(
    request_method: str, clock: Clock
) -> None:
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    child_hangs = asyncio.Event()
    bus.subscribe(
        LogLine, lambda line: child_hangs.set() if line.text.startswith("hanging") else None
    )
    limits = {"handshake": "1s"}
    clock.stop()
    async with closed_at_end(
        unstarted_extension(f"hang_at={request_method}", bus=bus, limits=limits)
    ) as ext:
        starting = asyncio.ensure_future(error_of(ext.start()))
        await child_hangs.wait()
        await clock.advance(1)
        error = await starting
        assert isinstance(error, HandshakeFailed) and error.code == "X0504"
        assert f"hanging at {request_method}" in error.evidence.stderr
        assert ext.tools == {} and len(exits) == 1


@shows("morphir-load-10", "morphir-load-11")
async def test_an_early_exit_is_reported_with_its_status_and_stderr() -> None:
    async with closed_at_end(unstarted_extension("die_at=initialize", "code=5")) as ext:
        error = await error_of(ext.start())
        assert isinstance(error, HandshakeFailed) and error.code == "X0501"
        assert error.evidence.exit == "exited with 5"
        assert error.evidence.stderr == ("dying at initialize",)
        assert ext.tools == {}


# -- calls -----------------------------------------------------------------------------------


@shows("morphir-call-02")
async def test_an_error_reply_raises_an_error_with_its_text() -> None:
    async with hostile_extension() as ext:
        error = await error_of(ext.call("refuse", {"text": "not on a Monday"}))
        assert isinstance(error, CallFailed)
        assert (error.code, error.error_message) == ("X0701", "not on a Monday")
        assert "not on a Monday" in error.message


@shows("morphir-call-03")
@pytest.mark.both_loops
async def test_replies_in_random_order_are_delivered_to_their_calls() -> None:
    async with hostile_extension() as ext:
        calls = [ext.call("together", {"n": n, "of": 500}) for n in range(500)]
        assert await asyncio.gather(*calls) == list(range(500))


@shows("morphir-call-04")
async def test_no_outcome_leaves_a_pending_call() -> None:
    async with hostile_extension() as ext:
        await ext.call("echo", 1)
        await error_of(ext.call("refuse", {"text": "no"}))
        error = await error_of(ext.call("keep", None, timeout=0.05))
        assert isinstance(error, CallTimeout)
        cancelled = asyncio.ensure_future(ext.call("keep"))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert ext.stats.in_flight == 0
        # Both late answers come before this answer and are dropped.
        assert await ext.call("release") == 2
        assert ext.stats.dropped == {"late or repeated replies": 2}
        error = await error_of(ext.call("leave", {"code": 4}))
        assert isinstance(error, ExtensionGone)
        check_call_counts(ext, 6, result=2, error=1, timeout=1, cancelled=1, gone=1)


@shows("morphir-call-05")
async def test_1024_calls_can_be_in_flight_and_the_next_call_waits() -> None:
    async with hostile_extension() as ext:
        calls = [
            asyncio.ensure_future(ext.call("together", {"n": n, "of": 1024})) for n in range(1024)
        ]
        waiting_call = asyncio.ensure_future(ext.call("keep", "held", timeout=30))
        await asyncio.sleep(0)
        assert (ext.stats.in_flight, ext.stats.waiting) == (1024, 1)
        assert await asyncio.gather(*calls) == list(range(1024))
        assert await ext.call("release") == 1
        assert await waiting_call == "held"


@shows("morphir-call-05")
async def test_a_call_that_waits_to_be_sent_times_out() -> None:
    async with hostile_extension(limits={"max_in_flight": 1}) as ext:
        first = asyncio.ensure_future(ext.call("keep", "first", timeout=30))
        await asyncio.sleep(0)
        error = await error_of(ext.call("echo", "second", timeout=0.05))
        assert isinstance(error, CallTimeout) and "waiting for its turn" in error.message
        first.cancel()
        # The second call was not sent: the child has kept only the first one.
        assert await ext.call("release") == 1


@shows("morphir-call-06", "morphir-call-07")
async def test_call_accepts_any_method_and_call_tool_only_listed_tools() -> None:
    async with hostile_extension() as ext:
        assert await ext.call("never_listed", [1]) == [1]
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}
        error = await error_of(ext.call_tool("never_listed", {}))
        assert isinstance(error, NotFound) and "never_listed" in error.message
        # The third call was not sent.
        assert ext.stats.calls == 2


@shows("morphir-call-08")
async def test_an_extension_without_health_check_is_healthy() -> None:
    async with hostile_extension() as ext:
        assert await ext.check_health() == {"status": "healthy"}


@shows("morphir-restart-05")
async def test_the_reported_health_is_kept_until_the_next_process() -> None:
    # An extension as a shell script: it counts the requests from 0, which gives their ids.
    unhealthy_reply = 'echo "{\\"id\\":$n,\\"result\\":{\\"status\\":\\"unhealthy\\"}}"'
    script = (
        "n=0; while read -r line; do case $line in"
        ' *capabilities*) echo "{\\"id\\":$n,\\"result\\":[]}";;'
        f" *health_check*) {unhealthy_reply};;"
        ' *) echo "{\\"id\\":$n,\\"result\\":null}";; esac; n=$((n+1)); done'
    )
    async with exthost.connect(["/bin/sh", "-c", script], name="sh", dialect="morphir") as ext:
        assert ext.health == "running"
        assert await ext.check_health() == {"status": "unhealthy"}
        assert (ext.state, ext.health) == ("ready", "unhealthy")
        await ext.restart()
        assert ext.health == "running"  # the new process has not reported its health


@shows("morphir-sample-01")
@pytest.mark.both_loops
async def test_echo_returns_its_argument_unchanged() -> None:
    async with hostile_extension() as ext:
        assert await ext.call("echo", {"msg": "hello"}) == {"msg": "hello"}


# -- the end ---------------------------------------------------------------------------------


@shows("morphir-stop-01")
async def test_an_extension_that_exits_at_the_end_of_stdin_gets_no_signal() -> None:
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    async with hostile_extension(events=bus) as ext:
        await ext.call("echo", 1)
    assert [event.status for event in exits] == ["exited with 0"]


@shows("morphir-stop-02")
def test_the_shutdown_steps_wait_3_s_and_after_sigterm_2_s() -> None:
    assert DIALECT.traits.shutdown_steps == (CloseStdin(wait=3), Terminate(wait=2))


@shows("morphir-stop-02")
async def test_sigterm_comes_after_the_end_of_stdin_and_sigkill_after_sigterm() -> None:
    for flag, wait, expected in (
        ("ignore_eof", 10, "killed by SIGTERM"),
        ("stubborn", 0.1, "killed by SIGKILL"),
    ):
        steps = (CloseStdin(wait=0.1), Terminate(wait=wait))
        short_shutdown_dialect = replace(
            DIALECT, traits=replace(DIALECT.traits, shutdown_steps=steps)
        )
        bus = Bus()
        exits: list[Exited] = []
        bus.subscribe(Exited, exits.append)
        ext = unstarted_extension(flag, dialect=short_shutdown_dialect, bus=bus, lifetime="plain")
        async with closed_at_end(ext):
            await ext.start()
            grandchild = await ext.call("grandchild")
        assert [event.status for event in exits] == [expected]
        await wait_until(partial(_is_gone, grandchild))  # it was killed, and may not have ended yet


def _is_gone(pid: int) -> bool:
    """Return whether it has ended. In a container without a reaper, an orphan remains a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@shows("morphir-stop-03", "morphir-stop-04")
async def test_calls_in_flight_fail_when_the_process_dies() -> None:
    async with hostile_extension() as ext:
        calls_in_flight = [asyncio.ensure_future(error_of(ext.call("keep"))) for _ in range(3)]
        crash = await error_of(ext.call("leave", {"code": 7}))
        for error in [crash, *await asyncio.gather(*calls_in_flight)]:
            assert isinstance(error, ExtensionGone)
            assert error.evidence.exit == "exited with 7"
            assert error.evidence.stderr[-1] == "leaving, as I was told"
        await ext.close()
        await ext.close()
