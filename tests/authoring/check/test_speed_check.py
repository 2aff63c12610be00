"""The search for a request without an effect that an extension answers."""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.authoring.check.checked_process import NoAnswer
from exthost.authoring.check.conversation_checks import ConversationChecks, _EndedItself
from exthost.authoring.check.settings import Settings
from exthost.model.messages import Request


class SilentProcess:
    """A process that answers no request."""

    def __init__(self, *, is_alive: bool) -> None:
        self.is_alive = is_alive

    async def request(self, request: Request, seconds: float) -> None:
        raise NoAnswer("nothing")


class FakeLedger:
    """Keeps the checks that were skipped."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def skip(self, rule: str, reason: str) -> None:
        self.skipped.append(rule)


@pytest.mark.parametrize("is_alive", [True, False])
async def test_a_silent_process_has_no_speed_unless_it_has_ended(
    is_alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_ends: list[object] = []

    async def record_end(_: object, process: object) -> None:
        recorded_ends.append(process)

    monkeypatch.setattr(ConversationChecks, "_record_end", record_end)
    conformance: Any = SimpleNamespace(pings=(Request("ping", {}),))
    ledger: Any = FakeLedger()
    starter: Any = None
    process: Any = SilentProcess(is_alive=is_alive)
    checks = ConversationChecks(starter, conformance, ledger, Settings())
    if is_alive:
        await checks._check_speed(process)
        assert ledger.skipped == ["speed"] and recorded_ends == []
    else:
        with pytest.raises(_EndedItself):
            await checks._check_speed(process)
        assert ledger.skipped == [] and recorded_ends == [process]
