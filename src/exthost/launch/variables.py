"""Decides which of the host's environment variables an extension gets, in its environment and in
its config.

Without a `permissions` table the configured `env_policy` applies, or the default of the dialect
(the protocol that the extension speaks). With such a table and no `env_policy`, an extension gets a
few variables that hardly any program can do without, and the variables that the operator (the
author of the host's config) set under `env`. Variables that `inject` names go to its proxy only. It
does not get the variables that the manifest of its package requires (`requires.env`, `secret_env`),
nor the variables that are named after its id and its settings: a package must not decide which
secrets it gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from exthost.launch.machine_check import enforced_policy
from exthost.model.spec import HostEnvRef
from exthost.process.environment import child_environment

if TYPE_CHECKING:
    from exthost.dialects.base import Dialect
    from exthost.model.spec import Spec
    from exthost.process.environment import Environment

# The host's variables that every sandboxed program gets.
_USUAL = ("PATH", "LANG", "HOME", "TMPDIR")


def build_environment(
    spec: Spec, dialect: Dialect, host: Mapping[str, str], configured: Mapping[str, str]
) -> Environment:
    """Return the environment of an extension: the variables of `host` that the policy passes on,
    and `configured`, which takes precedence."""
    traits = dialect.traits
    if injected := injected_variables(spec):
        host, configured = _without(host, injected), _without(configured, injected)
    if enforced_policy(spec) is not None and spec.env_policy is None:
        return child_environment(host, "minimal", names=_USUAL, configured=configured)
    withheld = withheld_variables(spec, host)
    return child_environment(
        host,
        spec.env_policy or traits.environment,
        names=(*traits.variables, *(name for name in _secrets(spec) if name not in withheld)),
        allowed=tuple(name for name in spec.requires.env if name not in withheld),
        configured=configured,
    )


def variables_for_settings(spec: Spec, host: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables from which the settings of an extension may get their values: those that
    the operator set, and those of the host that are not withheld."""
    injected = injected_variables(spec)
    host, operator_set = _without(host, injected), _without(_operator_variables(spec), injected)
    withheld = withheld_variables(spec, host)
    if not operator_set and not withheld:
        return host
    passed_on = {name: value for name, value in host.items() if name not in withheld}
    resolved = {name: resolve_reference(value, host) for name, value in operator_set.items()}
    return {**passed_on, **resolved}


def injected_variables(spec: Spec) -> frozenset[str]:
    """Return the variables that only the proxy of an extension gets (`inject`), and the variables
    of the host from which they come."""
    names = {name for injection in spec.inject or () for name in injection.variables}
    references = (spec.env.get(name) for name in names)
    return frozenset((*names, *(value for value in references if isinstance(value, HostEnvRef))))


def _without(variables: Mapping[str, str], names: frozenset[str]) -> Mapping[str, str]:
    if not names:
        return variables
    return {name: value for name, value in variables.items() if name not in names}


def resolve_reference(value: str, host: Mapping[str, str]) -> str:
    """Return a configured value. A reference to a variable of the host is replaced by the value of
    that variable, "" if it is not set."""
    return host.get(value, "") if isinstance(value, HostEnvRef) else value


def withheld_variables(spec: Spec, host: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that a sandboxed package does not get, because the operator has not set
    them: those that its manifest requires, and those of its settings that are set in `host`.

    The variable of a setting is named after the id and the key, which the package chooses: `key` of
    the package `notes_api` has the same variable as `api_key` of the package `notes`.
    """
    if enforced_policy(spec) is None or spec.package is None:
        return ()
    configured = _operator_variables(spec)
    of_settings = (name for setting in spec.settings for name in setting.variables)
    requested = dict.fromkeys(
        (*spec.requires.env, *_secrets(spec), *(name for name in of_settings if host.get(name)))
    )
    return tuple(name for name in requested if name not in configured)


def grant_line(spec: Spec, names: Iterable[str]) -> str:
    """Return the config line that passes these variables of the host on to an extension."""
    references = ", ".join(f'{name} = {{ from = "{name}" }}' for name in names)
    from exthost.launch.file_view import toml_key

    table = f"[overrides.{toml_key(spec.id)}] " if spec.package is not None else ""
    return f"{table}env = {{ {references} }}"


def _secrets(spec: Spec) -> tuple[str, ...]:
    return tuple(setting.secret for setting in spec.settings if setting.secret)


def _operator_variables(spec: Spec) -> Mapping[str, str]:
    """Return the variables that the operator set. A variable with the value of the package's
    manifest is left out, since `spec.env` contains both."""
    package_env = spec.package.env if spec.package is not None else {}
    return {name: value for name, value in spec.env.items() if package_env.get(name) != value}
