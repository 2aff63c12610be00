"""The command of an extension, before a sandbox is added: program, arguments and environment
variables.

The program of an extension is one of its config. But a WebAssembly module is run by the host's own
runner (`wasm`), and a remote server is reached by a program of the host, the bridge (`bridge`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exthost._version import __version__
from exthost.errors import Refused
from exthost.launch import bridge
from exthost.launch.integrity import has_code_pin
from exthost.launch.variables import build_environment
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import HostEnvRef
from exthost.process.child import find_program
from exthost.process.state_dirs import state_folder

if TYPE_CHECKING:
    from exthost.dialects.base import Dialect
    from exthost.model.spec import Spec
    from exthost.process.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments and environment variables, before a sandbox is added.

    plan             the program, arguments, variables and working folder
    environment      the same variables, with their origin
    state_folder     the folder in which the extension can keep files between its starts
    state_variables  the variables by which the program knows that folder
    """

    plan: LaunchPlan
    environment: Environment
    state_folder: str
    state_variables: tuple[str, ...]

    @property
    def state(self) -> str:
        """The state folder; "" if no variable of the program names it, since the program then does
        not know the folder."""
        return self.state_folder if self.state_variables else ""


def make_command(spec: Spec, dialect: Dialect, environ: Mapping[str, str]) -> Command:
    """Return the command of an extension. `environ` are the host's environment variables. Raises
    Refused if the config refers to a variable that the host does not have."""
    # `traits.env_vars` maps each variable that the dialect defines to a key of `facts`: the
    # variable AGENT_STATE_DIR of nexo, for example, to "state_folder".
    traits = dialect.traits
    folder = os.path.abspath(state_folder(environ, spec.id))  # noqa: PTH100
    facts = {"extension": spec.id, "host_version": host_version(spec), "state_folder": folder}
    set_by_host = {name: facts[fact] for name, fact in traits.env_vars.items()}
    if has_code_pin(spec):  # otherwise Python would write .pyc files into the pinned folder
        set_by_host["PYTHONDONTWRITEBYTECODE"] = "1"
    configured = _resolve_references(spec, environ)
    state_names = [name for name, fact in traits.env_vars.items() if fact == "state_folder"]
    if bridge.is_remote(spec):
        folder = bridge.token_folder(configured.get("EXTHOST_BRIDGE_URL", spec.argv[0]), environ)
        set_by_host |= bridge.bridge_variables(folder, environ)
        state_names = [bridge.FOLDER_VARIABLE]
    environment = build_environment(spec, dialect, environ, {**set_by_host, **configured})
    if spec.source == "wasm":
        from exthost.launch import wasm

        argv = wasm.runner_command(spec, environ)
    elif bridge.is_remote(spec):
        argv = bridge.bridge_command(spec)
    else:
        path = environment.variables.get("PATH", os.defpath)
        argv = (find_program(spec.argv[0], spec.cwd, path), *spec.argv[1:])
    return Command(
        plan=LaunchPlan(argv=argv, cwd=spec.cwd, env=environment.variables),
        environment=environment,
        state_folder=folder,
        state_variables=tuple(name for name in state_names if name not in spec.env),
    )


def host_version(spec: Spec) -> str:
    """Return the host version that the handshake sends to this extension."""
    return str(spec.options.get("host_version", __version__))


def _resolve_references(spec: Spec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the configured variables, with references to the host's variables resolved. Raises
    Refused if the host does not have such a variable."""
    resolved = {}
    for name, value in spec.env.items():
        if isinstance(value, HostEnvRef):
            if value not in environ:
                raise Refused(
                    "X0388",
                    f"its variable {name} comes from the host's {value}, which is not set",
                    extension=spec.id,
                    help=f"set {value} where the host is started, or remove env.{name}",
                )
            value = environ[value]
        resolved[name] = value
    return resolved
