"""From a cigen schema to GitHub's workflows, as plain values.

A job belongs to the workflow that it names, else to `ci`. What GitHub has no word for is left out;
a job that needs one that is not there is a mistake.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from exthost.dialects.cigen.messages import CigenSchema, JobDefinition, Step

__all__ = ["Mistake", "check_jobs", "workflows_of"]

DEFAULT_WORKFLOW = "ci"
DEFAULT_RUNNER = "ubuntu-latest"

_JOB_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

# Which action installs what a package needs.
_SETUP = {
    "node": "actions/setup-node@v4",
    "python": "actions/setup-python@v5",
    "go": "actions/setup-go@v5",
}


class Mistake(Exception):
    """Why there can be no workflow for a schema."""


def check_jobs(jobs: Iterable[JobDefinition]) -> None:
    """Raise Mistake for the first job that GitHub would refuse."""
    known: set[str] = set()
    given = list(jobs)
    for job in given:
        if not _JOB_ID.fullmatch(job.id):
            raise Mistake(f"{job.id!r} is not the id of a job: letters, digits, _ and -")
        if job.id in known:
            raise Mistake(f"the job {job.id!r} is repeated")
        known.add(job.id)
    for job in given:
        for need in job.needs:
            if need not in known:
                raise Mistake(f"the job {job.id!r} needs {need!r}, which is not there")


def workflows_of(schema: CigenSchema, planned: set[str]) -> dict[str, dict[str, Any]]:
    """Return the workflows by name, with those jobs that were planned."""
    workflows: dict[str, dict[str, Any]] = {}
    for job in schema.jobs:
        if job.id in planned:
            name = job.workflow or DEFAULT_WORKFLOW
            workflow = workflows.setdefault(name, _empty(name, schema))
            workflow["jobs"][job.id] = _job(job, schema)
    return workflows


def _empty(name: str, schema: CigenSchema) -> dict[str, Any]:
    title = f"{schema.project.name} {name}" if schema.project.name else name
    workflow: dict[str, Any] = {"name": title, "on": {"push": None, "pull_request": None}}
    if schema.variables:
        workflow["env"] = dict(sorted(schema.variables.items()))
    return {**workflow, "jobs": {}}


def _job(job: JobDefinition, schema: CigenSchema) -> dict[str, Any]:
    said: dict[str, Any] = {"runs-on": _runner(job, schema)}
    if job.needs:
        said["needs"] = list(job.needs)
    if job.skip_if.branch:
        branches = [f"github.ref_name != '{branch}'" for branch in job.skip_if.branch]
        said["if"] = " && ".join(branches)
    if job.image:
        said["container"] = job.image
    if job.services:
        said["services"] = {_service_name(image): {"image": image} for image in job.services}
    if matrix := _matrix(job):
        said["strategy"] = {"matrix": matrix}
    if job.env:
        said["env"] = dict(sorted(job.env.items()))
    steps = [{"uses": "actions/checkout@v4"}, *_setup(job), *map(_step, job.steps)]
    return {**said, "steps": [step for step in steps if step]}


def _runner(job: JobDefinition, schema: CigenSchema) -> str:
    name = job.runner or schema.project.default_runner
    if name in schema.runners:
        return schema.runners[name].provider_config.get("runs_on", DEFAULT_RUNNER)
    return name or DEFAULT_RUNNER


def _service_name(image: str) -> str:
    return image.rpartition("/")[2].partition(":")[0]


def _matrix(job: JobDefinition) -> dict[str, Any]:
    matrix: dict[str, Any] = {key: list(one.values) for key, one in sorted(job.matrix.items())}
    if job.matrix_rows:
        matrix["include"] = [dict(sorted(row.values.items())) for row in job.matrix_rows]
    return matrix


def _setup(job: JobDefinition) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for package in job.package_specs:
        if package.name in _SETUP:
            step: dict[str, Any] = {"uses": _SETUP[package.name]}
            if package.version:
                step["with"] = {f"{package.name}-version": package.version}
            steps.append(step)
    return steps


def _step(step: Step) -> dict[str, Any]:
    """Return a step, or {} for one of a kind that GitHub does not have."""
    match step.WhichOneof("step_type"):
        case "run":
            run = step.run
            body: Mapping[str, Any] = {"run": run.command, "env": dict(sorted(run.env.items()))}
            return _filled(run.name, getattr(run, "if"), body)
        case "uses":
            uses = step.uses
            inputs = dict(sorted(getattr(uses, "with").items()))
            return _filled(uses.name, getattr(uses, "if"), {"uses": uses.module, "with": inputs})
        case "restore_cache":
            restore = step.restore_cache
            inputs = {"path": restore.extra.get("path", ""), "key": restore.key}
            if restore.restore_keys:
                inputs["restore-keys"] = "\n".join(restore.restore_keys)
            return _filled(restore.name, "", {"uses": "actions/cache/restore@v4", "with": inputs})
        case "save_cache":
            save = step.save_cache
            inputs = {"path": "\n".join(save.paths), "key": save.key}
            return _filled(save.name, "", {"uses": "actions/cache/save@v4", "with": inputs})
    return {}


def _filled(name: str, condition: str, body: Mapping[str, Any]) -> dict[str, Any]:
    said = {"name": name, "if": condition, **body}
    return {key: value for key, value in said.items() if value}
