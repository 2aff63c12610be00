"""Plans the proxy of an extension whose `permissions.network` is a list of hosts.

    permissions = { network = ["api.example.org:443"] }

The sandbox of such an extension has no network but a proxy, a process of the host
(`process.proxy_server`), which connects to the hosts of the list only.
"""

from collections.abc import Iterable, Mapping

from exthost.errors import Evidence, Refused
from exthost.launch.header_injection import make_headers
from exthost.launch.machine_check import enforced_policy, uses_landlock
from exthost.model.launch_plan import ProxyPolicy
from exthost.model.network_rules import BadHost, UpstreamProxy, parse_proxy_url
from exthost.model.spec import Spec


def plan_proxy(spec: Spec, environ: Mapping[str, str]) -> ProxyPolicy | None:
    """Return what the proxy of an extension connects to; None if it has no list of hosts. If the
    variables of the host (HTTPS_PROXY and so on) name an HTTP proxy, the proxy of the extension
    connects through that. Raises Refused if such a variable is not usable, or if the extension runs
    on other nodes."""
    policy = enforced_policy(spec)
    hosts = policy.network if policy is not None else False
    if not isinstance(hosts, tuple):
        return None
    if spec.pool.engine is not None:
        raise Refused(
            "X1852",
            "its permissions list hosts of the network, and its processes run on other nodes",
            extension=spec.id,
            help="use network = true or false, or remove pool.engine",
            evidence=Evidence(key="permissions.network"),
        )
    return ProxyPolicy(
        hosts,
        https_proxy=_find_proxy(spec, environ, "HTTPS_PROXY"),
        http_proxy=_find_proxy(spec, environ, "HTTP_PROXY"),
        no_proxy=_read_variable(environ, "NO_PROXY"),
        headers=make_headers(spec, environ),
    )


def find_overridden_variables(spec: Spec) -> tuple[str, ...]:
    """Return the variables, such as HTTPS_PROXY, that a config entry sets and that its processes
    get with another value, because the sandbox directs connections to its own proxy."""
    policy = enforced_policy(spec)
    if policy is None or not isinstance(policy.network, tuple) or uses_landlock(spec):
        return ()
    from exthost.launch.sandbox.strict import PROXY_VARIABLES

    return tuple(sorted(spec.env.keys() & PROXY_VARIABLES.keys()))


def override_warning(names: Iterable[str]) -> str:
    """Return the warning about variables that the sandbox overrides."""
    return (
        f"its env sets {', '.join(names)}, which the sandbox overrides: permissions.network is a "
        "list, and connections go through a proxy of exthost"
    )


OVERRIDE_HELP = "remove it from env; a proxy of your network is set for the host: HTTPS_PROXY=…"


def describe_network(network: bool | tuple[str, ...]) -> str:
    """Return the network of an extension as words for users."""
    if isinstance(network, tuple):
        return f"to {', '.join(network)}"
    return "on" if network else "off"


def _read_variable(environ: Mapping[str, str], name: str) -> str:
    # The name in small letters counts first, as for curl.
    return environ.get(name.lower()) or environ.get(name) or ""


def _find_proxy(spec: Spec, environ: Mapping[str, str], name: str) -> UpstreamProxy | None:
    """Return the proxy that the variable of this name names, or else ALL_PROXY; None for none."""
    for variable in (name, "ALL_PROXY"):
        if not (url := _read_variable(environ, variable)):
            continue
        try:
            return parse_proxy_url(url)
        except BadHost as error:
            raise Refused(
                "X1851",
                f"its network goes through the proxy of the host, and {variable} is not usable: "
                f"{error}",
                extension=spec.id,
                help=f"set {variable} to an HTTP proxy (http://HOST:PORT), or unset it",
            ) from None
    return None
