"""Tests of `exthost list`: the text about secrets, and that it computes only what it shows."""

from pathlib import Path
from typing import Any

import pytest

from exthost.faces.cli.extension_summary import (
    describe_limits,
    describe_sandbox,
    describe_secrets,
)
from exthost.model.spec import Spec
from tests.faces.cli.cli_process import extension, run_inside, write_config


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["ONE"], "asks for a secret: ONE; it is given ONE"),
        (["TWO"], "asks for a secret: TWO; TWO is not set"),
        (["ONE", "TWO"], "asks for secrets: ONE, TWO; it is given ONE; TWO is not set"),
        (["TWO", "THREE"], "asks for secrets: TWO, THREE; TWO, THREE are not set"),
    ],
)
def test_secrets_are_named_with_whether_they_are_set(
    names: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE", "1")
    monkeypatch.delenv("TWO", raising=False)
    monkeypatch.delenv("THREE", raising=False)
    assert describe_secrets(names) == text


def test_the_table_needs_no_launch_plan_of_an_extension_without_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = []

    def describe(spec: Spec) -> dict[str, Any]:
        described.append(spec.id)
        return describe_sandbox(spec)

    monkeypatch.setattr("exthost.faces.cli.extension_summary.describe_sandbox", describe)
    write_config(tmp_path, extension("plain"), extension("guarded", more="permissions = {}"))
    assert run_inside("list", cwd=tmp_path).returncode == 0
    assert described == ["guarded"], "a launch plan takes most of the time of a long list"
    assert run_inside("list", "--json", cwd=tmp_path).returncode == 0
    assert described == ["guarded", "plain", "guarded"]


def test_the_size_of_a_folder_in_memory_is_not_rounded_to_nothing() -> None:
    limits = {"nofile": 1024, "/tmp": 64 * 2**20, "/dev/shm": 65536, "/run": 3 * 2**19}
    text = "nofile 1024, /tmp 64 MiB, /dev/shm 64 KiB, /run 1,536 KiB"
    assert describe_limits({"limits": limits}) == text
    assert describe_limits({}) == ""
