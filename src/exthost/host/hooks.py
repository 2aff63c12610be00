"""Calls the hooks of extensions before or after an event, one extension after another.

A hook is a function of an extension. Before a tool is called, for example, the host calls the hook
`before_tool_call` of each extension that has one. The answer may be the decision "block". The event
that the hook gets is a mapping such as

    {"tool_name": "ext_files_delete", "arguments": {"path": "/srv/a"}, …}

An extension is called if it offers the hook and the filter of its dialect (`Dialect.wants_hook`)
accepts the event. The extension with the lowest priority number is called first; among equal
numbers the order of the host decides. Each extension gets the event with the changes (`override`)
of those that were called earlier. At most `MAX_EXTENSIONS` extensions are called for one hook.

Before an event, an extension can stop it in three ways:

- It aborts the event. No further extension is called.
- Its decision is "block". The remaining extensions are still called, but cannot undo the decision.
- It requests a confirmation, and no person agrees. This is treated like an abort.

After an event nothing can be stopped; an abort is then logged as a warning. After an answer that is
marked `final`, no further extension of the same dialect is called. This is a rule of that dialect,
so the extensions of other dialects are still called.

**A change is judged by the earlier extensions, too.** If an extension changes the event before it
happens, the extensions that were called earlier, had not changed the event and may block it are
called once more, with the changed event. They can stop it. If such an extension would now change
the event, its hook has failed.

**A hook that may block cannot be bypassed.** It is called in every state of its extension: an
extension that starts at first use is started, and a restart is awaited, within the timeout of the
hook. If the hook still fails, or if its extension is beyond `MAX_EXTENSIONS`, the event is stopped,
unless the config says otherwise (`hook_policy`). A distrusted extension, whose hooks cannot be
known because its manifest cannot be trusted or read, is called as if it had every such hook.

A hook that cannot block does not delay the event by a restart. If the answer of the hook changes
nothing (its extension is an observer), the event waits in a queue until the extension is ready
(`observer_queues`). Any other such hook counts as failed, and the event continues.

A guard is an extension that judges tool calls: it has a `before_tool_call` hook that may block. If
a guard that the config requires (`[hooks] required`) is missing, every tool call is stopped.

Every failure is in the `HookOutcome`, on the event bus (`HookFailed`), and in the log. But an
extension beyond `MAX_EXTENSIONS` whose hook does not stop the event is only logged, once.

The module is the same for every dialect: each dialect translates the replies of its hooks into
`HookAnswer`. Only the decision "block" has a meaning here. Other decisions, the `replacement` and
`extra` are returned to the caller of the hooks unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from exthost.errors import ExtensionGone, ExthostError, Refused, UsageError
from exthost.events import HookFailed, OutputReplaced
from exthost.extension.confirmation import Confirmation, check_confirm
from exthost.extension.misuse import check_context, check_timeout, wrong_type_error
from exthost.host.hook_index import HookIndex, HookOwner, is_distrusted
from exthost.host.hook_policy import HookFailure, fails_closed, may_block
from exthost.host.observer_queues import ObserverQueues
from exthost.host.registry import log_once
from exthost.host.session_texts import SessionTexts, add_text, guarded_text
from exthost.model.empty_mapping import EMPTY_MAPPING

if TYPE_CHECKING:
    from exthost.dialects.calls import HookAnswer
    from exthost.events import Bus
    from exthost.extension.confirmation import Confirm

_log = logging.getLogger("exthost.hooks")

# The most extensions that are called for one hook. They run one after another before every call, so
# a larger number is a mistake.
MAX_EXTENSIONS = 128

# The hook that judges tool calls.
TOOL_CALL_HOOK = "before_tool_call"

# The fields of an event that say whose it is. The program that runs the hooks sets them, and no
# extension can change them.
_IDENTITY_FIELDS = frozenset(("context", "agent_id", "session_id"))

# A hook that cannot block is called only in these states, so that it does not wait for a restart.
# In the last two, the extension has not been started yet, and the call starts it.
_CALLABLE_STATES = ("ready", "discovered", "admitted")


class HookedExtension(HookOwner, Protocol):
    """The attributes and methods of an extension that are used to call its hooks."""

    @property
    def id(self) -> str: ...
    async def start(self) -> object: ...
    async def run_hook(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> HookAnswer: ...


class MissingGuard(Refused):
    """A guard that the config requires is missing. Unlike with other failed hooks, it does not help
    to disable or remove the guard."""


class HookOutcome(NamedTuple):
    """The combined answers of all extensions that were called.

    event        the event, with the changes of the extensions
    aborted_by   the id of the extension that aborted the event, whose confirmation was not given,
                 or whose hook failed closed; "" if there is none
    reason       why the event was aborted or blocked, or ""
    unasked      the error of asking a person for a confirmation: no person could be asked, or none
                 answered. None unless the event was stopped for that reason
    decision     the last decision of an extension; but after "block", later decisions are ignored
    decided_by   the id of the extension that made the decision, or ""
    replacement  what replaces the body of the event, if the decision is "transform"
    injected     the texts to add, joined by blank lines
    output       the text that replaces the result of the tool, or None
    failure      the failed hook that stopped the event (it failed closed), or None
    passed_over  the failed hooks that did not stop the event (they failed open)
    extra        the other fields of the answers
    """

    event: dict[str, Any]
    aborted_by: str = ""
    reason: str = ""
    unasked: ExthostError | None = None
    decision: str | None = None
    decided_by: str = ""
    replacement: Any = None
    injected: str = ""
    output: str | None = None
    failure: HookFailure | None = None
    passed_over: tuple[HookFailure, ...] = ()
    extra: Mapping[str, Any] = EMPTY_MAPPING

    @property
    def stopped(self) -> bool:
        """Whether the event must not happen: it was aborted or blocked."""
        return bool(self.aborted_by) or self.decision == "block"

    @property
    def context(self) -> str:
        """The injected texts between two lines that mark them as the words of extensions; "" if
        there are none. This is what a program adds to a prompt."""
        return guarded_text(self.injected)


class Hooks:
    """The hooks of the extensions of one host.

    extensions  returns the extensions, in the order of the host
    confirm     asks a person about an event whose caller has no `confirm` of its own; without
                both, an event that needs a confirmation is stopped
    policy      the host's settings for hooks that fail (see `hook_policy`)
    required    the ids of the guards that must be there
    bus         where failures are published
    """

    def __init__(
        self,
        extensions: Callable[[], Iterable[HookedExtension]],
        confirm: Confirm | None = None,
        *,
        policy: Mapping[str, str] = EMPTY_MAPPING,
        required: Collection[str] = (),
        bus: Bus | None = None,
    ) -> None:
        self._extensions = extensions
        self.required = required
        self._observer_queues = ObserverQueues(self._report_missed)
        self.index = HookIndex(extensions)  # the host marks it stale when an extension changes
        self.policy = policy
        self._bus = bus
        self._logged_warnings: set[str] = set()
        self.confirm = confirm
        self.sessions = SessionTexts()

    def may_be_called(self) -> bool:
        """Return whether `run` may have something to do: an extension has a hook, or may have one
        that is unknown before its handshake, or a guard is required."""
        return not self.index.is_empty or bool(self.required)

    async def close(self) -> None:
        """Stop delivering events to observers that were not ready."""
        await self._observer_queues.close()

    def extensions_with(self, name: str) -> tuple[HookedExtension, ...]:
        """Return the extensions that offer the hook `name`, in the order of their calls, at most
        MAX_EXTENSIONS."""
        return self.index.extensions_with(name)[:MAX_EXTENSIONS]

    async def run(
        self,
        name: str,
        event: Mapping[str, Any],
        *,
        timeout: float | None = None,
        fixed_fields: Collection[str] = (),
        confirm: Confirm | None = None,
    ) -> HookOutcome:
        """Call every extension with the hook `name`, and return the outcome. A hook that fails does
        not raise. `timeout` is in seconds, for each extension. `fixed_fields` are further fields of
        the event, besides `context`, `agent_id` and `session_id`, that no extension can change, so
        that later ones judge what will really happen.
        `confirm` asks a person instead of the `confirm` of the host."""
        check_confirm(confirm)
        if timeout is not None:  # a mistake of the caller is not a failure of an extension
            check_timeout(timeout)
        if not isinstance(event, Mapping):
            raise wrong_type_error("event", "a mapping, such as a dict", event)
        check_context(event.get("context"))
        fixed_fields = _IDENTITY_FIELDS.union(fixed_fields)
        outcome = HookOutcome(dict(event))
        is_after = name.startswith("after_")
        await self._start_with_unknown_hooks()

        if name == TOOL_CALL_HOOK and (missing := self._find_missing_guard()) is not None:
            self._report(missing, outcome.event, failed_closed=True)
            return outcome._replace(
                aborted_by=missing.extension, reason=missing.error.message, failure=missing
            )

        # Call the extensions in order.
        final_dialects: set[str] = set()  # an answer of such a dialect was final
        # The extensions that have not changed the event. Those whose filter did not accept it are
        # among them: the filter may accept the changed event.
        unchanging: list[HookedExtension] = []
        changed_by = ""  # the id of the last extension that changed the event
        to_ask_again: list[HookedExtension] = []  # those that were called before that change
        for number, extension in enumerate(self.index.extensions_with(name)):
            if extension.dialect.name in final_dialects:
                continue
            is_over_limit = number >= MAX_EXTENSIONS
            if is_over_limit and not fails_closed(extension.spec, name, self.policy):
                self._warn_once(f"{extension.id}: {_too_many_error(extension, name).message}")
                continue
            began = time.monotonic()
            try:
                if is_over_limit:
                    raise _too_many_error(extension, name)
                answer = await self._call_hook(extension, name, outcome.event, timeout)
            except ExthostError as error:
                outcome = self._add_failure(outcome, extension, name, error, began)
                if outcome.failure is not None:  # it failed closed
                    return outcome
                continue
            if answer is None:  # the extension was not called
                unchanging.append(extension)
                continue
            answer = _without_fields(answer, fixed_fields)
            if answer.abort and not is_after:
                # The event will not happen, so the changes to it are dropped.
                answer = answer._replace(override=EMPTY_MAPPING)
            # Compared before the answer is applied, because that changes the event.
            if _changes_event(answer, outcome.event):
                changed_by, to_ask_again = extension.id, unchanging.copy()
            else:
                unchanging.append(extension)
            outcome = await self._apply_answer(extension, name, outcome, answer, confirm)
            if outcome.aborted_by:
                return outcome
            if answer.final and not answer.abort:
                final_dialects.add(extension.dialect.name)

        # Let the earlier extensions judge the changed event.
        for extension in to_ask_again:
            if not outcome.stopped and may_block(extension.spec, name):
                outcome = await self._ask_again(
                    extension, name, outcome, changed_by, timeout, fixed_fields, confirm
                )

        # If this hook begins a session that has begun before, the text of the first time is used.
        return outcome._replace(injected=self.sessions.update(name, event, outcome.injected))

    async def _apply_answer(
        self,
        extension: HookedExtension,
        name: str,
        outcome: HookOutcome,
        answer: HookAnswer,
        confirm: Confirm | None,
    ) -> HookOutcome:
        """Add the answer of an extension to the outcome, and ask a person if the answer requires
        that. Return the outcome; its `aborted_by` is set if the event must not happen."""
        is_after = name.startswith("after_")
        self._report_replacement(extension, name, outcome.event, answer)
        outcome = _add_answer(outcome, extension.id, answer)
        if answer.abort and is_after:
            _log.warning("[%s] %s cannot stop an event that has happened", extension.id, name)
        elif answer.abort:
            return outcome._replace(aborted_by=extension.id, reason=answer.reason)
        elif answer.confirm is not None and not is_after:
            confirmation = Confirmation(extension.id, answer.confirm, name, outcome.event)
            return await self._ask_person(outcome, confirmation, confirm)
        return outcome

    async def _ask_again(
        self,
        extension: HookedExtension,
        name: str,
        outcome: HookOutcome,
        changed_by: str,
        timeout: float | None,
        fixed_fields: Collection[str],
        confirm: Confirm | None,
    ) -> HookOutcome:
        """Call the hook of an extension once more, because the extension `changed_by` has changed
        the event since the first call. Return the outcome. The extension may stop the event. If it
        would change the event, its hook has failed: the other extensions would have to judge that
        change, too, and could change it again."""
        began = time.monotonic()
        try:
            answer = await self._call_hook(extension, name, outcome.event, timeout)
            if answer is None:
                return outcome
            answer = _without_fields(answer, fixed_fields)
            if not answer.abort and _changes_event(answer, outcome.event):
                raise _disagreement_error(extension, name, changed_by)
        except ExthostError as error:
            return self._add_failure(outcome, extension, name, error, began)
        if answer.abort:
            return outcome._replace(aborted_by=extension.id, reason=answer.reason)
        if answer.confirm is not None:
            confirmation = Confirmation(extension.id, answer.confirm, name, outcome.event)
            outcome = await self._ask_person(outcome, confirmation, confirm)
            if outcome.aborted_by:
                return outcome
        if answer.decision == "block":
            # The rest of the answer, such as a text to inject, was added at the first call.
            # Imported here because few hosts need it.
            from exthost.dialects.calls import HookAnswer

            verdict = HookAnswer(decision="block", reason=answer.reason)
            return _add_answer(outcome, extension.id, verdict)
        return outcome

    def _find_missing_guard(self) -> HookFailure | None:
        """Return the failure of the first required guard that the host does not have, or that has
        no hook that may stop a tool call. Return None if there is no such guard."""
        if not self.required:
            return None
        guards = {
            extension.id
            for extension in self.index.extensions_with(TOOL_CALL_HOOK)
            if may_block(extension.spec, TOOL_CALL_HOOK)
        }
        for id in self.required:
            if id in guards:
                continue
            if any(extension.id == id for extension in self._extensions()):
                reason, fix = (
                    f"has no {TOOL_CALL_HOOK} hook that may stop a call",
                    "look at its log",
                )
            else:
                reason, fix = "was not found, or is disabled", "install or enable it"
            error = MissingGuard(
                "X0353",
                f"[hooks] required names it, and it {reason}",
                extension=id,
                help=f"{fix}, or take it out of [hooks] required",
            )
            return HookFailure(id, TOOL_CALL_HOOK, error)
        return None

    async def _call_hook(
        self, extension: HookedExtension, name: str, event: dict[str, Any], timeout: float | None
    ) -> HookAnswer | None:
        """Return the answer of an extension. Return None if the filter of its dialect does not
        accept this event, or if the event was queued for it. Raises ExthostError if the hook
        fails."""
        wants_hook = extension.dialect.wants_hook
        # The filter of a distrusted extension is unknown, so the extension gets every event.
        if not is_distrusted(extension) and not wants_hook(extension.spec, name, event):
            return None
        if self._observer_queues.queue_if_not_ready(extension, name, event, timeout):
            return None
        if not may_block(extension.spec, name) and extension.state not in _CALLABLE_STATES:
            message = f"the extension is {extension.state}"
            raise ExtensionGone("X1007", message, extension=extension.id)
        return await extension.run_hook(name, event, timeout=timeout)

    def _report_missed(self, failure: HookFailure, event: Mapping[str, Any]) -> None:
        """Report an event that an observer has not received."""
        self._report(failure, event, failed_closed=False)

    def _add_failure(
        self,
        outcome: HookOutcome,
        extension: HookedExtension,
        name: str,
        error: ExthostError,
        began: float,
    ) -> HookOutcome:
        """Report that the hook of an extension failed. Return the outcome with the failure, which
        stops the event unless the hook fails open. `began` is the time at which the hook was
        called."""
        if name not in extension.offer.hooks and not is_distrusted(extension):
            # The manifest declared the hook. The handshake, which happened during the call, does
            # not offer the hook, so there is no hook that could have failed.
            return outcome
        failure = HookFailure(extension.id, name, error)
        failed_closed = fails_closed(extension.spec, name, self.policy)
        seconds = time.monotonic() - began
        self._report(failure, outcome.event, failed_closed=failed_closed, seconds=seconds)
        if failed_closed:
            reason = f"it could not judge: {error.message}"
            return outcome._replace(aborted_by=extension.id, reason=reason, failure=failure)
        return outcome._replace(passed_over=(*outcome.passed_over, failure))

    async def _ask_person(
        self, outcome: HookOutcome, confirmation: Confirmation, confirm: Confirm | None
    ) -> HookOutcome:
        """Ask a person whether the event may happen. Return the outcome; if the event must not
        happen, its `aborted_by` is the extension that requests the confirmation."""
        id, message = confirmation.extension, confirmation.message
        from exthost.host.person import ask_person

        try:
            has_agreed = await ask_person(confirmation, confirm, self.confirm)
        except ExthostError as error:
            reason = f"requires a confirmation, and {error.message}: {message}"
            return outcome._replace(aborted_by=id, reason=reason, unasked=error)
        if has_agreed:
            return outcome
        return outcome._replace(aborted_by=id, reason=f"not confirmed: {message}")

    async def _start_with_unknown_hooks(self) -> None:
        """Start the extensions whose hooks are known only after their handshake."""
        with_unknown_hooks = self.index.with_unknown_hooks
        if with_unknown_hooks:
            await asyncio.gather(*(_start(extension) for extension in with_unknown_hooks))

    def _report(
        self,
        failure: HookFailure,
        event: Mapping[str, Any],
        *,
        failed_closed: bool,
        seconds: float = 0.0,
    ) -> None:
        """Log and publish a failure. `seconds`: how long the hook ran."""
        id, name, error = failure
        published_outcome = "refused" if failed_closed else "passed over"
        consequence = "is stopped" if failed_closed else "continues"
        _log.warning("[%s] %s failed, the event %s: %s", id, name, consequence, error.message)
        if self._bus is not None and HookFailed in self._bus.listeners:
            context = event.get("context", EMPTY_MAPPING)
            tool_name = event.get("tool_name") or ""
            self._bus.publish(
                HookFailed(
                    id,
                    name,
                    published_outcome,
                    error.message,
                    error.code,
                    str(tool_name),
                    seconds,
                    context,
                )
            )

    def _report_replacement(
        self, extension: HookedExtension, name: str, event: Mapping[str, Any], answer: HookAnswer
    ) -> None:
        """Publish that a hook replaces the output of a tool. `event` still has the old output."""
        if answer.output is None or self._bus is None or OutputReplaced not in self._bus.listeners:
            return
        old_output = event.get("result", event.get("error"))
        self._bus.publish(
            OutputReplaced(
                extension.id,
                name,
                str(event.get("tool_name") or ""),
                _count_bytes(old_output),
                _count_bytes(answer.output),
                event.get("context", EMPTY_MAPPING),
            )
        )

    def _warn_once(self, text: str) -> None:
        """Log a warning, unless this host has logged it before."""
        log_once(_log, self._logged_warnings, text)


def _too_many_error(extension: HookedExtension, name: str) -> Refused:
    return Refused(
        "X0334",
        f"its hook {name} was not called, after those of {MAX_EXTENSIONS} other extensions",
        extension=extension.id,
        help="disable extensions with this hook",
    )


def _disagreement_error(extension: HookedExtension, name: str, changed_by: str) -> Refused:
    return Refused(
        "X0335",
        f"its hook {name} would change the event again, after {changed_by} has changed it",
        extension=extension.id,
        help=f"disable {extension.id} or {changed_by}: the two do not agree",
    )


async def _start(extension: HookedExtension) -> None:
    """Start an extension; log the error if that fails."""
    try:
        await extension.start()
    except ExthostError as error:
        _log.warning("[%s] its hooks are not known: %s", extension.id, error.message)


def _without_fields(answer: HookAnswer, fixed_fields: Collection[str]) -> HookAnswer:
    """Return the answer, without the changes that it makes to these fields."""
    if answer.override.keys().isdisjoint(fixed_fields):
        return answer
    changes = {key: value for key, value in answer.override.items() if key not in fixed_fields}
    return answer._replace(override=changes)


def _changes_event(answer: HookAnswer, event: Mapping[str, Any]) -> bool:
    """Return whether this answer changes the event. The values are compared as JSON, since 1 and
    True are equal in Python."""
    from exthost.wire import jsontext

    try:
        return any(
            field not in event or jsontext.canonical(event[field]) != jsontext.canonical(value)
            for field, value in answer.override.items()
        )
    except UsageError:  # a value that cannot be compared counts as a change
        return True


def _add_answer(outcome: HookOutcome, id: str, answer: HookAnswer) -> HookOutcome:
    """Return the outcome with the answer of the extension `id` added."""
    outcome = outcome._replace(
        event={**outcome.event, **answer.override},
        extra={**outcome.extra, **answer.extra},
    )
    # Texts to inject are collected. Of several outputs, the last is used.
    if answer.inject is not None:
        outcome = outcome._replace(injected=add_text(outcome.injected, answer.inject, id))
    if answer.output is not None:
        outcome = outcome._replace(output=answer.output)
    if answer.decision is None or outcome.decision == "block":  # no later answer undoes a block
        return outcome
    reason = answer.reason if answer.decision == "block" else outcome.reason
    return outcome._replace(
        decision=answer.decision,
        decided_by=id,
        reason=reason,
        replacement=answer.replacement,
    )


def _count_bytes(value: Any) -> int:
    """Return the size of a text in UTF-8, or of another value as JSON."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    from exthost.wire import jsontext

    try:
        return len(jsontext.encode(value))
    except UsageError:  # nested too deeply
        return 0
