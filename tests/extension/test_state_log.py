"""The reason why an extension cannot serve calls is logged, and `Host(strict=True)` raises it.

The messages are those of the logger `exthost.states`. The program is the hostile extension of the
tests: with `die_at=initialize` it exits in its handshake, and its method `leave` exits.
"""

import logging
from typing import Any

import pytest

import exthost
from exthost import errors
from tests.extensions.harness import error_of, hostile_command, wait_until


def config_entry(name: str, *flags: str, **settings: Any) -> dict[str, Any]:
    program, *args = hostile_command(*flags)
    source = {"type": "process", "command": program, "args": args}
    return {"name": name, "dialect": "morphir", "source": source, **settings}


OPEN_AFTER_ONE_FAILURE = {"failures": 1}
NO_SUCH_PROGRAM = {"type": "process", "command": "/no/such"}


def state_log_records(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Return the level and the text of each message."""
    matching = [item for item in caplog.records if item.name == "exthost.states"]
    return [(item.levelno, item.getMessage()) for item in matching]


async def test_failed_and_refused_extensions_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = config_entry("dead", "die_at=initialize", restart={"strategy": "never"})
    refused = config_entry("unset", env={"X": {"from": "SURELY_NOT_SET"}})
    async with exthost.Host.from_config(
        {"extensions": [failed, refused, config_entry("well")]}
    ) as host:
        assert (host["dead"].state, host["unset"].state) == ("failed", "refused")
        assert host["well"].state == "ready"
        cause = host["dead"].cause
    levels = {text.split("]")[0]: level for level, text in state_log_records(caplog)}
    assert levels == {"[dead": logging.ERROR, "[unset": logging.WARNING}
    log_text = "\n".join(text for _, text in state_log_records(caplog))
    assert "[dead] failed: " in log_text and "SURELY_NOT_SET" in log_text
    assert cause is not None and f"[{cause.code}]" in log_text


async def test_a_crash_and_an_open_breaker_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    crashing_entry = config_entry("a", restart={"strategy": "immediate", "max_retries": 1})
    async with exthost.Host.from_config({"extensions": [crashing_entry]}) as host:
        await error_of(host["a"].call("leave", {"code": 1}, timeout=20))
        await wait_until(lambda: host["a"].state == "ready")
        await error_of(host["a"].call("leave", {"code": 1}, timeout=20))
        await wait_until(lambda: host["a"].state == "failed")
    assert [level for level, _ in state_log_records(caplog)] == [logging.WARNING, logging.ERROR]
    caplog.clear()
    async with exthost.Host.from_config(
        {"extensions": [config_entry("b", breaker=OPEN_AFTER_ONE_FAILURE)]}
    ) as host:
        await error_of(host["b"].call("keep", timeout=0.05))
        assert host["b"].state == "open"
    [(level, text)] = state_log_records(caplog)
    assert level == logging.WARNING and text.startswith("[b] open:")


@pytest.mark.parametrize(
    ("bad_entry", "error_class"),
    [
        (config_entry("dead", "die_at=initialize"), errors.HandshakeFailed),
        (config_entry("unset", env={"X": {"from": "SURELY_NOT_SET"}}), errors.Refused),
        (
            config_entry("none") | {"source": NO_SUCH_PROGRAM},
            errors.SpawnFailed,
        ),
    ],
)
async def test_a_strict_host_raises_the_reason_why_an_extension_cannot_start(
    bad_entry: dict[str, Any], error_class: type[errors.ExthostError]
) -> None:
    host = exthost.Host.from_config({"extensions": [config_entry("well"), bad_entry]}, strict=True)
    with pytest.raises(error_class) as caught:
        async with host:
            pass
    assert caught.value.extension == bad_entry["name"]


async def test_a_strict_host_without_errors_opens() -> None:
    config = {"extensions": [config_entry("well", start="lazy")]}
    async with exthost.Host.from_config(config, strict=True) as host:
        assert host["well"].state == "admitted"
