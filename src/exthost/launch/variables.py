"""Which of the host's variables an extension gets: in its environment, and in its config.

Without a `permissions` table the configured `env_policy` or the dialect's default applies. With
one, an extension gets the few variables that hardly any program can do without, and those that the
operator wrote under `env`. It does not get what its discovered manifest asks for (`requires.env`,
`secret_env`): a package does not decide which secrets it gets.
"""

from collections.abc import Mapping

from exthost.dialects.base import Dialect
from exthost.launch.machine_check import enforced_policy
from exthost.process.environment import Environment, child_environment
from exthost.process.file_view import toml_key
from exthost.spec import HostEnvRef, Spec

__all__ = [
    "build_environment",
    "grant_line",
    "host_variables",
    "resolve_reference",
    "withheld_variables",
]

# The host's variables that every sandboxed program gets.
_USUAL = ("PATH", "LANG", "HOME", "TMPDIR")


def build_environment(
    spec: Spec, dialect: Dialect, host: Mapping[str, str], configured: Mapping[str, str]
) -> Environment:
    """Return the environment of a child: what the policy passes, then `configured`."""
    traits = dialect.traits
    if enforced_policy(spec) is not None and spec.env_policy is None:
        return child_environment(host, "minimal", names=_USUAL, configured=configured)
    hidden = withheld_variables(spec)
    return child_environment(
        host,
        spec.env_policy or traits.environment,
        names=(*traits.variables, *(name for name in _secrets(spec) if name not in hidden)),
        allowed=tuple(name for name in spec.requires.env if name not in hidden),
        configured=configured,
    )


def host_variables(spec: Spec, host: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that the settings of an extension may take their values from."""
    hidden = withheld_variables(spec)
    if not hidden:
        return host
    passed = {name: value for name, value in host.items() if name not in hidden}
    return {
        **passed,
        **{name: resolve_reference(value, host) for name, value in _by_operator(spec).items()},
    }


def resolve_reference(value: str, host: Mapping[str, str]) -> str:
    """Return a configured value; "" for a variable of the host that is not set."""
    return host.get(value, "") if isinstance(value, HostEnvRef) else value


def withheld_variables(spec: Spec) -> tuple[str, ...]:
    """Return the variables that a package with permissions asks for and does not get."""
    if enforced_policy(spec) is None or spec.package is None:
        return ()
    configured = _by_operator(spec)
    requested = dict.fromkeys((*spec.requires.env, *_secrets(spec)))
    return tuple(name for name in requested if name not in configured)


def grant_line(spec: Spec) -> str:
    """Return the config line that grants an extension its withheld variables."""
    example = ", ".join(f'{name} = {{ from = "{name}" }}' for name in withheld_variables(spec))
    return f"[overrides.{toml_key(spec.id)}] env = {{ {example} }}"


def _secrets(spec: Spec) -> tuple[str, ...]:
    return tuple(setting.secret for setting in spec.settings if setting.secret)


def _by_operator(spec: Spec) -> Mapping[str, str]:
    packaged = spec.package.env if spec.package is not None else {}
    return {name: value for name, value in spec.env.items() if packaged.get(name) != value}
