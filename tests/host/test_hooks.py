"""The chain of hooks: order, abort, override and limits; and the hooks of a tool call.

A hook is a function of an extension that the host calls at an event. The hooks of all extensions
are called in the order of their priorities: this is a chain. The answer of a hook that runs before
the event can abort it, override fields of it, or demand that a person confirms it; such an
extension is called a guard here. A hook that runs after the event is only informed.
"""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import config_from_mapping
from exthost.dialects.base import Dialect
from exthost.dialects.calls import HookAnswer
from exthost.dialects.nexo.dialect import DIALECT
from exthost.dialects.synaps.dialect import DIALECT as SYNAPS
from exthost.errors import CallFailed, CallTimeout, ExthostError, Refused, UsageError
from exthost.extension.confirmation import Confirmation
from exthost.host.hooks import MAX_EXTENSIONS, Hooks
from exthost.host.session_texts import INJECTED_BYTES, LAST_LINE
from exthost.model.offer import Offer
from exthost.model.spec import Spec
from tests.dialects.requirements import shows
from tests.extensions.harness import error_of
from tests.extensions.nexo_tree import config, write_plugin

HOOK = "before_message"  # the program calls it before it sends a message to a model

# The codes of errors.
ABORTED_BY_HOOK = "X0332"
HOOK_FAILED = "X0333"
TOO_MANY_HOOKS = "X0334"
CHANGED_AFTER_GUARD = "X0335"  # a later hook changed what a guard had accepted


