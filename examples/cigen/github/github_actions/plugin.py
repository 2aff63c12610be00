"""The cigen plugin: what is planned, and the files that are generated."""

from exthost.dialects.cigen.messages import (
    DEPENDENCY_TYPE_REQUIRES,
    RESOURCE_TYPE_JOB,
    Dependency,
    GenerateRequest,
    PlanRequest,
    PlanResult,
    Resource,
)
from exthost.sdk import Extension, Fragment, ToolError
from github_actions.workflows import Mistake, check_jobs, workflows_of
from github_actions.yaml_text import to_yaml

ext = Extension("provider/github", version="0.1.0", capabilities=["provider:github"])


@ext.plan
def plan(request: PlanRequest) -> PlanResult:
    """A resource for each job, and a dependency for each `needs`."""
    jobs = request.schema.jobs
    try:
        check_jobs(jobs)
    except Mistake as mistake:
        raise ToolError(str(mistake)) from None
    return PlanResult(
        resources=[Resource(id=job.id, type=RESOURCE_TYPE_JOB) for job in jobs],
        deps=[
            Dependency(to=need, type=DEPENDENCY_TYPE_REQUIRES, **{"from": job.id})
            for job in jobs
            for need in job.needs
        ],
    )


@ext.generate
def generate(request: GenerateRequest) -> list[Fragment]:
    """One file for each workflow that a job of the plan belongs to."""
    planned = {resource.id for resource in request.graph}
    files = []
    for name, workflow in workflows_of(request.schema, planned).items():
        path = f".github/workflows/{name}.yml"
        files.append(Fragment(path, to_yaml(workflow), format="yaml"))
    return files
