"""Requirements of cigen that need a process: order of messages, exits, and invalid messages.

cigen is a dialect, a protocol for generators of CI configurations: protobuf messages without ids,
one call at a time. A generate is two exchanges, a PlanRequest and a GenerateRequest. The plugin of
these tests obeys a command in its schema (`request_with_verb("plan:fail")`), and its result reports
all messages that it got (`heard`). `@shows` names the requirements (`requirements.toml` of cigen)
that a test shows.
"""

import asyncio
import base64
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import spec_from_mapping
from exthost.dialects.cigen import messages
from exthost.dialects.cigen.dialect import DIALECT, _find_conflicts
from exthost.errors import (
    CallFailed,
    CallTimeout,
    ExtensionGone,
    HandshakeFailed,
    NotFound,
    ProtocolViolation,
    UsageError,
)
from exthost.events import Bus, Exited
from exthost.extension.extension import Extension
from exthost.model.shutdown_steps import CloseStdin
from exthost.session.effects import Frame
from exthost.session.session import Session
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import check_call_counts, closed_at_end, error_of, pid_of, wait_until

ROOT = Path(__file__).parents[2]
CHILD = [sys.executable, str(ROOT / "tests" / "extensions" / "cigen_child.py")]


def config_entry(*flags: str, name: str = "plugin", **settings: Any) -> dict[str, Any]:
    source = {"type": "process", "command": CHILD[0], "args": [*CHILD[1:], *flags]}
    return {"name": name, "dialect": "cigen", "source": source, **settings}


def plugin(*flags: str, bus: Bus | None = None, **settings: Any) -> Extension:
    return Extension(spec_from_mapping(config_entry(*flags, **settings)), DIALECT, bus=bus)


@pytest.mark.more
def test_the_time_to_compare_conflicts_with_capabilities_is_linear() -> None:
    """A comparison of each conflict with all capabilities would take minutes."""
    capabilities = [*(f"provider:{number}" for number in range(100_000)), "own.*:x"]
    conflicts = [
        *capabilities,
        *("provider:*", "own.a:x", "other:x", "other:*"),
        *["a:*"] * 100_000,
    ]
    others = _find_conflicts(conflicts, capabilities)
    assert others == ["other:x", "other:*", *["a:*"] * 100_000]
    patterns = [f"a:{number}*" for number in range(100_000)]
    assert _find_conflicts([f"b:{number}*" for number in range(10)], patterns)


def request_with_verb(verb: str = "", **variables: str) -> dict[str, Any]:
    """Return params with a command for the plugin, for example `plan:fail` or `hang`."""
    return {"schema": {"version": "1", "variables": {"do": verb, **variables}}}


async def generate_report(ext: Extension, params: Any = None, **more: Any) -> Any:
    """Call generate, and return the report of the plugin, with all messages so far in `heard`."""
    result = await ext.call("generate", params, **more)
    (fragment,) = result["fragments"]
    return json.loads(fragment["content"])


# -- requests ---------------------------------------------------------------------------


@shows("cigen-call-01", "cigen-load-01")
async def test_generate_sends_a_plan_request_first() -> None:
    async with closed_at_end(plugin()) as ext:
        schema = {"version": "1", "jobs": [{"id": "build"}, {"id": "test"}]}
        messages_received = (
            await generate_report(ext, {"schema": schema, "facts": {"os": "linux"}})
        )["heard"]
        assert [kind for kind, _ in messages_received] == [
            "Hello",
            "PlanRequest",
            "GenerateRequest",
        ]
        assert messages_received[0][1]["core_protocol"] == 1
        assert messages_received[0][1]["core_version"] == exthost.__version__
        assert messages_received[1][1] == {"schema": schema, "facts": {"os": "linux"}}
        assert messages_received[2][1] == {
            "target": "test",
            "graph": [
                {"id": "build", "type": "RESOURCE_TYPE_JOB"},
                {"id": "test", "type": "RESOURCE_TYPE_JOB"},
            ],
            "schema": schema,
            "facts": {"os": "linux"},
        }


