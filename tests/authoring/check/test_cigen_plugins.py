"""`exthost check` of plugins of cigen, with and without a plan step.

cigen is a protocol (a dialect) for generators of CI configurations. A plugin gets a "plan" request
before "generate", unless the option `plan` of its config is false. The child is a plugin for tests;
with the flag "alone" it has no plan step.
"""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.authoring.check.findings import Report
from exthost.authoring.check.run import run_checks
from exthost.authoring.check.settings import Settings
from exthost.config import spec_from_mapping
from tests.faces.cli.cli_process import run_inside

CHILD = Path(__file__).parents[2] / "extensions" / "cigen_child.py"


async def check(*flags: str, calls: tuple[Any, ...] = (), **options: Any) -> Report:
    source = {"type": "process", "command": sys.executable, "args": [str(CHILD), *flags]}
    entry = {"name": "plugin", "dialect": "cigen", "source": source, "options": options}
    settings = Settings(seconds=600, reply_seconds=60, calls=calls)
    return await run_checks(spec_from_mapping(entry), os.environ, settings)


@pytest.mark.more
@pytest.mark.parametrize("calls", [(), (("generate", {}),)])
async def test_the_fix_for_a_plugin_without_a_plan_step_is_to_declare_it(
    calls: tuple[Any, ...],
) -> None:
    report = await check("alone", calls=calls)
    [finding] = report.faults
    assert finding.rule.name == "result"
    assert "not a PlanResult" in finding.message
    assert "plan = false" in finding.fix


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize("flags", [(), ("alone",)])
async def test_a_plugin_with_the_correct_plan_option_has_no_fault(flags: tuple[str, ...]) -> None:
    options: dict[str, Any] = {"plan": False} if flags else {}
    report = await check(*flags, **options)
    assert not report.faults
    [outcome] = [outcome for outcome in report.outcomes if outcome.rule.name == "result"]
    assert not outcome.skipped


def test_check_accepts_options_of_the_dialect() -> None:
    arguments = ["check", "--dialect", "cigen", "--option", "plan=false"]
    result = run_inside(*arguments, "--", sys.executable, str(CHILD), "alone")
    assert result.returncode == 0, result.stdout + result.stderr