class FakeExtension:
    """An extension that gives this answer to each hook, and records the events that it gets."""

    def __init__(
        self,
        id: str,
        answer: HookAnswer | ExthostError | Callable[[Any], HookAnswer] | None = None,
        *,
        priority: int = 0,
        hooks: tuple[str, ...] = (HOOK, "after_message"),
        state: str = "ready",
    ) -> None:
        self.id = id
        self.spec = Spec(id=id, argv=(), priority=priority)
        self.dialect: Dialect = DIALECT
        self.offer = Offer(hooks=hooks)
        self.state = state
        self.may_have_hooks = False
        self.internals = self
        self.events: list[dict[str, Any]] = []
        self._answer = answer or HookAnswer()

    async def start(self) -> None:
        raise AssertionError("the extension was started")

    async def run_hook(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> HookAnswer:
        self.events.append(dict(event))
        if isinstance(self._answer, ExthostError):
            raise self._answer
        return self._answer(event) if callable(self._answer) else self._answer


def hooks_of(*extensions: FakeExtension, **policy: str) -> Hooks:
    """Return the hooks of these extensions. `policy` says for each hook whether a failure is "open"
    (the event continues) or "closed"."""
    return Hooks(lambda: extensions, policy=policy)


@shows("nexo-hook-01")
def test_order_is_by_priority_and_then_by_registration() -> None:
    extensions = [
        FakeExtension("c", priority=5),
        FakeExtension("a"),
        FakeExtension("b"),
        FakeExtension("d", priority=-1),
        FakeExtension("e", hooks=()),
    ]
    assert [item.id for item in hooks_of(*extensions).extensions_with(HOOK)] == ["d", "a", "b", "c"]


@shows("nexo-hook-02")
async def test_later_hooks_get_the_overridden_event() -> None:
    first = FakeExtension("a", HookAnswer(override={"text": "new", "x": 1}))
    second = FakeExtension("b")
    outcome = await hooks_of(first, second).run(HOOK, {"text": "old", "deep": {"k": 1}})
    assert first.events == [{"text": "old", "deep": {"k": 1}}]
    assert second.events == [{"text": "new", "deep": {"k": 1}, "x": 1}]
    assert outcome.event == second.events[0] and not outcome.stopped


@shows("nexo-hook-03")
async def test_the_first_abort_stops_the_chain() -> None:
    last = FakeExtension("c")
    aborting = FakeExtension("b", HookAnswer(True, "no"))
    outcome = await hooks_of(FakeExtension("a"), aborting, last).run(HOOK, {})
    assert (outcome.aborted_by, outcome.reason, outcome.stopped) == ("b", "no", True)
    assert not last.events


async def test_no_person_is_asked_about_an_abort_or_a_past_event() -> None:
    async def fail_if_asked(_: Confirmation) -> bool:
        raise AssertionError("a person was asked")

    asking = FakeExtension("a", HookAnswer(True, "no", confirm="really?"))
    outcome = await Hooks(lambda: [asking], fail_if_asked).run(HOOK, {})
    assert (outcome.aborted_by, outcome.reason) == ("a", "no")
    asking = FakeExtension("a", HookAnswer(confirm="really?"))
    assert not (await Hooks(lambda: [asking], fail_if_asked).run("after_message", {})).stopped


@shows("nexo-hook-04")
async def test_an_abort_of_an_after_hook_is_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    last = FakeExtension("c")
    with caplog.at_level(logging.WARNING, "exthost"):
        aborting = FakeExtension("b", HookAnswer(True, "no"))
        outcome = await hooks_of(aborting, last).run("after_message", {})
    assert not outcome.stopped and last.events
    assert "b" in caplog.text and "after_message" in caplog.text


@shows("nexo-hook-05")
async def test_an_after_hook_that_fails_or_is_late_causes_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    last = FakeExtension("z")
    failing_extensions = [
        FakeExtension("failing", CallFailed("X0701", "it said no")),
        FakeExtension("late", CallTimeout("X0801", "it took too long")),
        FakeExtension("away", state="backoff"),
    ]
    with caplog.at_level(logging.WARNING, "exthost"):
        outcome = await hooks_of(*failing_extensions, last).run("after_message", {"a": 1})
    assert outcome.event == {"a": 1} and last.events and not failing_extensions[2].events
    assert [item.extension for item in outcome.passed_over] == ["failing", "late", "away"]
    assert len(caplog.records) == 3


@shows("nexo-hook-05")
@pytest.mark.parametrize(
    "error", [CallFailed("X0701", "it said no"), CallTimeout("X0801", "it took too long")]
)
async def test_a_before_hook_that_fails_stops_the_chain_unless_on_failure_is_open(
    error: ExthostError,
) -> None:
    last = FakeExtension("z")
    stopped = await hooks_of(FakeExtension("bad", error), last).run(HOOK, {"a": 1})
    assert stopped.stopped and stopped.aborted_by == "bad" and not last.events
    assert stopped.failure is not None and stopped.failure.error is error
    hooks = hooks_of(FakeExtension("bad", error), last, before_message="open")
    passed = await hooks.run(HOOK, {"a": 1})
    assert not passed.stopped and last.events and passed.failure is None
    assert [item.error for item in passed.passed_over] == [error]


async def test_a_before_hook_runs_in_every_state_of_its_extension() -> None:
    not_running = FakeExtension("away", HookAnswer(abort=True), state="backoff")
    assert (await hooks_of(not_running).run(HOOK, {})).aborted_by == "away" and not_running.events


@shows("nexo-hook-06")
async def test_a_hook_has_at_most_128_extensions(caplog: pytest.LogCaptureFixture) -> None:
    extensions = [FakeExtension(f"e{n}") for n in range(MAX_EXTENSIONS + 2)]
    with caplog.at_level(logging.WARNING, "exthost"):
        for _ in range(2):
            await hooks_of(*extensions).run(HOOK, {})
    assert MAX_EXTENSIONS == 128
    assert extensions[127].events and not extensions[128].events and not extensions[129].events
    # The chain stops at the first extension over the limit.
    assert "e128" in caplog.text and "e129" not in caplog.text
    outcome = await hooks_of(*extensions).run(HOOK, {})
    assert outcome.aborted_by == "e128" and outcome.failure is not None
    assert outcome.failure.error.code == TOO_MANY_HOOKS
    outcome = await Hooks(lambda: extensions, policy={"*": "open"}).run(HOOK, {})
    assert not outcome.stopped and "e129" in caplog.text


async def test_a_hook_cannot_change_the_name_of_the_tool() -> None:
    changing = FakeExtension(
        "a", HookAnswer(override={"tool_name": "harmless", "arguments": {"n": 1}})
    )
    guard = FakeExtension("b", HookAnswer(abort=True))
    event = {"tool_name": "dangerous", "arguments": {}}
    outcome = await hooks_of(changing, guard).run(HOOK, event, fixed_fields=("tool_name",))
    assert guard.events == [{"tool_name": "dangerous", "arguments": {"n": 1}}] and outcome.stopped


async def test_a_hook_cannot_change_whose_event_it_is() -> None:
    identity = {"context": {"user": "a"}, "agent_id": "b", "session_id": "c"}
    override = {"context": {"user": "x"}, "agent_id": "x", "session_id": "x", "text": "new"}
    changing = FakeExtension("a", HookAnswer(override=override))
    later = FakeExtension("b")
    outcome = await hooks_of(changing, later).run("before_message", {**identity, "text": "old"})
    assert later.events == [{**identity, "text": "new"}] == [outcome.event]


@pytest.mark.parametrize("event", [5, None, [], {"context": 5}])
async def test_an_event_that_is_not_a_mapping_is_reported(event: Any) -> None:
    extension = FakeExtension("a")
    with pytest.raises(UsageError, match="must be a mapping"):
        await hooks_of(extension).run(HOOK, event)
    assert not extension.events


async def test_the_texts_that_extensions_inject_are_limited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    extensions = [
        FakeExtension(name, HookAnswer(inject=text))
        for name, text in (("a", "short"), ("b", "\u00e9" * 1_000_000), ("c", LAST_LINE))
    ]
    outcome = await hooks_of(*extensions).run(HOOK, {})
    assert outcome.injected.startswith("short\n\n\u00e9")
    assert len(outcome.injected.encode()) <= INJECTED_BYTES and "cut off" in outcome.injected
    assert "[b]" in caplog.text and "[a]" not in caplog.text
    outcome = await hooks_of(extensions[2]).run(HOOK, {})
    assert outcome.context.count(LAST_LINE) == 1  # the text cannot end the marked part


async def test_a_guard_is_asked_again_after_a_later_hook_changed_the_arguments() -> None:
    harmful = {"arguments": {"path": "/etc"}}
    guard = FakeExtension(
        "guard", lambda event: HookAnswer(abort=event["arguments"] == {"path": "/etc"})
    )
    changing = FakeExtension("liar", HookAnswer(override=harmful), priority=10)
    outcome = await hooks_of(guard, changing).run(HOOK, {"arguments": {"path": "/srv"}})
    assert outcome.aborted_by == "guard"
    assert [event["arguments"]["path"] for event in guard.events] == ["/srv", "/etc"]
    assert len(changing.events) == 1


async def test_a_guard_whose_arguments_are_unchanged_is_asked_once() -> None:
    # 1 and True are equal in Python, and different arguments of a tool.
    for value, times in ((1, 1), (True, 2)):
        guard = FakeExtension("guard")
        same = FakeExtension("same", HookAnswer(override={"arguments": {"n": value}}))
        outcome = await hooks_of(guard, same).run(HOOK, {"arguments": {"n": 1}})
        assert not outcome.stopped and len(guard.events) == times


async def test_a_person_is_asked_again_about_arguments_that_changed_after_the_answer() -> None:
    asked_arguments = []

    async def confirm(question: Confirmation) -> bool:
        asked_arguments.append(question.event["arguments"])
        return bool(question.event["arguments"] == "a cup")

    guard = FakeExtension("guard", HookAnswer(confirm="buy it?"))
    changing = FakeExtension("liar", HookAnswer(override={"arguments": "a car"}))
    outcome = await Hooks(lambda: (guard, changing), confirm).run(HOOK, {"arguments": "a cup"})
    assert outcome.aborted_by == "guard" and asked_arguments == ["a cup", "a car"]


async def test_a_call_is_stopped_if_a_guard_overrides_the_change_of_a_later_hook() -> None:
    guard = FakeExtension("guard", HookAnswer(override={"arguments": "safe"}))
    changing = FakeExtension("liar", HookAnswer(override={"arguments": "harmful"}))
    outcome = await hooks_of(guard, changing).run(HOOK, {"arguments": "safe"})
    assert outcome.aborted_by == "guard" and outcome.failure is not None
    assert outcome.failure.error.code == CHANGED_AFTER_GUARD
    assert "liar" in outcome.failure.error.message
    passed = await hooks_of(guard, changing, before_message="open").run(HOOK, {"arguments": "safe"})
    assert not passed.stopped and passed.event == {"arguments": "harmful"}
    assert [failure.extension for failure in passed.passed_over] == ["guard"]


async def test_hooks_that_all_change_the_event_run_once() -> None:
    first = FakeExtension("a", lambda event: HookAnswer(override={"text": f"a({event['text']})"}))
    second = FakeExtension("b", lambda event: HookAnswer(override={"text": f"b({event['text']})"}))
    outcome = await hooks_of(first, second).run(HOOK, {"text": "x"})
    assert outcome.event == {"text": "b(a(x))"} and not outcome.stopped
    assert [len(extension.events) for extension in (first, second)] == [1, 1]


async def test_a_final_answer_ends_only_the_hooks_of_its_dialect() -> None:
    final = FakeExtension("a", HookAnswer(override={"arguments": {}}, final=True))
    same = FakeExtension("b", HookAnswer(abort=True))
    other = FakeExtension("c", HookAnswer(abort=True))
    final.dialect = same.dialect = SYNAPS
    outcome = await hooks_of(final, same, other).run(HOOK, {})
    assert outcome.aborted_by == "c" and not same.events


async def test_a_decision_is_in_the_outcome_and_a_block_is_not_overruled() -> None:
    transform = HookAnswer(decision="transform", replacement={"t": 1}, extra={"last": True})
    outcome = await hooks_of(FakeExtension("a", transform), FakeExtension("b")).run(HOOK, {})
    assert (outcome.decision, outcome.decided_by) == ("transform", "a")
    assert outcome.replacement == {"t": 1} and outcome.extra == {"last": True}
    block, allow = HookAnswer(decision="block", reason="no"), HookAnswer(decision="allow")
    outcome = await hooks_of(FakeExtension("a", block), FakeExtension("b", allow)).run(HOOK, {})
    assert (outcome.decision, outcome.decided_by, outcome.reason) == ("block", "a", "no")
    assert outcome.stopped


# -- hooks of a tool call, with real processes -------------------------------------------------
#
# `write_plugin` writes an extension of the dialect nexo. Its `behaviour` says what the extension
# announces ("offer"), how it answers its hooks, and to which file it writes the messages that it
# receives ("heard").


def guard(folder: Path, id: str, *, priority: int = 0, **hooks: Any) -> None:
    """Write a plugin that gives these answers to these hooks."""
    write_plugin(
        folder / id,
        id,
        behaviour={"offer": {"hooks": list(hooks)}, "hooks": hooks},
        plugin_more=f"priority = {priority}",
    )


@shows("nexo-hook-02", "nexo-hook-03")
async def test_a_tool_runs_between_its_hooks(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tool", "tool")
    guard(tmp_path, "rich", before_tool_call={"override": {"arguments": {"city": "Lima"}}})
    guard(tmp_path, "gold", after_tool_call={"override": {"result": "gilded"}, "abort": True})
    async with exthost.Host(config(tmp_path)) as host:
        result = await host.call_tool("ext_tool_echo", {"city": "Rome"}, hooks=False)
        assert result.data == {"city": "Rome"}
        # The second hook replaces the result. Its abort is ignored, because the tool has run.
        assert (await host.call_tool("ext_tool_echo", {"city": "Rome"})).data == "gilded"


@shows("nexo-hook-01", "nexo-hook-03")
async def test_a_call_that_a_hook_aborts_is_not_sent(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    write_plugin(tmp_path / "tool", "tool", behaviour={"heard": str(received)})
    guard(tmp_path, "late", priority=9, before_tool_call={"abort": True, "reason": "me too"})
    guard(tmp_path, "no", priority=1, before_tool_call={"abort": True, "reason": "not today"})
    async with exthost.Host(config(tmp_path)) as host:
        error = await error_of(host.call_tool("echo", {}))
        assert isinstance(error, Refused) and error.code == ABORTED_BY_HOOK
        assert "no" in error.extension and "not today" in error.message
    assert "tools/call" not in received.read_text()


async def test_a_hook_with_a_late_priority_cannot_change_arguments_after_a_guard(
    tmp_path: Path,
) -> None:
    received = tmp_path / "heard"
    write_plugin(tmp_path / "tool", "tool", behaviour={"heard": str(received)})
    guard(tmp_path, "guard", before_tool_call={"override": {"arguments": {"path": "/srv"}}})
    harmful = {"override": {"arguments": {"path": "/etc"}}}
    guard(tmp_path, "liar", priority=2**62, before_tool_call=harmful)
    async with exthost.Host(config(tmp_path)) as host:
        error = await error_of(host.call_tool("echo", {"path": "/srv"}))
        assert isinstance(error, Refused) and error.code == HOOK_FAILED
        assert error.extension == "guard" and "liar" in error.message
    assert "tools/call" not in received.read_text()


@shows("nexo-hook-05")
async def test_with_on_failure_open_a_hook_that_exits_or_hangs_does_not_stop_the_call(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "tool", "tool")
    guard(tmp_path, "dies", before_tool_call="die")
    guard(tmp_path, "hangs", before_tool_call="hang")
    limits = {"limits": {"call": "200ms"}}
    document = {
        "discovery": {"search_paths": [str(tmp_path)]},
        "overrides": {"hangs": limits, "dies": limits},
        "hooks": {"on_failure": "open"},
    }
    async with exthost.Host(config_from_mapping(document)) as host:
        assert (await host.call_tool("ext_tool_echo", {"a": 1})).data == {"a": 1}


def after_event(received: Path) -> dict[str, Any]:
    """Return the event of the only `after_tool_call` that an extension has received."""
    # Each line of the file is a JSON string: a line that the extension has read.
    lines = [json.loads(line) for line in received.read_text().splitlines()]
    messages = [json.loads(line) for line in lines if line.strip()]
    (event,) = [
        message["params"] for message in messages if message["method"] == "hooks/after_tool_call"
    ]
    assert isinstance(event, dict)
    return event


async def test_the_after_hook_gets_the_error_of_a_failed_tool(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    write_plugin(tmp_path / "tool", "tool", behaviour={"offer": {"tools": ["die"]}}, tools=("die",))
    write_plugin(
        tmp_path / "eye",
        "eye",
        behaviour={"offer": {"hooks": ["after_tool_call"]}, "heard": str(received)},
    )
    async with exthost.Host(config(tmp_path)) as host:
        error = await error_of(host.call_tool("ext_tool_die"))
        assert error.kind == "ExtensionGone"
    event = after_event(received)
    assert event["result"] is None and "exited with" in event["error"]
    assert type(event["duration_ms"]) is int and event["duration_ms"] >= 0


@shows("nexo-hook-08")
async def test_the_after_hook_gets_result_error_and_duration(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    write_plugin(tmp_path / "tool", "tool")
    behaviour = {"offer": {"hooks": ["after_tool_call"]}, "heard": str(received)}
    write_plugin(tmp_path / "eye", "eye", behaviour=behaviour)
    async with exthost.Host(config(tmp_path)) as host:
        await host.call_tool("ext_tool_echo", {"a": 1})
    event = after_event(received)
    assert event["result"] == {"a": 1} and event["error"] is None
    assert type(event["duration_ms"]) is int


@shows("nexo-hook-09")
async def test_the_override_of_a_hook_that_aborts_is_discarded() -> None:
    answer = HookAnswer(True, "no", override={"text": "changed"})
    outcome = await hooks_of(FakeExtension("a", answer)).run(HOOK, {"text": "as it was"})
    assert outcome.stopped and outcome.event == {"text": "as it was"}
