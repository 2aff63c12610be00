"""Plans the start of an extension: program, environment variables, working folder, sandbox.

`admit` runs the checks that come before the first start, and before a restart that somebody
requests. `prepare` returns the command of one start, with everything around it. Settings of the
config take precedence over defaults of the dialect. The module starts nothing, and creates nothing
but the state folder (`make_state_folder`).
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.options import find_option_problem
from exthost.errors import ConfigError, Evidence, Refused
from exthost.launch import bridge, shared_folders
from exthost.launch.admission_record import NOT_SANDBOXED
from exthost.launch.command import host_version, make_command
from exthost.launch.containment import contain
from exthost.launch.header_injection import check_injections
from exthost.launch.integrity import check_files
from exthost.launch.limits import resolve_limits
from exthost.launch.machine_check import describe_weaknesses, enforced_policy
from exthost.launch.prerequisites import find_missing_requirements, resolve_config
from exthost.launch.variables import (
    grant_line,
    variables_for_settings,
    withheld_variables,
)
from exthost.model.empty_mapping import empty_mapping
from exthost.model.spec import HostEnvRef
from exthost.process.environment import Variables

if TYPE_CHECKING:
    from exthost.dialects.base import Dialect
    from exthost.launch.admission_record import Admission
    from exthost.model.launch_plan import LaunchPlan
    from exthost.model.spec import Spec
    from exthost.process.environment import Environment


_log = logging.getLogger("exthost.launch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The command of one start, and the data of its handshake.

    plan             the command, and the sandbox and limits around it
    environment      the environment variables, and which of the host's variables are not passed on
    context          the values that the handshake sends
    state_variables  the variables that name the extension's state folder; empty if it has none
    state_owner      the uid that must own the state folder; None for the host's own user
    enforced         how each restriction is enforced, as a mapping that users see
    weaker           which restrictions are weaker than usual or than configured ("sandbox" or
                     "lifetime"), each with the reason
    """

    plan: LaunchPlan
    environment: Environment
    context: HandshakeContext
    state_variables: tuple[str, ...] = ()
    state_owner: int | None = None
    enforced: Mapping[str, Any] = field(default_factory=empty_mapping)
    weaker: tuple[tuple[str, str], ...] = ()


def admit(
    spec: Spec,
    dialect: Dialect,
    environ: Mapping[str, str],
    neighbours: shared_folders.Neighbours | None = None,
) -> Admission:
    """Run the checks. Raise Refused unless all requirements are met and the permissions can be
    enforced. Return what the checks decided, which `prepare` uses for every start until the checks
    run again.

    environ     the host's environment variables
    neighbours  the other extensions of the host; None for those of the config"""
    neighbours = shared_folders.configured_neighbours(spec) if neighbours is None else neighbours
    # An extension must not be able to change code that others run.
    shared_folders.refuse_code_in_grants(spec)
    _check_pool(spec)
    if (conflict := shared_folders.find_conflict(spec, neighbours, environ)) is not None:
        raise conflict
    if spec.refusal is not None:  # reading its manifest has found a reason not to start it
        code, message, help, _ = spec.refusal
        raise Refused(code, message, extension=spec.id, help=help)
    path = environ.get("PATH")
    variables = {
        # A HostEnvRef is the name of a variable of the host.
        name: environ.get(value, "") if isinstance(value, HostEnvRef) else value
        for name, value in spec.env.items()
    }
    # A required variable may be set in the host's environment or in the config.
    available = {**environ, **variables} if variables else environ
    missing = find_missing_requirements(
        spec.requires, lambda name: shutil.which(name, path=path), available
    )
    if missing and not spec.requires.is_advisory:
        raise missing.to_error(spec.id)
    if missing:
        _log.warning("[%s] %s; %s", spec.id, missing.message(), missing.help())
    if spec.unrunnable:
        raise Refused(
            "X0331",
            spec.unrunnable,
            extension=spec.id,
            help="exthost runs only extensions that speak over stdin and stdout; others are listed",
        )
    check_host_version(spec)
    check_injections(spec)
    _settings(spec, environ)  # only raises Refused here
    if spec.requires.env and spec.argv:
        _check_required_variables(spec, dialect, environ)
    admission = NOT_SANDBOXED
    # A WebAssembly module is run by a runtime of this machine, and a remote server by a program of
    # exthost. `decide` also checks whether that program can run.
    is_run_by_host_program = spec.source in ("wasm", "http")
    if spec.argv and (is_run_by_host_program or enforced_policy(spec) is not None):
        command = make_command(spec, dialect, environ)
        from exthost.launch.admission import decide

        admission = decide(spec, command.plan, command.state, environ)
        # The view has the files that the sandbox shows to the program. The result is dropped: this
        # call only raises Refused early. `prepare` protects the view again for each start.
        shared_folders.protect_view(spec, admission.view, neighbours, environ)
    # The processes of a pool on other machines have files of their own, which are compared there.
    if spec.sha256 is not None and spec.argv and spec.pool.engine is None:
        check_files(spec, make_command(spec, dialect, environ).plan)
    return admission


