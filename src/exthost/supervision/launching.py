"""From an extension as it is wanted to what will be executed, under which limits.

Joins three voices, the loudest first: what was configured, what the dialect is used to, what we
default to. Looks at the file system only to find the program; starts nothing.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from exthost._version import __version__
from exthost.dialects.dialect import Dialect
from exthost.errors import Refused
from exthost.manifests.gate import gate
from exthost.model import Introduction, LaunchPlan, Limits, Restart, Spec
from exthost.process.child import find_program
from exthost.process.environment import Environment, child_environment

# For limits that neither the operator nor the dialect speaks of.
_LIMITS = Limits(
    start=60, handshake=30, call=30, write=30, stop=10, max_message=64 * 2**20, max_in_flight=1024
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start, prepared."""

    plan: LaunchPlan
    environment: Environment
    introduction: Introduction


def limits_of(spec: Spec, dialect: Dialect) -> Limits:
    """The limits in force. A granted max_execution_time bounds every call."""
    limits = spec.limits.over(dialect.traits.limits.over(_LIMITS))
    most = spec.permissions.max_execution_time if spec.permissions is not None else None
    if most is not None and limits.call is not None:
        limits = replace(limits, call=min(limits.call, most))
    return replace(limits, max_in_flight=1) if dialect.traits.in_turn else limits


def restart_of(spec: Spec, dialect: Dialect) -> Restart:
    """The restart policy in force."""
    return spec.restart.over(dialect.traits.restart)


def admit(spec: Spec, environ: Mapping[str, str]) -> None:
    """Raise Refused unless everything the extension requires is there."""
    path = environ.get("PATH")
    missing = gate(spec.requires, lambda name: shutil.which(name, path=path), environ)
    if missing:
        raise missing.refusal(spec.id)
    if spec.permissions is not None and spec.sandbox not in ("best-effort", "off"):
        raise Refused(
            "X0302",
            "its permissions cannot be enforced: this version has no sandbox yet",
            extension=spec.id,
            help='sandbox = "best-effort" runs it without, "off" too; then nothing holds it',
        )


def prepare(
    spec: Spec, dialect: Dialect, environ: Mapping[str, str], handles: frozenset[str] = frozenset()
) -> Launch:
    """What will be executed, with which variables, and how we introduce ourselves."""
    traits = dialect.traits
    environment = child_environment(
        environ,
        spec.env_policy or traits.environment,
        names=traits.variables,
        allowed=spec.requires.env,
        configured=spec.env,
    )
    cwd = spec.cwd
    program = find_program(spec.argv[0], cwd, environment.variables.get("PATH", os.defpath))
    plan = LaunchPlan(argv=(program, *spec.argv[1:]), cwd=cwd, env=environment.variables)
    version = spec.options.get("host_version", __version__)
    introduction = Introduction(
        extension=spec.id,
        config=spec.config,
        options=spec.options,
        cwd=cwd or str(Path.cwd()),
        env=environment.variables,
        host_version=str(version),
        manifest=spec.manifest,
        handles=handles,
    )
    return Launch(plan=plan, environment=environment, introduction=introduction)