async def test_fields_of_the_caller_replace_those_of_the_plan() -> None:
    async with closed_at_end(plugin()) as ext:
        params = {
            "target": "gitlab",
            "graph": [{"id": "mine"}],
            "plan": {"flags": {"fast": "1"}, "capabilities": ["provider:a"]},
        }
        report = (await generate_report(ext, params))["heard"]
        assert report[1][1] == {"flags": {"fast": "1"}, "capabilities": ["provider:a"]}
        assert report[2][1] == {"target": "gitlab", "graph": [{"id": "mine"}]}


@shows("cigen-call-02")
async def test_a_plugin_without_a_plan_step_gets_only_generate() -> None:
    async with closed_at_end(plugin("alone", options={"plan": False})) as ext:
        report = (await generate_report(ext, request_with_verb()))["heard"]
        assert [kind for kind, _ in report] == ["Hello", "GenerateRequest"]


@shows("cigen-load-09")
async def test_no_secret_is_sent_in_hello_or_given_to_the_process() -> None:
    secret = {"MY_API_KEY": "hunter2"}
    spec = spec_from_mapping(config_entry(env={"EXTRA": "1"}))
    environ = {**os.environ, **secret, "ODD": "\udcff"}
    async with closed_at_end(Extension(spec, DIALECT, environ=environ)) as ext:
        answer = await generate_report(ext)
        env = answer["heard"][0][1]["env"]
        assert env["EXTRA"] == "1" and env["PATH"] == os.environ["PATH"]
        assert "MY_API_KEY" not in env and "MY_API_KEY" not in answer["env"]
        assert "hunter2" not in json.dumps(answer)
        # Not valid text, so hello cannot contain it.
        assert "ODD" not in env and "ODD" in answer["env"]


@shows("cigen-json-01", "cigen-json-03")
async def test_both_spellings_of_a_field_are_accepted() -> None:
    async with closed_at_end(plugin()) as ext:
        signature = base64.b64encode(b"\x01\x02").decode()
        for name in ("work_signatures", "workSignatures"):
            report = (await generate_report(ext, {name: {"job": signature}}))["heard"]
            assert report[-1][1]["work_signatures"] == {"job": signature}


@shows("cigen-call-01")
async def test_a_member_that_is_null_has_its_default() -> None:
    async with closed_at_end(plugin()) as ext:
        schema = {"jobs": [{"id": "build"}]}
        message = {"schema": schema, "facts": None, "graph": None, "target": None, "plan": None}
        (_, generate) = (await generate_report(ext, message))["heard"][-1]
        assert generate["target"] == "test" and [item["id"] for item in generate["graph"]]


@pytest.mark.sampled
@shows("cigen-json-05")
@pytest.mark.parametrize(
    "params",
    [
        {"shcema": {}},
        {"graph": [{"type": "NO_SUCH_TYPE"}]},
        [],
        "text",
        {"graph": 7},
        {"target": 1},
        {"work_signatures": {"job": "no base64!"}},
        {"workSignatures": {"job": "abcde"}},
        {"plan": {"repo": {"file_cache": {"a": "plain text"}}}},
    ],
)
async def test_invalid_params_are_refused_and_not_sent(params: Any) -> None:
    async with closed_at_end(plugin()) as ext:
        await ext.start()
        pid = pid_of(ext)
        error = await error_of(ext.call("generate", params))
        assert isinstance(error, UsageError) and error.code == "X1320"
        assert [kind for kind, _ in (await generate_report(ext))["heard"]][1:] == [
            "PlanRequest",
            "GenerateRequest",
        ]
        assert ext.stats.pid == pid


