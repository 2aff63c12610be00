"""Which variables of the host an extension gets to know: in its environment, and in its config.

Without a `permissions` table the dialect's habit holds, or the configured `env_policy`. With one,
an extension is given what a program can hardly do without, and what the operator wrote under `env`.
What a discovered manifest asks for (`requires.env`, `secret_env`) is then not given: a package does
not decide which secrets it is told.
"""

from collections.abc import Mapping

from exthost.dialects.base import Dialect
from exthost.launch.admission import policy_of
from exthost.model import HostEnvRef, Spec
from exthost.process.environment import Environment, child_environment
from exthost.process.view import toml_key

__all__ = ["environment_of", "grant_line", "host_variables", "resolve", "withheld"]

# Of the host's variables, what a sandboxed program is given without a word about it.
_USUAL = ("PATH", "LANG", "HOME", "TMPDIR")


def environment_of(
    spec: Spec, dialect: Dialect, host: Mapping[str, str], configured: Mapping[str, str]
) -> Environment:
    """Return the environment of a child. `configured` is laid over what the policy lets through."""
    traits = dialect.traits
    if policy_of(spec) is not None and spec.env_policy is None:
        return child_environment(host, "minimal", names=_USUAL, configured=configured)
    hidden = withheld(spec)
    return child_environment(
        host,
        spec.env_policy or traits.environment,
        names=(*traits.variables, *(name for name in _secrets(spec) if name not in hidden)),
        allowed=tuple(name for name in spec.requires.env if name not in hidden),
        configured=configured,
    )


def host_variables(spec: Spec, host: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that the settings of an extension may take their values from."""
    hidden = withheld(spec)
    if not hidden:
        return host
    given = {name: value for name, value in host.items() if name not in hidden}
    return {**given, **{name: resolve(value, host) for name, value in _by_operator(spec).items()}}


def resolve(value: str, host: Mapping[str, str]) -> str:
    """Return a configured value; "" for a variable of the host that is not set."""
    return host.get(value, "") if isinstance(value, HostEnvRef) else value


def withheld(spec: Spec) -> tuple[str, ...]:
    """Return the variables that a package with permissions asks for and is not given."""
    if policy_of(spec) is None or spec.package is None:
        return ()
    given = _by_operator(spec)
    asked = dict.fromkeys((*spec.requires.env, *_secrets(spec)))
    return tuple(name for name in asked if name not in given)


def grant_line(spec: Spec) -> str:
    """Return the line that gives an extension what is withheld from it."""
    given = ", ".join(f'{name} = {{ from = "{name}" }}' for name in withheld(spec))
    return f"[overrides.{toml_key(spec.id)}] env = {{ {given} }}"


def _secrets(spec: Spec) -> tuple[str, ...]:
    return tuple(one.secret for one in spec.settings if one.secret)


def _by_operator(spec: Spec) -> Mapping[str, str]:
    said = spec.package.env if spec.package is not None else {}
    return {name: value for name, value in spec.env.items() if said.get(name) != value}
