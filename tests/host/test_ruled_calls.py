"""A host applies the `[[rules]]` of its config to every tool call, before the hooks.

    [[rules]]
    tools = "ext_agent_echo"
    when = { argument = { path = "/etc/*" } }
    do = "deny"             # or "allow", or "ask"
    reason = "not here"

With `ask`, the function `confirm` of the host or of the caller asks a person, and the call is made
only if the function returns True. Each decision is written to the audit log.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import exthost
from bench.rules import OPTIONS, OneTool
from exthost.config import config_from_mapping
from exthost.errors import NotFound, Refused, UsageError
from exthost.events import Bus, HooksSkipped, RuleApplied
from exthost.extension.confirmation import Confirmation
from exthost.host.guarded_calls import GuardedCalls
from exthost.host.hooks import Hooks
from exthost.host.ruled_calls import RuledCalls
from exthost.model.offer import Tool
from tests.extensions.harness import error_of
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.six_dialects import TOOLS, document
from tests.extensions.synaps_tree import write_plugin
from tests.faces.cli.cli_process import host_process, run_inside
from tests.faces.gateway.gateway_process import extension, write_config

DENIED = "X1841"  # by a rule
NOT_CONFIRMED = "X1842"  # a rule asks, and nobody agreed
CHANGED_AFTER_ANSWER = "X1843"  # the arguments are not those that the person saw

# The tool `echo` of the extension `agent`, which returns its arguments.
ECHO = "ext_agent_echo"
ASK = {"tools": ECHO, "do": "ask", "reason": "it may shout"}


def agent(**settings: Any) -> dict[str, Any]:
    return extension("agent", "nexo", "-S", "-E", str(NEXO), **settings)


def config(folder: Path, *rules: dict[str, Any], **sections: Any) -> Path:
    """Write a config with the extension `agent`, an audit log and these rules. Return its path."""
    audit = {"path": str(folder / "audit.jsonl")}
    return write_config(
        folder, {"extensions": [agent()], "rules": list(rules), "audit": audit, **sections}
    )


def rule_records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of decisions of rules in the audit log."""
    lines = (folder / "audit.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["method"] == "rules"]


async def test_each_dialect_is_denied_asked_and_allowed(tmp_path: Path) -> None:
    """A call with the argument `no` is denied; for any other call, a person is asked."""
    names = {dialect: f"ext_{tool.extension}_{tool.name}" for dialect, tool in TOOLS.items()}
    rules = [
        {"tools": name, "when": {"dialect": dialect, "argument": {"no": "*"}}, "do": "deny"}
        for dialect, name in names.items()
    ]
    rules += [{"tools": name, "do": "ask"} for name in names.values()]
    questions: list[Confirmation] = []

    def confirm(confirmation: Confirmation) -> bool:
        questions.append(confirmation)
        return True

    config_path = write_config(tmp_path, document(tmp_path) | {"rules": rules})
    async with exthost.Host.from_config(config_path, confirm=confirm) as host:
        for dialect, tool in TOOLS.items():
            error = await error_of(host.call_tool(names[dialect], {**tool.arguments, "no": 1}))
            assert error.code == DENIED and isinstance(error, Refused)
            assert tool.shown in (await host.call_tool(names[dialect], tool.arguments)).text
    assert [question.event["tool_name"] for question in questions] == list(names.values())


@pytest.mark.parametrize(
    "way", ["host", "other name", "extension", "attached", "model", "sync", "cli"]
)
def test_every_way_to_call_a_tool_is_judged(tmp_path: Path, way: str) -> None:
    path = config(tmp_path, {"tools": ECHO, "do": "deny", "reason": "not here"})

    async def call() -> Any:
        async with (
            exthost.Host.from_config(path, control=True) as host,
            exthost.attach(path) as attached,
        ):
            calls = {
                "host": lambda: host.call_tool(ECHO, {"a": 1}),
                "other name": lambda: host.call_tool("agent:echo", {"a": 1}),
                "extension": lambda: host["agent"].call_tool("echo", {"a": 1}),
                "attached": lambda: attached.call_tool(ECHO, {"a": 1}),
            }
            if way == "model":
                use = {"type": "tool_use", "id": "1", "name": ECHO, "input": {"a": 1}}
                [answer] = await host.run_calls([use])
                assert answer["content"][0]["is_error"] and "not here" in str(answer)
                return
            error = await error_of(calls[way]())
            assert error.code == DENIED and "not here" in error.message

    if way == "cli":
        run = run_inside("call", ECHO, "a=1", "--config", path)
        assert run.returncode == 4 and DENIED in run.stderr and "not here" in run.stderr
    elif way == "sync":
        with exthost.SyncHost.from_config(path) as host:
            with pytest.raises(Refused, match="not here"):
                host.call_tool(ECHO, {"a": 1})
            assert host.call_tool("ext_agent_cwd").text  # a tool without a rule
            with pytest.raises(Refused):
                host["agent"].call_tool("echo", {"a": 1})
    else:
        asyncio.run(call())
    record = rule_records(tmp_path)[0]
    assert (record["about"], record["rule"]) == (ECHO, 1)  # rules are counted from 1
    assert (record["outcome"], record["reason"]) == ("denied", "not here")


async def test_hooks_false_skips_rules_and_publishes_an_event(tmp_path: Path) -> None:
    path = config(tmp_path, {"tools": "*", "do": "deny"})
    skipped: list[HooksSkipped] = []
    async with exthost.Host.from_config(path) as host:
        host.events.subscribe(HooksSkipped, skipped.append)
        assert (await host.call_tool(ECHO, {"a": 1}, hooks=False)).data == {"a": 1}
    assert [item.tool_name for item in skipped] == [ECHO]


def test_no_hooks_on_the_command_line_skips_rules_and_is_audited(tmp_path: Path) -> None:
    path = config(tmp_path, {"tools": "*", "do": "deny"})
    run = run_inside("call", ECHO, "a=1", "--no-hooks", "--config", path)
    assert run.returncode == 0
    lines = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert sum(line["outcome"] == "skipped" for line in lines) == 1


async def test_a_person_sees_the_arguments_and_decides(tmp_path: Path) -> None:
    answers = iter([True, False, "yes", 1, None])  # only True is an agreement
    questions: list[Confirmation] = []

    async def confirm(confirmation: Confirmation) -> Any:
        questions.append(confirmation)
        return next(answers)

    path = config(tmp_path, ASK)
    async with exthost.Host.from_config(path, confirm=confirm) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}
        for _ in range(4):
            error = await error_of(host.call_tool(ECHO, {"a": 1}))
            assert error.code == NOT_CONFIRMED and "did not agree" in error.message
    assert questions[0].event["arguments"] == {"a": 1} and "it may shout" in questions[0].message
    outcomes = [record["outcome"] for record in rule_records(tmp_path)]
    assert outcomes == ["agreed", "declined", "declined", "declined", "declined"]