@shows("cigen-json-06")
async def test_typed_messages_can_be_sent_and_received() -> None:
    async with closed_at_end(plugin()) as ext:
        schema = messages.CigenSchema(version="1", jobs=[messages.JobDefinition(id="build")])
        plan = await ext.typed.ask(messages.PlanRequest(schema=schema))
        assert isinstance(plan, messages.PlanResult)
        assert [(resource.id, resource.type) for resource in plan.resources] == [("build", 1)]
        error = await error_of(ext.typed.ask(messages.Hello()))
        assert isinstance(error, UsageError) and "Hello" in error.message


@shows("cigen-call-05")
async def test_a_method_that_the_plugin_does_not_announce_is_not_sent() -> None:
    async with closed_at_end(plugin()) as ext:
        for method in ("detect", "validate", "preflight"):
            error = await error_of(ext.call(method, {}))
            assert isinstance(error, UsageError) and error.code == "X1321"
        assert len((await generate_report(ext))["heard"]) == 3


async def test_an_unknown_method_is_not_found() -> None:
    async with closed_at_end(plugin()) as ext:
        error = await error_of(ext.call("hello", {}))
        assert isinstance(error, NotFound) and "generate" in error.help


# -- replies -----------------------------------------------------------------------


@shows("cigen-call-03", "cigen-call-04")
async def test_an_error_in_the_plan_fails_the_call_with_all_diagnostics() -> None:
    async with closed_at_end(plugin()) as ext:
        error = await error_of(ext.call("generate", request_with_verb("plan:fail")))
        assert isinstance(error, CallFailed) and error.code == "X0720"
        titles = [diagnostic["title"] for diagnostic in error.data["diagnostics"]]
        assert titles == ["bad plan", "and a warning"]
        report = (await generate_report(ext))["heard"]
        assert [kind for kind, _ in report] == ["Hello", "PlanRequest", "GenerateRequest"]
        check_call_counts(ext, 2, result=1, error=1)


