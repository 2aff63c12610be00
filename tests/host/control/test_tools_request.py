"""The request `tools` of the control socket, with which `exthost tools --start` lists the tools.

With `start`, the host first starts the extensions whose tools it does not know yet, and no other.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.host.control import requests
from exthost.host.control.protocol import ControlRequest


class FakeExtension:
    """Counts how often it is started."""

    def __init__(self, *, is_offer_unknown: bool) -> None:
        self.internals = SimpleNamespace(is_offer_unknown=is_offer_unknown)
        self.starts = 0

    async def start(self) -> None:
        self.starts += 1


@pytest.mark.parametrize("name", ["", "unknown"])  # of one extension, or "" for all
async def test_extensions_with_known_tools_are_not_started(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The reply of the request is not what this test is about.
    monkeypatch.setattr(requests, "describe_tools", lambda host, name, with_hidden: {})
    extensions = {
        "known": FakeExtension(is_offer_unknown=False),
        "unknown": FakeExtension(is_offer_unknown=True),
    }

    class FakeHost(dict[str, FakeExtension]):
        extensions = property(lambda self: list(self.values()))

    performer: Any = SimpleNamespace(_host=FakeHost(extensions))
    request: Any = ControlRequest("tools", name, {"start": True})
    no_events: Any = None
    await requests.RequestPerformer._tools(performer, request, no_events)
    assert {key: value.starts for key, value in extensions.items()} == {"known": 0, "unknown": 1}