async def test_without_an_answer_the_call_is_refused(tmp_path: Path) -> None:
    async def never(_: Confirmation) -> bool:
        await asyncio.Event().wait()
        return True

    def broken(_: Confirmation) -> bool:
        raise ValueError("no terminal")

    async with exthost.Host.from_config(config(tmp_path, ASK)) as host:
        without_person = await error_of(host.call_tool(ECHO))
        late = await error_of(host.call_tool(ECHO, confirm=never, timeout=0.05))
        failed = await error_of(host.call_tool(ECHO, confirm=broken))
    assert {error.code for error in (without_person, late, failed)} == {NOT_CONFIRMED}
    assert "there is no person to ask" in without_person.message
    assert "no answer arrived" in late.message
    assert [record["outcome"] for record in rule_records(tmp_path)] == ["unanswered"] * 3


async def test_an_answer_counts_for_the_arguments_that_were_shown(tmp_path: Path) -> None:
    arguments = {"path": "/tmp/a"}

    async def confirm(_: Confirmation) -> bool:
        arguments["path"] = "/etc/passwd"
        return True

    async with exthost.Host.from_config(config(tmp_path, ASK), confirm=confirm) as host:
        error = await error_of(host.call_tool(ECHO, arguments))
    assert error.code == CHANGED_AFTER_ANSWER


async def test_the_caller_is_asked_and_another_client_cannot_answer(tmp_path: Path) -> None:
    path = config(tmp_path, ASK)
    was_asked = asyncio.Event()
    agree: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def wait_for_answer(_: Confirmation) -> bool:
        was_asked.set()
        return await agree

    def ask_operator(_: Confirmation) -> bool:
        raise AssertionError("the caller should have been asked, and not the operator of the host")

    async with (
        exthost.Host.from_config(path, control=True, confirm=ask_operator) as host,
        exthost.attach(path, confirm=wait_for_answer) as caller,
        exthost.attach(path, confirm=lambda _: False) as other,
    ):
        applied: list[RuleApplied] = []
        host.events.subscribe(RuleApplied, applied.append)
        call = asyncio.ensure_future(caller.call_tool(ECHO, {"a": 1}))
        async with asyncio.timeout(60):
            await was_asked.wait()
            # Questions are counted on each connection, so the question to the caller has the
            # number 1. An answer on the connection of `other` must not be taken for its answer.
            other._connected().answer({"question": 1, "agreed": True})
            error = await error_of(other.call_tool(ECHO, {"a": 1}))
            assert error.code == NOT_CONFIRMED and not call.done()
            agree.set_result(True)
            assert (await call).data == {"a": 1}
    assert [item.outcome for item in applied] == ["declined", "agreed"]