@shows("cigen-call-10")
@pytest.mark.both_loops
async def test_plans_and_generates_in_any_order_alternate_for_the_plugin() -> None:
    """The plugin expects a generate after each plan, because messages have no ids."""
    async with closed_at_end(plugin()) as ext:
        await ext.start()
        calls = [
            ext.call("plan", request_with_verb())
            if n % 2
            else generate_report(ext, request_with_verb())
            for n in range(8)
        ]
        calls.append(error_of(ext.call("generate", request_with_verb("plan:fail"))))
        calls.append(generate_report(ext, request_with_verb()))
        for answer in await asyncio.gather(*calls):
            if isinstance(answer, dict) and "heard" in answer:
                kinds = [kind for kind, _ in answer["heard"]]
                assert kinds == ["Hello", *["PlanRequest", "GenerateRequest"] * (len(kinds) // 2)]
        check_call_counts(ext, 10, result=9, error=1)
        assert ext.stats.crashes == 0 and ext.health == "running"


@shows("cigen-call-10", "cigen-wire-08")
@pytest.mark.parametrize("cause", ["the caller", "the plan"])
async def test_the_next_call_works_after_a_generate_over_the_limit(cause: str) -> None:
    """The plan was sent, so the plugin expects a generate."""
    async with closed_at_end(plugin(limits={"max_message": "16KiB"})) as ext:
        if cause == "the caller":
            params = request_with_verb() | {
                "work_signatures": {"big": base64.b64encode(bytes(20_000)).decode()}
            }
        else:  # each job becomes a resource, so the graph makes the request larger than the plan
            jobs = [{"id": f"job-{n:04}"} for n in range(1000)]
            params = request_with_verb() | {"schema": {"version": "1", "jobs": jobs}}
        error = await error_of(ext.call("generate", params))
        assert isinstance(error, UsageError) and error.code == "X1303"
        report = (await generate_report(ext, request_with_verb()))["heard"]
        assert [kind for kind, _ in report] == ["Hello", "PlanRequest", "GenerateRequest"]
        assert ext.stats.crashes == 0 and ext.health == "running"


async def test_a_plugin_without_a_plan_step_has_no_method_plan() -> None:
    async with closed_at_end(plugin("alone", options={"plan": False})) as ext:
        error = await error_of(ext.call("plan", {}))
        assert isinstance(error, UsageError) and error.code == "X1321"
        assert list(ext.tools) == ["generate"]


@shows("cigen-wire-02")
@pytest.mark.parametrize("verb", ["plan:empty", "empty"])
async def test_an_empty_frame_is_a_valid_reply(verb: str) -> None:
    async with closed_at_end(plugin()) as ext:
        result = await ext.call("generate", request_with_verb(verb))
        assert result["diagnostics"] == []
        assert (result["fragments"] == []) is (verb == "empty")


@shows("cigen-wire-03")
async def test_a_reply_can_have_ten_mebibytes_but_not_one_byte_more() -> None:
    async with closed_at_end(plugin()) as ext:
        result = await ext.call("generate", request_with_verb("full"))
        (fragment,) = result["fragments"]
        message = messages.GenerateResult(
            fragments=[messages.Fragment(path="full", content=fragment["content"])]
        )
        assert message.ByteSize() == 10 * 2**20
        error = await error_of(ext.call("generate", request_with_verb("overrun")))
        assert isinstance(error, ProtocolViolation) and "10,485,761" in error.message
        assert "max_message" not in error.help, (
            "the protocol has this limit, it cannot be configured"
        )


@pytest.mark.more
@shows("cigen-wire-08")
async def test_a_request_over_the_limit_is_refused_and_not_sent() -> None:
    async with closed_at_end(plugin()) as ext:
        await ext.start()
        pid = pid_of(ext)
        error = await error_of(ext.call("plan", {"flags": {"big": "x" * 10 * 2**20}}))
        assert isinstance(error, UsageError) and error.code == "X1303"
        assert "send less" in error.help and "max_message" not in error.help
        assert len((await generate_report(ext))["heard"]) == 3
        assert ext.stats.pid == pid


# -- order -----------------------------------------------------------------------------------


@shows("cigen-call-06")
@pytest.mark.both_loops
async def test_concurrent_calls_are_sent_one_after_the_other() -> None:
    async with closed_at_end(plugin(limits={"max_in_flight": 8})) as ext:
        answers = await asyncio.gather(
            *(generate_report(ext, request_with_verb(n=str(n))) for n in range(20))
        )
        for n, answer in enumerate(answers):
            (plan, planned), (generate, generated) = answer["heard"][-2:]
            assert (plan, generate) == ("PlanRequest", "GenerateRequest")
            assert planned["schema"]["variables"]["n"] == str(n)
            assert generated["schema"]["variables"]["n"] == str(n)
        check_call_counts(ext, 20, result=20)


@shows("cigen-call-06")
def test_calls_of_many_threads_are_sent_one_after_the_other() -> None:
    answers: dict[int, Any] = {}

    def make_calls(host: exthost.SyncHost, n: int) -> None:
        for turn in range(5):
            answers[10 * n + turn] = host["plugin"].call(
                "generate", request_with_verb(n=str(10 * n + turn))
            )

    with exthost.SyncHost.from_config({"extensions": [config_entry()]}) as host:
        threads = [threading.Thread(target=make_calls, args=(host, n)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(answers) == 30
    for n, answer in answers.items():
        reported = json.loads(answer["fragments"][0]["content"])["heard"][-2:]
        assert [report[1]["schema"]["variables"]["n"] for report in reported] == [str(n)] * 2


@pytest.mark.sampled
@shows("cigen-call-07")
@pytest.mark.both_loops
@pytest.mark.parametrize("verb", ["plan:hang", "hang"])
async def test_a_timeout_ends_the_process_and_the_next_call_gets_a_new_one(verb: str) -> None:
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    async with closed_at_end(plugin(bus=bus)) as ext:
        await ext.start()
        pid = pid_of(ext)
        error = await error_of(ext.call("generate", request_with_verb(verb), timeout=0.3))
        assert isinstance(error, CallTimeout)
        await generate_report(ext)
        assert ext.stats.pid != pid
        assert [(exit_event.pid, exit_event.status) for exit_event in exits] == [
            (pid, "killed by SIGKILL")
        ]


@shows("cigen-call-07")
async def test_a_cancelled_call_ends_the_process_and_the_next_call_gets_a_new_one() -> None:
    async with closed_at_end(plugin()) as ext:
        await ext.start()
        pid = pid_of(ext)
        cancelled_call = asyncio.ensure_future(ext.call("generate", request_with_verb("hang")))
        await wait_until(lambda: ext.stats.in_flight == 1)
        cancelled_call.cancel()
        await generate_report(ext)
        assert ext.stats.pid != pid
        assert cancelled_call.cancelled()


@shows("cigen-call-08")
async def test_the_limit_applies_to_each_reply_and_a_timeout_to_the_whole_call(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generate has two exchanges. Each takes 1.5 s of the limit of 2 s."""
    assert DIALECT.traits.limits.call == DIALECT.traits.limits.handshake == 30
    async with closed_at_end(plugin(limits={"call": "2s"})) as ext:
        await ext.start()
        clock.stop()
        seconds_left = []
        real_write = Session.write

        def record_and_write(session: Session, frame: Frame) -> None:
            (call,) = session.pending.values()
            seconds_left.append(call.deadline - ext.internals.queue.now())
            call.deadline -= 1.5  # as if the answer had taken that long
            real_write(session, frame)

        monkeypatch.setattr(Session, "write", record_and_write)
        await ext.call("generate", request_with_verb())
        assert len(seconds_left) == 2 and all(1.8 < seconds <= 2 for seconds in seconds_left)
        seconds_left.clear()
        await ext.call("generate", request_with_verb(), timeout=20)
        assert 19 < seconds_left[0] <= 20 and 17 < seconds_left[1] < 18.6


# -- exits -----------------------------------------------------------------------------------


@pytest.mark.sampled
@shows("cigen-stop-02", "cigen-wire-04")
@pytest.mark.parametrize(
    ("verb", "exit_status", "text"),
    [
        ("plan:die", "exited with 3", "during generate"),
        ("die", "exited with 3", "during generate"),
        ("die-inside", "exited with 4", "18 of 100 bytes"),
    ],
)
async def test_a_plugin_that_dies_is_reported_with_its_status_and_replaced(
    verb: str, exit_status: str, text: str
) -> None:
    async with closed_at_end(plugin()) as ext:
        error = await error_of(ext.call("generate", request_with_verb(verb)))
        assert isinstance(error, ExtensionGone)
        assert error.evidence.exit == exit_status and text in error.message
        if exit_status.endswith("3"):
            assert error.evidence.stderr == ("the plugin broke",)
        assert (await generate_report(ext))["pid"]


@pytest.mark.sampled
@shows("cigen-wire-05", "cigen-wire-07")
@pytest.mark.parametrize(
    ("verb", "code", "text"),
    [
        ("plan:garble", "X0620", "not a PlanResult"),
        ("garble", "X0620", "not a GenerateResult"),
        ("plan:overrun", "X0601", "10,485,761"),
    ],
)
async def test_unreadable_output_ends_the_process(verb: str, code: str, text: str) -> None:
    async with closed_at_end(plugin()) as ext:
        await ext.start()
        pid = pid_of(ext)
        error = await error_of(ext.call("generate", request_with_verb(verb)))
        assert isinstance(error, ProtocolViolation)
        assert error.code == code and text in error.message
        assert error.extension == "plugin" and error.evidence.argv
        await generate_report(ext)
        assert ext.stats.pid != pid


@shows("cigen-wire-05")
async def test_a_second_reply_to_a_request_ends_the_process() -> None:
    async with closed_at_end(plugin()) as ext:
        await ext.start()
        pid = pid_of(ext)
        await ext.call("generate", request_with_verb("twice"))
        await wait_until(lambda: ext.stats.pid != pid)
        assert isinstance(ext.cause, ProtocolViolation) and ext.cause.code == "X0621"
        await generate_report(ext)
        assert ext.stats.pid != pid


@shows("cigen-load-02")
@pytest.mark.parametrize("protocol", ["0", "2"])
async def test_another_protocol_version_fails_the_call(protocol: str) -> None:
    async with closed_at_end(plugin(f"protocol={protocol}")) as ext:
        error = await error_of(ext.call("plan", {}))
        assert isinstance(error, HandshakeFailed) and error.code == "X0520"
        assert f"protocol {protocol}" in error.message and ext.stats.pid is None


@shows("cigen-stop-01")
async def test_the_end_of_stdin_stops_the_plugin_within_five_seconds() -> None:
    assert DIALECT.traits.shutdown_steps == (CloseStdin(wait=5),)
    assert isinstance(DIALECT.traits.shutdown_steps[0], CloseStdin)
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    async with closed_at_end(plugin(bus=bus)) as ext:
        await ext.start()
    assert [exit_event.status for exit_event in exits] == ["exited with 0"]


# -- in a host -------------------------------------------------------------------------------


def host_of(*entries: Mapping[str, Any]) -> exthost.Host:
    return exthost.Host.from_config({"extensions": list(entries)})


@shows("cigen-load-08")
async def test_only_one_of_two_plugins_with_the_same_name_becomes_ready() -> None:
    async with host_of(config_entry(name="one"), config_entry(name="two")) as host:
        (failed,) = [ext for ext in host.extensions if ext.state != "ready"]
        assert sum(ext.state == "ready" for ext in host.extensions) == 1
        assert isinstance(failed.cause, HandshakeFailed) and failed.cause.code == "X0524"
        assert "provider/test" in failed.cause.message


@pytest.mark.more
@shows("cigen-load-08")
async def test_a_plugin_can_be_restarted_and_loaded_again_with_its_name() -> None:
    async with host_of(config_entry(name="one")) as host:
        await host["one"].restart()
        await host.unload("one")
        assert (await host.load(config_entry(name="two"))).state == "ready"


@shows("cigen-call-09", "cigen-load-06", "cigen-load-07")
async def test_tools_are_found_by_plugin_name_or_capability() -> None:
    first = config_entry("name=provider/a", "capabilities=provider:a", name="one")
    second = config_entry("name=provider/b", "capabilities=provider:b,lang:c", name="two")
    async with host_of(first, second) as host:
        assert list(host.tools) == [
            "ext_one_plan",
            "ext_one_generate",
            "ext_two_plan",
            "ext_two_generate",
        ]
        assert (await host.find_tool("provider/b:generate")).extension == "two"
        assert (await host.find_tool("generate", capability="provider:a")).extension == "one"
        assert (await host.find_tool("generate", capability="lang:*")).extension == "two"
        for error in (
            await error_of(host.find_tool("generate")),
            await error_of(host.find_tool("generate", capability="provider:*")),
        ):
            assert isinstance(error, NotFound) and error.code == "X1204"
        error = await error_of(host.find_tool("generate", capability="provider:z"))
        assert isinstance(error, NotFound) and error.code == "X1220"
        result = await host.call_tool("provider/a:plan", {"schema": {"jobs": [{"id": "x"}]}})
        assert result.data["resources"][0]["id"] == "x"


async def test_importing_exthost_does_not_import_protobuf() -> None:
    program = (
        "import sys, exthost.host, exthost.faces.cli.call; print('google.protobuf' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 150)
    assert out == b"False\n"
