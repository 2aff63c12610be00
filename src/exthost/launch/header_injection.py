"""Gives secrets to the proxy of an extension instead of the extension itself (the key `inject`).

    permissions = { network = ["api.example.org:80"] }
    env = { TOKEN = { from = "TOKEN" } }
    inject = { host = "api.example.org", header = "Authorization: Bearer {TOKEN}" }

The proxy is a process of the host, through which a sandboxed extension reaches the hosts of its
`permissions.network`. With `inject`, it adds the header to plain HTTP requests to that host. The
extension does not get the variable.
"""

from collections.abc import Mapping

from exthost.errors import Evidence, Refused
from exthost.launch.machine_check import enforced_policy
from exthost.launch.variables import resolve_reference
from exthost.model.documents.header_injection import HeaderInjection
from exthost.model.launch_plan import InjectedHeader
from exthost.model.network_rules import NetworkRules, parse_host
from exthost.model.spec import SecretSource, Spec


def check_injections(spec: Spec) -> None:
    """Raise Refused if a header cannot be added as the config says."""
    for injection in spec.inject or ():
        if missing := [name for name in injection.variables if name not in spec.env]:
            raise _error(
                "X1930",
                spec,
                f"its header {injection.name} contains {{{missing[0]}}}, which is not under `env`",
                f'add it: env = {{ {missing[0]} = {{ from = "{missing[0]}" }} }}',
            )
        policy = enforced_policy(spec)
        hosts = policy.network if policy is not None else False
        if not isinstance(hosts, tuple) or spec.sandbox == "landlock":
            raise _error(
                "X1931",
                spec,
                f"no proxy can add its header {injection.name}: its network has no list of hosts",
                f'set permissions = {{ network = ["{injection.target}"] }}, in the strict sandbox',
            )
        if NetworkRules(hosts).find_entry(parse_host(injection.host), injection.port) is None:
            raise _error(
                "X1931",
                spec,
                f"its header {injection.name} is for {injection.target}, which is not in "
                "permissions.network",
                f'add "{injection.target}" to permissions.network, or the port to inject.host',
            )


def make_headers(spec: Spec, environ: Mapping[str, str]) -> tuple[InjectedHeader, ...]:
    """Return the headers with their secrets. A header whose secret has not been read yet, because
    nothing is started, is left out. Raises Refused if a secret cannot be in a header."""
    return tuple(
        _make_header(spec, injection, environ)
        for injection in spec.inject or ()
        if not any(isinstance(spec.env[name], SecretSource) for name in injection.variables)
    )


def read_injected(
    spec: Spec, secret_values: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the values of the variables that only the proxy gets. `secret_values` are the values
    that were read from files, commands or the keyring, by variable."""
    names = {name for injection in spec.inject or () for name in injection.variables}
    return {
        name: secret_values.get(name) or resolve_reference(spec.env.get(name, ""), environ)
        for name in names
    }


def _make_header(
    spec: Spec, injection: HeaderInjection, environ: Mapping[str, str]
) -> InjectedHeader:
    """Return one header with its secrets. Raises Refused if a value cannot be in a header."""
    values = {name: resolve_reference(spec.env[name], environ) for name in injection.variables}
    for name, value in values.items():
        if not value or not value.isascii() or not value.isprintable() or value != value.strip():
            raise _error(
                "X1932",
                spec,
                f"the value of {name} cannot be in the header {injection.name}: it is empty, or "
                "has a line break, a character outside ASCII, or a space at an end",
                "check the secret; a secret of several lines cannot be sent in a header",
            )
    header = injection.fill_in(values)
    return InjectedHeader(injection.host, injection.port, injection.name, header)


def _error(code: str, spec: Spec, message: str, help: str) -> Refused:
    return Refused(code, message, extension=spec.id, help=help, evidence=Evidence(key="inject"))