async def test_an_answer_counts_for_one_call(tmp_path: Path) -> None:
    questions = []

    async def confirm(confirmation: Confirmation) -> bool:
        questions.append(confirmation)
        return bool(confirmation.event["arguments"]["a"] == 1)

    async with exthost.Host.from_config(config(tmp_path, ASK), confirm=confirm) as host:
        calls = [host.call_tool(ECHO, {"a": n}) for n in (1, 2, 1)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(outcome, Refused) for outcome in outcomes] == [False, True, False]
    assert len(questions) == 3


async def test_arguments_that_a_hook_has_changed_are_judged_again(tmp_path: Path) -> None:
    replace_path = {"action": "modify", "input": {"path": "/etc/passwd"}}
    hooks = [{"hook": "before_tool_call"}]
    heard = tmp_path / "heard"  # the guard writes the messages that it receives to this file
    behaviour = {"hooks": {"before_tool_call": replace_path}, "heard": str(heard)}
    write_plugin(tmp_path / "plugins" / "guard", behaviour, hooks=hooks)
    rule = {"tools": ECHO, "when": {"argument": {"path": "/etc/*"}}, "do": "deny"}
    path = config(tmp_path, rule, discovery={"search_paths": [str(tmp_path / "plugins")]})
    async with exthost.Host.from_config(path) as host:
        error = await error_of(host.call_tool(ECHO, {"path": "/tmp"}))
        assert error.code == DENIED
        hook_count = heard.read_text().count("before_tool_call")
        assert hook_count > 0
        # The rule denies these arguments already before the hook.
        await error_of(host.call_tool(ECHO, {"path": "/etc/x"}))
        assert heard.read_text().count("before_tool_call") == hook_count


async def test_a_call_without_arguments_is_judged_once_if_there_are_hooks(tmp_path: Path) -> None:
    """A hook gets {} for missing arguments. That is not a change of the arguments."""
    behaviour = {"heard": str(tmp_path / "heard")}
    hooks = [{"hook": "before_tool_call"}]
    write_plugin(tmp_path / "plugins" / "guard", behaviour, hooks=hooks)
    search_paths = [str(tmp_path / "plugins")]
    path = config(tmp_path, ASK, discovery={"search_paths": search_paths})
    questions: list[Confirmation] = []

    def confirm(confirmation: Confirmation) -> bool:
        questions.append(confirmation)
        return True

    async with exthost.Host.from_config(path, confirm=confirm) as host:
        await host.call_tool(ECHO)
    assert "before_tool_call" in (tmp_path / "heard").read_text()
    assert len(questions) == 1


async def test_allow_is_recorded_and_other_tools_are_not_judged(tmp_path: Path) -> None:
    path = config(tmp_path, {"tools": ECHO, "do": "allow"}, {"tools": "ext_agent_e*", "do": "deny"})
    applied: list[RuleApplied] = []
    async with exthost.Host.from_config(path) as host:
        host.events.subscribe(RuleApplied, applied.append)
        for _ in range(2):
            await host.call_tool(ECHO, {"a": 1}, context={"agent_id": "me"})
            await host.call_tool("ext_agent_cwd")
            assert (await error_of(host.call_tool("ext_agent_env"))).code == DENIED
        assert isinstance(await error_of(host.call_tool("ext_agent_nothing")), NotFound)
    assert [(item.tool_name, item.outcome) for item in applied] == [
        (ECHO, "allowed"),
        ("ext_agent_env", "denied"),
    ] * 2
    assert applied[0].context == {"agent_id": "me"} and applied[0].client is None


async def test_a_rule_that_allows_is_recorded_for_calls_of_every_caller(tmp_path: Path) -> None:
    path = config(tmp_path, {"tools": ECHO, "when": {"argument": {"a": "1"}}, "do": "allow"})
    applied: list[RuleApplied] = []
    async with (
        exthost.Host.from_config(path, control=True) as host,
        exthost.attach(path) as attached,
    ):
        host.events.subscribe(RuleApplied, applied.append)
        for _ in range(3):
            await host.call_tool(ECHO, {"a": 1})
            await attached.call_tool(ECHO, {"a": 1})
            await host.call_tool(ECHO, {"a": 2})  # no rule decides about it
    assert [item.outcome for item in applied] == ["allowed"] * 6


