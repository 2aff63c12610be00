"""Secrets in the evidence of an error are hidden.

The evidence is what the host knows about the cause, such as the last bytes of the output, in which
an extension may have written the value of a variable.
"""

import asyncio
from typing import Any

import pytest

from exthost.errors import CallFailed, Evidence
from exthost.events import Bus
from exthost.extension.call_queue import CallQueue
from exthost.session.trace.secrets import HIDDEN, SecretFilter
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import wait_until

SECRET = "tok-0123456789abcdef"


@pytest.mark.parametrize(
    "evidence",
    [Evidence(bytes=f"x {SECRET}"), Evidence(details=(f"x {SECRET}",))],
    ids=["only_bytes", "only_details"],
)
async def test_a_secret_in_the_evidence_of_an_error_is_hidden(evidence: Evidence) -> None:
    loop = asyncio.get_running_loop()
    queue = CallQueue("x", max_in_flight=1, is_shared=False, bus=Bus(), loop=loop)
    fake_child = FakeChild()
    session = session_with(fake_child, queue)
    session.diagnostics.use_secret_filter(SecretFilter([SECRET]))
    error = CallFailed("X0701", "no", evidence=evidence)
    session.diagnostics.hide_in_error(error)
    hidden: list[Any] = [error.evidence.bytes, *error.evidence.details]
    assert [text for text in hidden if text] == [f"x {HIDDEN}"]
    fake_child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)
