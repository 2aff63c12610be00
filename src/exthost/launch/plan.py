"""From a Spec to what will be executed: program, variables, working directory, containment.

What was configured goes before what the dialect does by default. Looks at the file system only to
find the program. Starts nothing, and makes nothing but the state folder (`make_state_folder`).
"""

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from exthost import semver
from exthost._version import __version__
from exthost.dialects.base import Dialect
from exthost.dialects.options import objection
from exthost.errors import ConfigError, Evidence, Refused
from exthost.launch.containment import RealPaths, check_policy, contain
from exthost.launch.gate import configured, gate
from exthost.launch.integrity import check_files
from exthost.launch.limits import limits_of
from exthost.model import (
    EMPTY_MAPPING,
    HandshakeContext,
    HostEnvRef,
    LaunchPlan,
    Spec,
    empty_mapping,
)
from exthost.process.child import find_program
from exthost.process.environment import Environment, Variables, child_environment
from exthost.process.home import state_folder

_log = logging.getLogger("exthost.launch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What one start executes, and what the handshake then says."""

    plan: LaunchPlan
    environment: Environment
    context: HandshakeContext
    state_variable: str = ""  # the variable that names the child's own folder, if it has one
    enforced: Mapping[str, str] = field(default_factory=empty_mapping)  # what holds it, as data


def admit(spec: Spec, environ: Mapping[str, str]) -> RealPaths:
    """Raise Refused unless everything that the extension requires is there, and its policy can be
    enforced. Return where its paths lead now."""
    path = environ.get("PATH")
    given = {
        name: environ.get(value, "") if isinstance(value, HostEnvRef) else value
        for name, value in spec.env.items()
    }
    seen = {**environ, **given} if given else environ
    missing = gate(spec.requires, lambda name: shutil.which(name, path=path), seen)
    if missing:
        raise missing.refusal(spec.id)
    if spec.unrunnable:
        raise Refused(
            "X0331",
            spec.unrunnable,
            extension=spec.id,
            help="exthost runs child processes over stdin and stdout; others are only listed",
        )
    ours = host_version(spec)
    if spec.requires.host and semver.newer(spec.requires.host, ours):
        raise Refused(
            "X0330",
            f"it needs a host of version {spec.requires.host} or later, and this one is {ours}",
            extension=spec.id,
            help="update the host, or say options = { host_version = … } if it is compatible",
        )
    configured(spec, environ)
    real_paths = check_policy(spec)
    if spec.sha256 is not None and spec.argv:
        program = find_program(spec.argv[0], spec.cwd, path or os.defpath)
        check_files(spec, LaunchPlan(argv=(program, *spec.argv[1:]), cwd=spec.cwd))
    return real_paths


def host_version(spec: Spec) -> str:
    """Return the host version that this extension is told."""
    return str(spec.options.get("host_version", __version__))


def prepare(
    spec: Spec,
    dialect: Dialect,
    environ: Mapping[str, str],
    handles: frozenset[str] = frozenset(),
    real_paths: RealPaths = EMPTY_MAPPING,
) -> Launch:
    """Return what the next start executes, with which variables and in which containment."""
    traits = dialect.traits
    if wrong := objection(spec.options, dialect.options):
        raise ConfigError(
            "X0111",
            wrong,
            extension=spec.id,
            help=f"the options of {dialect.name} are: {', '.join(sorted(dialect.options))}",
            evidence=Evidence(path=spec.origin, key="options"),
        )
    cwd = spec.cwd
    version = host_version(spec)
    folder = os.path.abspath(state_folder(environ, spec.id))  # noqa: PTH100
    facts = {"extension": spec.id, "host_version": version, "state_folder": folder}
    told = {name: facts[fact] for name, fact in traits.env_vars.items()}
    environment = child_environment(
        environ,
        spec.env_policy or traits.environment,
        names=(*traits.variables, *(one.secret for one in spec.settings if one.secret)),
        allowed=spec.requires.env,
        configured={**told, **_resolved(spec, environ)},
    )
    program = find_program(spec.argv[0], cwd, environment.variables.get("PATH", os.defpath))
    context = HandshakeContext(
        extension=spec.id,
        config=configured(spec, environ),
        options=spec.options,
        # The child's real folder; not pathlib, which takes as long as all else here.
        cwd=os.path.realpath(cwd or "."),
        env=environment.variables,
        host_version=version,
        state_folder=folder,
        manifest=spec.manifest,
        wire_id=spec.wire_id or spec.id,
        handles=handles,
    )
    named = next((name for name, fact in traits.env_vars.items() if fact == "state_folder"), "")
    state_variable = "" if named in spec.env else named
    plan = LaunchPlan(argv=(program, *spec.argv[1:]), cwd=cwd, env=environment.variables)
    plan, enforced = contain(
        spec,
        plan=plan,
        limits=limits_of(spec, dialect),
        state=context.state_folder if state_variable else "",
        real_paths=real_paths,
    )
    return Launch(
        plan=plan,
        environment=environment,
        context=context,
        state_variable=state_variable,
        enforced=enforced,
    )


def _resolved(spec: Spec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the configured variables; references to variables of the host are resolved."""
    found = {}
    for name, value in spec.env.items():
        if isinstance(value, HostEnvRef):
            if value not in environ:
                raise Refused(
                    "X0388",
                    f"its variable {name} is to be the host's {value}, and that is not set",
                    extension=spec.id,
                    help=f"set {value} where the host is started, or take env.{name} out",
                )
            value = environ[value]
        found[name] = value
    return found


def make_state_folder(launch: Launch) -> Launch:
    """Make the state folder of a child whose dialect has one. Where it cannot be made, as on a
    read-only machine, return a launch whose child is told of none: most never ask."""
    if not launch.state_variable:
        return launch
    try:
        Path(launch.context.state_folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _log.warning(
            "[%s] it has no state folder, since %s cannot be made: %s; set EXTHOST_HOME",
            launch.context.extension,
            launch.context.state_folder,
            error.strerror,
        )
        return _without_state_folder(launch)
    return launch


def _without_state_folder(launch: Launch) -> Launch:
    variables: Any = dict(launch.plan.env)
    variables.pop(launch.state_variable, None)
    return replace(launch, plan=replace(launch.plan, env=Variables(variables)), state_variable="")