def _check_pool(spec: Spec) -> None:
    """Raise Refused if the pool needs Ray and does not use it."""
    pool = spec.pool
    if pool.engine != "ray" and (pool.image is not None or pool.files == "runtime-env"):
        key = "image" if pool.image is not None else "files"
        raise Refused(
            "X1991",
            f"its pool.{key} needs a Ray cluster, and pool.engine is {pool.engine or 'not set'}",
            extension=spec.id,
            help=f'set pool.engine to "ray", or remove pool.{key}',
            evidence=Evidence(key=f"pool.{key}"),
        )


def _check_required_variables(spec: Spec, dialect: Dialect, environ: Mapping[str, str]) -> None:
    """Raise Refused if a variable that the extension requires is set where the host was started,
    and is not passed on to the extension: it would start, and fail when it needs the variable."""
    given = make_command(spec, dialect, environ).environment.variables
    # A variable that is set nowhere gets here only if the requirement is advisory.
    required = [name for name in dict.fromkeys(spec.requires.env) if environ.get(name)]
    lacking = [name for name in required if not given.get(name)]
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        raise Refused(
            "X0365",
            f"it requires {', '.join(lacking)}, which {verb} set here but not passed to it",
            extension=spec.id,
            help=f"if you trust it with that: {grant_line(spec, lacking)}",
            evidence=Evidence(key="requires.env", details=tuple(lacking)),
        )


def check_host_version(spec: Spec) -> None:
    """Raise Refused if the extension needs a later host than this one."""
    version = host_version(spec)
    if spec.requires.host and _is_newer(spec.requires.host, version):
        raise Refused(
            "X0330",
            f"it needs a host of version {spec.requires.host} or later, and this one is {version}",
            extension=spec.id,
            help="update the host, or set options = { host_version = … } if it is compatible",
        )
    needed = spec.requires.host_range
    if needed and not _fits(needed, version):
        raise Refused(
            "X0330",
            f"it needs a host of version {needed}, and this one is {version}",
            extension=spec.id,
            help="set options = { host_version = … } if the host is compatible",
        )


def _is_newer(needed: str, version: str) -> bool:
    from exthost.model import semver

    return semver.is_newer(needed, version)


def _fits(requirement: str, version: str) -> bool:
    """Return whether a version meets a requirement such as `>=0.1, <0.3`. The pre-release label of
    the version is ignored."""
    from exthost.model.versionreq import NotAVersion, Version, VersionReq

    try:
        parsed = replace(Version.parse(version), pre_release="")
        return VersionReq.parse(requirement).matches(parsed)
    except NotAVersion:
        return False


