"""The hook chain: order, abort, override, limits; and a tool call between its hooks."""

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
from exthost.errors import CallFailed, CallTimeout, ExthostError, Refused
from exthost.extension.confirmation import Confirmation
from exthost.host.hooks import MAX_EXTENSIONS, Hooks
from exthost.model.offer import Offer
from exthost.model.spec import Spec
from tests.dialects.requirements import shows
from tests.extensions.harness import failing
from tests.extensions.nexo_tree import config, plugin

HOOK = "before_message"


class Fake:
    """An extension that answers one thing, and keeps what it was asked."""

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
        self.seen: list[dict[str, Any]] = []
        self._answer = answer or HookAnswer()

    async def start(self) -> None:
        raise AssertionError("nobody has to start it")

    async def run_hook(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> HookAnswer:
        self.seen.append(dict(event))
        if isinstance(self._answer, ExthostError):
            raise self._answer
        return self._answer(event) if callable(self._answer) else self._answer


def chain(*fakes: Fake, **policy: str) -> Hooks:
    return Hooks(lambda: fakes, policy=policy)


@shows("nexo-hook-01")
def test_order_is_by_priority_and_then_by_registration() -> None:
    fakes = [
        Fake("c", priority=5),
        Fake("a"),
        Fake("b"),
        Fake("d", priority=-1),
        Fake("e", hooks=()),
    ]
    assert [item.id for item in chain(*fakes).extensions_with(HOOK)] == ["d", "a", "b", "c"]


@shows("nexo-hook-02")
async def test_an_override_is_seen_by_those_after_it() -> None:
    first, second = Fake("a", HookAnswer(override={"text": "new", "x": 1})), Fake("b")
    outcome = await chain(first, second).run(HOOK, {"text": "old", "deep": {"k": 1}})
    assert first.seen == [{"text": "old", "deep": {"k": 1}}]
    assert second.seen == [{"text": "new", "deep": {"k": 1}, "x": 1}]
    assert outcome.event == second.seen[0] and not outcome.stopped


@shows("nexo-hook-03")
async def test_before_the_first_abort_stops_the_chain_and_names_its_extension_and_reason() -> None:
    last = Fake("c")
    outcome = await chain(Fake("a"), Fake("b", HookAnswer(True, "no")), last).run(HOOK, {})
    assert (outcome.aborted_by, outcome.reason, outcome.stopped) == ("b", "no", True)
    assert not last.seen


async def test_no_question_is_asked_about_an_abort_or_a_past_event() -> None:
    async def never(_: Confirmation) -> bool:
        raise AssertionError("nobody has to be asked")

    asks = Fake("a", HookAnswer(True, "no", confirm="really?"))
    outcome = await Hooks(lambda: [asks], never).run(HOOK, {})
    assert (outcome.aborted_by, outcome.reason) == ("a", "no")
    asks = Fake("a", HookAnswer(confirm="really?"))
    assert not (await Hooks(lambda: [asks], never).run("after_message", {})).stopped


@shows("nexo-hook-04")
async def test_after_an_abort_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    last = Fake("c")
    with caplog.at_level(logging.WARNING, "exthost"):
        outcome = await chain(Fake("b", HookAnswer(True, "no")), last).run("after_message", {})
    assert not outcome.stopped and last.seen
    assert "b" in caplog.text and "after_message" in caplog.text


@shows("nexo-hook-05")
async def test_a_handler_that_fails_is_late_or_is_not_there_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    last = Fake("z")
    bad = [
        Fake("failing", CallFailed("X0701", "it said no")),
        Fake("late", CallTimeout("X0801", "it took too long")),
        Fake("away", state="backoff"),
    ]
    with caplog.at_level(logging.WARNING, "exthost"):
        outcome = await chain(*bad, last).run("after_message", {"a": 1})
    assert outcome.event == {"a": 1} and last.seen and not bad[2].seen
    assert [item.extension for item in outcome.passed_over] == ["failing", "late", "away"]
    assert len(caplog.records) == 3


@shows("nexo-hook-05")
@pytest.mark.parametrize(
    "error", [CallFailed("X0701", "it said no"), CallTimeout("X0801", "it took too long")]
)
async def test_before_a_handler_that_fails_stops_the_chain_unless_failures_are_let_pass(
    error: ExthostError,
) -> None:
    last = Fake("z")
    closed = await chain(Fake("bad", error), last).run(HOOK, {"a": 1})
    assert closed.stopped and closed.aborted_by == "bad" and not last.seen
    assert closed.failure is not None and closed.failure.error is error
    hooks = chain(Fake("bad", error), last, before_message="open")
    let_pass = await hooks.run(HOOK, {"a": 1})
    assert not let_pass.stopped and last.seen and let_pass.failure is None
    assert [item.error for item in let_pass.passed_over] == [error]


async def test_before_a_handler_is_asked_in_every_state() -> None:
    away = Fake("away", HookAnswer(abort=True), state="backoff")
    assert (await chain(away).run(HOOK, {})).aborted_by == "away" and away.seen


@shows("nexo-hook-06")
async def test_a_hook_has_128_handlers_at_most(caplog: pytest.LogCaptureFixture) -> None:
    fakes = [Fake(f"e{n}") for n in range(MAX_EXTENSIONS + 2)]
    with caplog.at_level(logging.WARNING, "exthost"):
        for _ in range(2):
            await chain(*fakes).run(HOOK, {})
    assert MAX_EXTENSIONS == 128
    assert fakes[127].seen and not fakes[128].seen and not fakes[129].seen
    assert "e128" in caplog.text and "e129" not in caplog.text  # it is stopped at the first
    outcome = await chain(*fakes).run(HOOK, {})
    assert outcome.aborted_by == "e128" and outcome.failure is not None
    assert outcome.failure.error.code == "X0334"
    outcome = await Hooks(lambda: fakes, policy={"*": "open"}).run(HOOK, {})
    assert not outcome.stopped and "e129" in caplog.text


async def test_no_hook_changes_which_call_the_next_one_judges() -> None:
    liar = Fake("a", HookAnswer(override={"tool_name": "harmless", "arguments": {"n": 1}}))
    guard = Fake("b", HookAnswer(abort=True))
    event = {"tool_name": "dangerous", "arguments": {}}
    outcome = await chain(liar, guard).run(HOOK, event, fixed_fields=("tool_name",))
    assert guard.seen == [{"tool_name": "dangerous", "arguments": {"n": 1}}] and outcome.stopped


async def test_a_guard_also_judges_the_arguments_that_a_later_hook_changed() -> None:
    harmful = {"arguments": {"path": "/etc"}}
    guard = Fake("guard", lambda event: HookAnswer(abort=event["arguments"] == {"path": "/etc"}))
    liar = Fake("liar", HookAnswer(override=harmful), priority=10)
    outcome = await chain(guard, liar).run(HOOK, {"arguments": {"path": "/srv"}})
    assert outcome.aborted_by == "guard"
    assert [event["arguments"]["path"] for event in guard.seen] == ["/srv", "/etc"]
    assert len(liar.seen) == 1


async def test_a_guard_whose_arguments_are_unchanged_is_asked_once() -> None:
    # 1 and True are equal in Python, and different arguments of a tool.
    for value, times in ((1, 1), (True, 2)):
        guard = Fake("guard")
        same = Fake("same", HookAnswer(override={"arguments": {"n": value}}))
        outcome = await chain(guard, same).run(HOOK, {"arguments": {"n": 1}})
        assert not outcome.stopped and len(guard.seen) == times


async def test_a_person_is_asked_again_about_arguments_that_changed_after_the_answer() -> None:
    asked = []

    async def confirm(question: Confirmation) -> bool:
        asked.append(question.event["arguments"])
        return bool(question.event["arguments"] == "a cup")

    guard = Fake("guard", HookAnswer(confirm="buy it?"))
    liar = Fake("liar", HookAnswer(override={"arguments": "a car"}))
    outcome = await Hooks(lambda: (guard, liar), confirm).run(HOOK, {"arguments": "a cup"})
    assert outcome.aborted_by == "guard" and asked == ["a cup", "a car"]


async def test_a_guard_that_would_correct_the_change_of_a_later_hook_stops_it() -> None:
    guard = Fake("guard", HookAnswer(override={"arguments": "safe"}))
    liar = Fake("liar", HookAnswer(override={"arguments": "harmful"}))
    outcome = await chain(guard, liar).run(HOOK, {"arguments": "safe"})
    assert outcome.aborted_by == "guard" and outcome.failure is not None
    assert outcome.failure.error.code == "X0335" and "liar" in outcome.failure.error.message
    let_pass = await chain(guard, liar, before_message="open").run(HOOK, {"arguments": "safe"})
    assert not let_pass.stopped and let_pass.event == {"arguments": "harmful"}
    assert [failure.extension for failure in let_pass.passed_over] == ["guard"]


async def test_hooks_that_change_the_event_in_turn_are_asked_once() -> None:
    first = Fake("a", lambda event: HookAnswer(override={"text": f"a({event['text']})"}))
    second = Fake("b", lambda event: HookAnswer(override={"text": f"b({event['text']})"}))
    outcome = await chain(first, second).run(HOOK, {"text": "x"})
    assert outcome.event == {"text": "b(a(x))"} and not outcome.stopped
    assert [len(fake.seen) for fake in (first, second)] == [1, 1]


async def test_a_final_answer_does_not_keep_other_dialects_from_judging() -> None:
    final = Fake("a", HookAnswer(override={"arguments": {}}, final=True))
    same, other = Fake("b", HookAnswer(abort=True)), Fake("c", HookAnswer(abort=True))
    final.dialect = same.dialect = SYNAPS
    outcome = await chain(final, same, other).run(HOOK, {})
    assert outcome.aborted_by == "c" and not same.seen


async def test_decisions_are_handed_on_and_a_block_stands() -> None:
    body = HookAnswer(decision="transform", replacement={"t": 1}, extra={"last": True})
    outcome = await chain(Fake("a", body), Fake("b")).run(HOOK, {})
    assert (outcome.decision, outcome.decided_by) == ("transform", "a")
    assert outcome.replacement == {"t": 1} and outcome.extra == {"last": True}
    block, allow = HookAnswer(decision="block", reason="no"), HookAnswer(decision="allow")
    outcome = await chain(Fake("a", block), Fake("b", allow)).run(HOOK, {})
    assert (outcome.decision, outcome.decided_by, outcome.reason) == ("block", "a", "no")
    assert outcome.stopped


# -- around a tool call, with real processes -------------------------------------------------


def guard(folder: Path, id: str, *, priority: int = 0, **hooks: Any) -> None:
    plugin(
        folder / id,
        id,
        behaviour={"offer": {"hooks": list(hooks)}, "hooks": hooks},
        plugin_more=f"priority = {priority}",
    )


@shows("nexo-hook-02", "nexo-hook-03")
async def test_a_tool_runs_between_its_hooks(tmp_path: Path) -> None:
    plugin(tmp_path / "tool", "tool")
    guard(tmp_path, "rich", before_tool_call={"override": {"arguments": {"city": "Lima"}}})
    guard(tmp_path, "gold", after_tool_call={"override": {"result": "gilded"}, "abort": True})
    async with exthost.Host(config(tmp_path)) as host:
        result = await host.call_tool("ext_tool_echo", {"city": "Rome"}, hooks=False)
        assert result.data == {"city": "Rome"}
        assert (await host.call_tool("ext_tool_echo", {"city": "Rome"})).data == "gilded"


@shows("nexo-hook-01", "nexo-hook-03")
async def test_a_hook_that_aborts_keeps_the_call_from_being_sent(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    plugin(tmp_path / "tool", "tool", behaviour={"heard": str(received)})
    guard(tmp_path, "late", priority=9, before_tool_call={"abort": True, "reason": "me too"})
    guard(tmp_path, "no", priority=1, before_tool_call={"abort": True, "reason": "not today"})
    async with exthost.Host(config(tmp_path)) as host:
        error = await failing(host.call_tool("echo", {}))
        assert isinstance(error, Refused) and error.code == "X0332"
        assert "no" in error.extension and "not today" in error.message
    assert "tools/call" not in received.read_text()


async def test_no_priority_lets_a_hook_change_arguments_behind_a_guard(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    plugin(tmp_path / "tool", "tool", behaviour={"heard": str(received)})
    guard(tmp_path, "guard", before_tool_call={"override": {"arguments": {"path": "/srv"}}})
    harmful = {"override": {"arguments": {"path": "/etc"}}}
    guard(tmp_path, "liar", priority=2**62, before_tool_call=harmful)
    async with exthost.Host(config(tmp_path)) as host:
        error = await failing(host.call_tool("echo", {"path": "/srv"}))
        assert isinstance(error, Refused) and error.code == "X0333"
        assert error.extension == "guard" and "liar" in error.message
    assert "tools/call" not in received.read_text()


@shows("nexo-hook-05")
async def test_a_hook_that_dies_or_hangs_does_not_stop_the_call_where_that_was_chosen(
    tmp_path: Path,
) -> None:
    plugin(tmp_path / "tool", "tool")
    guard(tmp_path, "dies", before_tool_call="die")
    guard(tmp_path, "hangs", before_tool_call="hang")
    limits = {"limits": {"call": "200ms"}}
    message = {
        "discovery": {"search_paths": [str(tmp_path)]},
        "overrides": {"hangs": limits, "dies": limits},
        "hooks": {"on_failure": "open"},
    }
    async with exthost.Host(config_from_mapping(message)) as host:
        assert (await host.call_tool("ext_tool_echo", {"a": 1})).data == {"a": 1}


def after_event(heard: Path) -> dict[str, Any]:
    """The event of the only `after_tool_call` in what an extension has heard."""
    lines = [json.loads(line) for line in heard.read_text().splitlines()]
    messages = [json.loads(line) for line in lines if line.strip()]
    (event,) = [
        message["params"] for message in messages if message["method"] == "hooks/after_tool_call"
    ]
    assert isinstance(event, dict)
    return event


async def test_the_after_hook_sees_a_tool_that_failed(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    plugin(tmp_path / "tool", "tool", behaviour={"offer": {"tools": ["die"]}}, tools=("die",))
    plugin(
        tmp_path / "eye",
        "eye",
        behaviour={"offer": {"hooks": ["after_tool_call"]}, "heard": str(received)},
    )
    async with exthost.Host(config(tmp_path)) as host:
        error = await failing(host.call_tool("ext_tool_die"))
        assert error.kind == "ExtensionGone"
    event = after_event(received)
    assert event["result"] is None and "exited with" in event["error"]
    assert type(event["duration_ms"]) is int and event["duration_ms"] >= 0


@shows("nexo-hook-08")
async def test_the_after_hook_sees_result_error_and_duration(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    plugin(tmp_path / "tool", "tool")
    behaviour = {"offer": {"hooks": ["after_tool_call"]}, "heard": str(received)}
    plugin(tmp_path / "eye", "eye", behaviour=behaviour)
    async with exthost.Host(config(tmp_path)) as host:
        await host.call_tool("ext_tool_echo", {"a": 1})
    event = after_event(received)
    assert event["result"] == {"a": 1} and event["error"] is None
    assert type(event["duration_ms"]) is int


@shows("nexo-hook-09")
async def test_the_override_of_a_hook_that_aborts_is_discarded() -> None:
    answer = HookAnswer(True, "no", override={"text": "changed"})
    outcome = await chain(Fake("a", answer)).run(HOOK, {"text": "as it was"})
    assert outcome.stopped and outcome.event == {"text": "as it was"}
