"""`permissions.network` as a list of hosts, such as `["api.example.com:443", "*.example.org"]`.

A sandboxed extension with such a list reaches them through a proxy of exthost. The tests are about
the config, the lock, the plan of the proxy (which may itself connect through a proxy of the
company), and the advice to a user whose extension was refused a host.
"""

from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import ConfigError, Refused
from exthost.launch.advice import suggest_grant_to_tool
from exthost.launch.bridge import server_host
from exthost.launch.locked_code import _describe_permissions
from exthost.launch.network_grant import (
    describe_network,
    find_overridden_variables,
    plan_proxy,
)
from exthost.model.launch_plan import Wrapper
from exthost.model.network_rules import UpstreamProxy
from exthost.model.spec import Spec

NETWORK = ["API.example.com:443", "*.example.org"]


def make_spec(network: Any, **settings: Any) -> Spec:
    source = {"type": "process", "command": "true"}
    permissions = {"network": network}
    return spec_from_mapping(
        {"name": "x", "source": source, "permissions": permissions, **settings}
    )


def test_a_list_of_hosts_is_kept_in_its_usual_form() -> None:
    permissions = make_spec([*NETWORK, "api.example.com.:443"]).permissions
    assert permissions is not None
    assert permissions.network == ("api.example.com:443", "*.example.org")
    assert describe_network(permissions.network) == "to api.example.com:443, *.example.org"


def test_variables_that_the_sandbox_overrides_are_found() -> None:
    env = {"HTTPS_PROXY": "http://a:1", "no_proxy": "b", "TOKEN": "c"}
    assert find_overridden_variables(make_spec(NETWORK, env=env)) == ("HTTPS_PROXY", "no_proxy")
    assert find_overridden_variables(make_spec(True, env=env)) == ()
    assert find_overridden_variables(make_spec(NETWORK, env=env, sandbox="off")) == ()
    assert find_overridden_variables(make_spec(NETWORK, env=env, sandbox="landlock")) == ()


def test_an_empty_list_is_no_network() -> None:
    permissions = make_spec([]).permissions
    assert permissions is not None and permissions.network is False
    assert plan_proxy(make_spec([]), {}) is None and plan_proxy(make_spec(True), {}) is None


@pytest.mark.parametrize(
    "network", ["api.example.com", 1, [1], ["https://a.example"], ["*"], [""], ["a.example"] * 201]
)
def test_an_invalid_list_of_hosts_is_an_error_of_the_config(network: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make_spec(network)
    assert "permissions.network" in str(caught.value)


def test_the_lock_has_a_line_for_each_host() -> None:
    lines = _describe_permissions(make_spec(NETWORK), ())
    assert lines == ("network *.example.org", "network api.example.com:443")


def test_the_proxy_connects_through_that_of_the_host() -> None:
    environ = {"HTTPS_PROXY": "http://me:pw@proxy.corp:3128", "no_proxy": "a.example"}
    policy = plan_proxy(make_spec(NETWORK), environ)
    assert policy is not None
    assert policy.https_proxy == UpstreamProxy("proxy.corp", 3128, "Basic bWU6cHc=")
    assert policy.http_proxy is None and policy.no_proxy == "a.example"
    assert "bWU6cHc" not in repr(policy)
    both = plan_proxy(make_spec(NETWORK), {"all_proxy": "http://proxy.corp:3128"})
    assert both is not None and both.http_proxy == both.https_proxy
    assert both.http_proxy is not None


def test_a_proxy_of_another_kind_is_refused_without_its_password() -> None:
    with pytest.raises(Refused) as caught:
        plan_proxy(make_spec(NETWORK), {"ALL_PROXY": "socks5://me:geheim@proxy.corp"})
    assert caught.value.code == "X1851" and "geheim" not in str(caught.value)


def test_hosts_by_name_are_refused_on_other_nodes() -> None:
    with pytest.raises(Refused) as caught:
        plan_proxy(make_spec(NETWORK, pool={"engine": "local"}), {})
    assert caught.value.code == "X1852"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("getaddrinfo ENOTFOUND evil.example", 'add "evil.example:443" to permissions.network'),
        ("dial tcp: lookup evil.example: no such host", 'add "evil.example:443"'),
        ("Failed to resolve 'evil.example' (Name or service not known)", 'add "evil.example:443"'),
        ("curl: (6) Could not resolve host: api.example.com", "did not use it"),
        ("Network is unreachable", 'add "HOST:443"'),
    ],
)
def test_advice_names_the_host_and_the_entry(text: str, advice: str) -> None:
    enforced = {"network": "netns+seccomp+proxy", "hosts": ["api.example.com:443"]}
    assert advice in suggest_grant_to_tool(Wrapper(options=(), init=b""), enforced, text)


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://docs.example.org/mcp", "docs.example.org:443"),
        ("http://127.0.0.1:8080/mcp", "127.0.0.1:8080"),
        ("http://[::1]/mcp", "[::1]:80"),
        ("--url-from", ""),
        ("https://:443/", ""),
    ],
)
def test_the_host_of_a_remote_server_is_that_of_its_url(url: str, entry: str) -> None:
    assert server_host(Spec(id="x", argv=(url,), source="http")) == entry
    assert server_host(Spec(id="x", argv=(url,))) == ""
