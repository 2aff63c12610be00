"""Tests of the paths `/healthz` and `/readyz` of a host, by which a monitoring program checks it.

`/healthz` is 200 while the host runs. `/readyz` is 200 only while all its extensions take calls.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from exthost.faces.http_server.access import Access
from exthost.faces.http_server.probes import Probes


@dataclass
class Phase:
    """Whether a host has started, and whether it is ending."""

    opened: bool = True
    ending: bool = False


async def get(path: str, phase: Phase, states: list[str]) -> tuple[int, Any]:
    """Return the status and the body of a response."""

    async def not_found(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the probes do not answer this path")

    probes = Probes(phase, None, lambda: states)  # type: ignore[arg-type]
    application = probes.wrap(not_found, Access("127.0.0.1", None))  # type: ignore[arg-type]
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [(b"host", b"127.0.0.1:80")],
    }
    await application(scope, None, send)  # type: ignore[arg-type]
    return sent[0]["status"], json.loads(b"".join(part.get("body", b"") for part in sent[1:]))


@pytest.mark.parametrize(
    ("state", "status", "word"),
    [
        ("ready", 200, "ok"),
        ("idle", 200, "ok"),
        ("failed", 503, "degraded"),
        ("refused", 503, "degraded"),
        ("backoff", 503, "degraded"),
        ("open", 503, "degraded"),
    ],
)
async def test_the_host_is_not_ready_while_an_extension_takes_no_calls(
    state: str, status: int, word: str
) -> None:
    assert await get("/readyz", Phase(), ["ready", state]) == (status, {"status": word})
    assert await get("/healthz", Phase(), ["ready", state]) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_the_host_is_neither_healthy_nor_ready_before_its_start_and_at_its_end(
    path: str,
) -> None:
    assert await get(path, Phase(opened=False), []) == (503, {"status": "starting"})
    assert await get(path, Phase(ending=True), []) == (503, {"status": "ending"})
