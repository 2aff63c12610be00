"""The environment variables with which `exthost check` starts a program: those that a host would
pass. With PYTHONUNBUFFERED, a program that does not flush its output would seem to work.
"""

import dataclasses
import sys
from typing import Any

import pytest

from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.starter import Starter
from exthost.dialects.conformance import Conformance
from exthost.dialects.find import find_dialect
from exthost.host.connection import connection_spec
from exthost.model.spec import HostEnvRef


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, None),
        ({"PYTHONUNBUFFERED": "1"}, "1"),
        ({"PYTHONUNBUFFERED": HostEnvRef("PYTHONUNBUFFERED")}, "x"),
    ],
)
async def test_pythonunbuffered_is_passed_only_if_it_is_configured(
    env: dict[str, Any], expected: str | None
) -> None:
    spec = connection_spec([sys.executable, "-S", "-c", ""], "morphir", {})
    spec = dataclasses.replace(spec, env=env)
    conformance = Conformance()
    starter = Starter(
        spec,
        find_dialect("morphir"),
        conformance,
        {"PATH": "/bin", "PYTHONUNBUFFERED": "x", "LANG": "C"},
        Ledger(conformance),
        reply_seconds=60,
    )
    try:
        process = await starter.start()
    finally:
        await starter.release_all()
    assert process.launch.plan.env.get("PYTHONUNBUFFERED") == expected
    assert process.launch.plan.env["LANG"] == "C"
