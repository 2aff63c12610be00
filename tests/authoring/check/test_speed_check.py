"""The speed check of `exthost check`, which measures how fast an extension answers.

The check needs a request that has no effect, such as "ping". It tries those of the dialect (the
protocol that the extension speaks) in turn. If the extension answers none of them, the check is
skipped; if the extension has ended, that is reported instead. The process here is a fake.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.authoring.check.checked_process import NoAnswer
from exthost.authoring.check.conversation_checks import ConversationChecks, _EndedItself
from exthost.authoring.check.settings import Settings
from exthost.model.messages import Request


class SilentProcess:
    """An extension that answers no request."""

    def __init__(self, *, is_alive: bool) -> None:
        self.is_alive = is_alive

    async def request(self, request: Request, seconds: float) -> None:
        raise NoAnswer("nothing")


class FakeLedger:
    """A ledger (the results of all checks) that records only which checks were skipped."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def skip(self, rule: str, reason: str) -> None:
        self.skipped.append(rule)


@pytest.mark.parametrize("is_alive", [True, False])
async def test_without_an_answer_the_check_is_skipped_unless_the_process_has_ended(
    is_alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes_that_ended: list[object] = []

    async def record_end(_: object, process: object) -> None:
        processes_that_ended.append(process)

    monkeypatch.setattr(ConversationChecks, "_record_end", record_end)
    conformance: Any = SimpleNamespace(pings=(Request("ping", {}),))
    ledger: Any = FakeLedger()
    starter: Any = None
    process: Any = SilentProcess(is_alive=is_alive)
    checks = ConversationChecks(starter, conformance, ledger, Settings())
    if is_alive:
        await checks._check_speed(process)
        assert ledger.skipped == ["speed"] and processes_that_ended == []
    else:
        with pytest.raises(_EndedItself):
            await checks._check_speed(process)
        assert ledger.skipped == [] and processes_that_ended == [process]