async def test_a_tool_is_judged_again_when_its_extension_changes_it() -> None:
    rules = [
        {"tools": "*", "when": {"read_only": True}, "do": "allow"},
        {"tools": "*", "do": "deny"},
    ]
    bus = Bus()
    ruled_calls = RuledCalls(config_from_mapping({"rules": rules}).rules, None, bus)
    guarded_calls = GuardedCalls(Hooks(lambda: ()), ruled_calls, bus)

    def allows(extension: str, tool: Tool) -> bool:
        """Return whether it is known that a call without arguments can be made at once."""
        return guarded_calls.allows(extension, tool, arguments={}, context={})

    calls = OneTool()  # the tool `read` of the extension `fs`
    calls.current = read_only_tool = Tool("read", extra={"annotations": {"readOnlyHint": True}})
    assert not allows("fs", read_only_tool), "it is not known before the first call"
    await guarded_calls.run(calls, "read", {}, OPTIONS)
    assert allows("fs", read_only_tool) and not guarded_calls.is_unjudged("fs", read_only_tool)
    assert not allows("other", read_only_tool)
    calls.current = Tool("read")  # the extension no longer says that the tool only reads
    assert not allows("fs", calls.current)
    with pytest.raises(Refused):
        await guarded_calls.run(calls, "read", {}, OPTIONS)
    guarded_calls.mark_stale()
    assert not allows("fs", read_only_tool)


async def test_a_name_that_is_not_text_is_an_error_of_the_caller(tmp_path: Path) -> None:
    async with exthost.Host.from_config(config(tmp_path, {"tools": ECHO, "do": "deny"})) as host:
        await host.call_tool("ext_agent_cwd")
        error = await error_of(host["agent"].call_tool([]))  # type: ignore[arg-type]
    assert isinstance(error, UsageError)


async def test_a_reload_applies_changed_rules(tmp_path: Path) -> None:
    path = config(tmp_path)
    async with exthost.Host.from_config(path) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}
        config(tmp_path, {"tools": "*", "do": "deny"})
        await host.reload()
        assert (await error_of(host.call_tool(ECHO, {"a": 1}))).code == DENIED
        config(tmp_path)
        await host.reload()
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}


@pytest.mark.more
def test_exthost_call_answers_a_rule_with_yes_or_refuses(tmp_path: Path) -> None:
    path = config(tmp_path, ASK)
    refused = run_inside("call", ECHO, "a=1", "--config", path)
    assert refused.returncode == 4 and NOT_CONFIRMED in refused.stderr
    agreed = run_inside("call", ECHO, "a=1", "--yes", "--config", path)
    assert agreed.returncode == 0 and "it may shout" in agreed.stderr
    with host_process(tmp_path):  # the same through a host that runs in another process
        assert run_inside("call", ECHO, "a=1", "--config", path).returncode == 4
        assert run_inside("call", ECHO, "a=1", "--yes", "--config", path).returncode == 0


@pytest.mark.more
def test_rules_test_says_which_rule_fits_and_exits_with_0(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        {"tools": ECHO, "when": {"argument": {"path": "/etc/*"}}, "do": "deny", "reason": "no"},
        {"tools": "agent:*", "when": {"client": "claude-*"}, "do": "ask"},
    )

    def find_rule(*arguments: str) -> tuple[int | None, str, str]:
        """Return the number, the action and the reason of the rule for a call."""
        run = run_inside("rules", "test", *arguments, "--json", "--config", path)
        assert run.returncode == 0, run.stderr
        report = json.loads(run.stdout)
        return report["rule"], report["do"], report["reason"]

    def check_rules() -> None:
        assert find_rule("agent:echo", "path=/etc/x") == (1, "deny", "no")
        assert find_rule(ECHO, "path=/tmp") == (None, "allow", "")
        assert find_rule(ECHO, "--client", "claude-code") == (2, "ask", "")
        assert find_rule(ECHO, "--args", '{"path": ["/etc/x"]}') == (1, "deny", "no")

    check_rules()
    with host_process(tmp_path):  # the command asks the running host
        check_rules()
    run = run_inside("rules", "test", ECHO, "path=/etc/x", "--config", path)
    assert run.returncode == 0 and "rule 1 (ext_agent_echo) says deny: no" in run.stdout
    assert run_inside("rules", "test", "nothing", "--config", path).returncode == 2


def test_tools_all_shows_the_tools_that_rules_deny(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        {"tools": ECHO, "when": {"argument": {"a": "*"}}, "do": "deny"},
        {"tools": "agent:env", "do": "deny", "reason": "secrets"},
    )
    for arguments in ([], ["agent"]):
        run = run_inside("tools", *arguments, "--start", "--all", "--json", "--config", path)
        [hidden] = json.loads(run.stdout)["hidden"]
        assert (hidden["tool"], hidden["reason"]) == ("env", "rule 2 denies it: secrets")


async def test_with_hooks_and_rules_the_arguments_reach_the_tool(tmp_path: Path) -> None:
    hooks = [{"hook": "before_tool_call"}]
    write_plugin(tmp_path / "plugins" / "guard", {}, hooks=hooks)
    path = config(
        tmp_path,
        {"tools": ECHO, "do": "allow"},
        discovery={"search_paths": [str(tmp_path / "plugins")]},
    )
    async with exthost.Host.from_config(path) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}
        assert (await host.call_tool(ECHO)).data == {}
