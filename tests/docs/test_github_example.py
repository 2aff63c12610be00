"""Tests of `examples/cigen/github`, an extension that writes workflows for GitHub Actions.

It speaks the dialect (protocol) cigen: `generate` turns a schema with jobs into the text of YAML
files. The tests read the files with a YAML parser.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

import exthost
from exthost.errors import CallFailed
from tests.dialects.requirements import shows
from tests.extensions.harness import error_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "cigen" / "github"
COMMAND = [sys.executable, str(EXAMPLE / "cigen-provider-github")]
SCHEMA = json.loads((EXAMPLE / "schema.json").read_text())["schema"]


# Longer than pytest lets a test run: the program imports protobuf, which takes long on a busy
# machine.
LIMITS: Any = {"start": "10m", "handshake": "10m", "call": "10m"}


def connect() -> Any:
    return exthost.connect(COMMAND, dialect="cigen", name="github", limits=LIMITS)


async def generate_workflows(schema: Any) -> dict[str, Any]:
    """Return the generated workflows by path, as a YAML parser reads them."""
    async with connect() as ext:
        result = await ext.call("generate", {"schema": schema})
    return {
        fragment["path"]: yaml.safe_load(fragment["content"]) for fragment in result["fragments"]
    }


@shows("cigen-sample-01")
async def test_the_jobs_of_the_schema_become_two_workflows() -> None:
    files = await generate_workflows(SCHEMA)
    assert list(files) == [".github/workflows/ci.yml", ".github/workflows/release.yml"]
    ci, release = files.values()
    assert ci["name"] == "shop ci" and ci["on"] == {"push": None, "pull_request": None}
    assert ci["env"] == {"CI_COLOR": "always", "RETRIES": "3"}
    assert list(ci["jobs"]) == ["lint", "test"] and list(release["jobs"]) == ["deploy"]
    lint, test = ci["jobs"].values()
    assert lint == {
        "runs-on": "ubuntu-24.04",
        "steps": [
            {"uses": "actions/checkout@v4"},
            {"uses": "actions/setup-python@v5", "with": {"python-version": "3.12"}},
            {"name": "Lint", "run": "ruff check .\nruff format --check ."},
        ],
    }
    assert test["needs"] == ["lint"] and test["container"] == "python:3.12"
    assert test["services"] == {"postgres": {"image": "postgres:16"}}
    assert test["strategy"] == {"matrix": {"os": ["linux"], "python": ["3.11", "3.12"]}}
    assert [step.get("uses", "run") for step in test["steps"]] == [
        "actions/checkout@v4",
        "actions/cache/restore@v4",
        "run",
        "actions/cache/save@v4",
    ]
    assert test["steps"][2] == {
        "if": "always()",
        "run": "pytest -q",
        "env": {"PYTHONWARNINGS": "error"},
    }
    deploy = release["jobs"]["deploy"]
    assert deploy["runs-on"] == "self-hosted" and deploy["if"] == "github.ref_name != 'main'"
    assert deploy["steps"][2]["run"].endswith("${{ github.sha }}")


@shows("cigen-sample-01")
async def test_a_schema_that_github_would_refuse_is_an_error() -> None:
    invalid_jobs = {"a": {"needs": ["b"]}, "no id": {}, "": {}}
    async with connect() as ext:
        assert ext.offer.extra["protocol"] == 1
        for id, job in invalid_jobs.items():
            call = ext.call("generate", {"schema": {"jobs": [{"id": id, **job}]}})
            error = await error_of(call)
            assert isinstance(error, CallFailed) and repr(id) in error.message


@pytest.fixture(scope="module")
def yaml_text() -> Iterator[ModuleType]:
    """The module of the example that writes YAML."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield importlib.import_module("github_actions.yaml_text")
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in [name for name in sys.modules if name.startswith("github_actions")]:
            del sys.modules[name]


# The text of protobuf can have all characters except surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SCALAR = st.none() | st.booleans() | st.integers() | TEXT
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


@example(value={".0": [".inf", ".nan", "...", "./run"]})
@given(value=st.dictionaries(TEXT, VALUE, min_size=1, max_size=3))
def test_a_yaml_parser_reads_the_same_value(yaml_text: ModuleType, value: Any) -> None:
    assert yaml.safe_load(yaml_text.to_yaml(value)) == value