def prepare(
    spec: Spec,
    dialect: Dialect,
    environ: Mapping[str, str],
    handles: frozenset[str] = frozenset(),
    admission: Admission | None = None,
    neighbours: shared_folders.Neighbours | None = None,
) -> Launch:
    """Return what the next start executes, with which variables and in which sandbox. Raises
    ConfigError for an option with a wrong value or a misspelt name, Refused if a restriction cannot
    be enforced.

    handles     the methods that the host answers for the extension
    admission   the result of `admit`; None if the extension has not been admitted, as in a dry run,
                and the view is then decided here
    neighbours  the other extensions of the host; None for those of the config. Their code is
                protected in the folders that this extension may write."""
    if wrong := find_option_problem(spec.options, dialect.options):
        raise ConfigError(
            "X0111",
            wrong,
            extension=spec.id,
            help=f"the options of {dialect.name} are: {', '.join(sorted(dialect.options))}",
            evidence=Evidence(path=spec.origin, key="options"),
        )
    command = make_command(spec, dialect, environ)
    context = HandshakeContext(
        extension=spec.id,
        config=_settings(spec, environ),
        options=spec.options,
        # pathlib would take as long as the rest of this function.
        cwd=os.path.realpath(spec.cwd or "."),
        env=command.environment.variables,
        host_version=host_version(spec),
        state_folder=command.state_folder,
        manifest=spec.manifest,
        wire_id=spec.wire_id or spec.id,
        handles=handles,
        is_remote=bridge.is_remote(spec),
    )
    if admission is None:
        from exthost.launch.admission import decide

        admission = decide(spec, command.plan, command.state, environ)
    neighbours = shared_folders.configured_neighbours(spec) if neighbours is None else neighbours
    admission = replace(
        admission, view=shared_folders.protect_view(spec, admission.view, neighbours, environ)
    )
    plan, enforced = contain(
        spec,
        plan=command.plan,
        limits=resolve_limits(spec, dialect),
        admission=admission,
        environ=environ,
    )
    view = admission.view
    launch = Launch(
        plan=plan,
        environment=command.environment,
        context=context,
        state_variables=command.state_variables,
        state_owner=None if view is None else view.uid,
        enforced=enforced,
        weaker=tuple(describe_weaknesses(spec, enforced["pids"], enforced["filesystem"] != "open")),
    )
    # The program must not learn of a state folder that its sandbox does not show.
    return launch if view is None or view.state else _without_state_folder(launch)


def _settings(spec: Spec, environ: Mapping[str, str]) -> Any:
    """Return the config for the handshake. Raises Refused for a setting without a value."""
    try:
        return resolve_config(spec, variables_for_settings(spec, environ))
    except Refused as refused:
        if names := withheld_variables(spec, environ):
            refused.help = f"if you trust it with its secrets: {grant_line(spec, names)}"
        raise


def make_state_folder(launch: Launch) -> Launch:
    """Create the state folder of an extension whose dialect defines a variable for it, and return
    the launch. If the folder cannot be created, as on a read-only file system, return a launch
    without a state folder, since most extensions never use it."""
    if not launch.state_variables:
        return launch
    try:
        folder = Path(launch.context.state_folder)
        from exthost.process.private_folders import make_folder

        make_folder(folder)
        if launch.state_owner is not None:
            os.chown(folder, launch.state_owner, launch.state_owner, follow_symlinks=False)
    except OSError as error:
        _log.warning(
            "[%s] it has no state folder, since %s cannot be created: %s; set EXTHOST_HOME",
            launch.context.extension,
            launch.context.state_folder,
            error.strerror,
        )
        return _without_state_folder(launch)
    return launch


def _without_state_folder(launch: Launch) -> Launch:
    """Return a launch that does not pass the program the variables that name its state folder."""
    if not launch.state_variables:
        return launch
    variables: Any = dict(launch.plan.env)
    for name in launch.state_variables:
        variables.pop(name, None)
    return replace(launch, plan=replace(launch.plan, env=Variables(variables)), state_variables=())
