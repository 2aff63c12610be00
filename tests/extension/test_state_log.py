"""Whatever keeps an extension from serving is in the log, for a program that subscribes to nothing;
`Host(strict=True)` raises it."""

import logging
from typing import Any

import pytest

import exthost
from exthost import errors
from tests.extensions.harness import command, failing, until


def entry(name: str, *flags: str, **more: Any) -> dict[str, Any]:
    program, *args = command(*flags)
    source = {"type": "process", "command": program, "args": args}
    return {"name": name, "dialect": "morphir", "source": source, **more}


def records(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [item for item in caplog.records if item.name == "exthost.states"]
    return [(item.levelno, item.getMessage()) for item in found]


async def test_one_that_fails_and_one_that_is_refused_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = entry("dead", "die_at=initialize", restart={"strategy": "never"})
    refused = entry("poor", env={"X": {"from": "SURELY_NOT_SET"}})
    async with exthost.Host.from_config({"extensions": [failed, refused, entry("well")]}) as host:
        assert (host["dead"].state, host["poor"].state) == ("failed", "refused")
        assert host["well"].state == "ready"
        cause = host["dead"].cause
    levels = {text.split("]")[0]: level for level, text in records(caplog)}
    assert levels == {"[dead": logging.ERROR, "[poor": logging.WARNING}
    shown = "\n".join(text for _, text in records(caplog))
    assert "[dead] failed: " in shown and "SURELY_NOT_SET" in shown
    assert cause is not None and f"[{cause.code}]" in shown


async def test_a_crash_and_an_open_breaker_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    crashing = entry("a", restart={"strategy": "immediate", "max_retries": 1})
    async with exthost.Host.from_config({"extensions": [crashing]}) as host:
        await failing(host["a"].call("leave", {"code": 1}, timeout=20))
        await until(lambda: host["a"].state == "ready")
        await failing(host["a"].call("leave", {"code": 1}, timeout=20))
        await until(lambda: host["a"].state == "failed")
    assert [level for level, _ in records(caplog)] == [logging.WARNING, logging.ERROR]
    caplog.clear()
    async with exthost.Host.from_config({"extensions": [entry("b", breaker=ONE)]}) as host:
        await failing(host["b"].call("keep", timeout=0.05))
        assert host["b"].state == "open"
    assert [text.partition(":")[0] for _, text in records(caplog)] == ["[b] open"]
    assert records(caplog)[0][0] == logging.WARNING


ONE = {"failures": 1}
MISSING = {"type": "process", "command": "/no/such"}


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (entry("dead", "die_at=initialize"), errors.HandshakeFailed),
        (entry("poor", env={"X": {"from": "SURELY_NOT_SET"}}), errors.Refused),
        (
            entry("none") | {"source": {"type": "process", "command": "/no/such"}},
            errors.SpawnFailed,
        ),
    ],
)
async def test_a_strict_host_raises_the_reason_why_an_extension_cannot_start(
    bad: dict[str, Any], kind: type[errors.ExthostError]
) -> None:
    host = exthost.Host.from_config({"extensions": [entry("well"), bad]}, strict=True)
    with pytest.raises(kind) as caught:
        async with host:
            pass
    assert caught.value.extension == bad["name"]


async def test_a_strict_host_with_nothing_wrong_opens() -> None:
    config = {"extensions": [entry("well", start="lazy")]}
    async with exthost.Host.from_config(config, strict=True) as host:
        assert host["well"].state == "admitted"
