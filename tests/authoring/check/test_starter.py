"""How the processes of a check are started."""

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
    ("env", "passed"),
    [
        ({}, None),
        ({"PYTHONUNBUFFERED": "1"}, "1"),
        ({"PYTHONUNBUFFERED": HostEnvRef("PYTHONUNBUFFERED")}, "x"),
    ],
)
async def test_a_shell_that_unbuffers_python_does_not_hide_that_a_program_never_flushes(
    env: dict[str, Any], passed: str | None
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
    assert process.launch.plan.env.get("PYTHONUNBUFFERED") == passed
    assert process.launch.plan.env["LANG"] == "C"
