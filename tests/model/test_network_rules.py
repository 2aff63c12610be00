"""The list `permissions.network`: which hosts, ports and addresses an extension can reach.

    permissions = { network = ["api.example.com:443", "*.example.org", "10.0.0.0/8:5432"] }

A proxy of exthost makes the connections of the extension, and compares each target with this list.
Two ways around it matter most: a host that is written in an unusual form, and a permitted name that
leads to an address of this machine or of the local network.
"""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.model.network_rules import (
    BadHost,
    NetworkRules,
    UpstreamProxy,
    format_target,
    is_excluded,
    is_public,
    parse_entry,
    parse_host,
    parse_proxy_url,
)

LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=2, max_size=4).map(".".join)


def allows(entries: list[str], host: str, port: int = 443) -> bool:
    return NetworkRules(entries).find_entry(parse_host(host), port) is not None


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("API.Example.COM", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("example。com", "example.com"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
        ("my_service.internal", "my_service.internal"),
    ],
)
def test_a_host_has_one_form(text: str, host: str) -> None:
    assert str(parse_host(text)) == host


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "a..b", "a.example..", ".example.com", "-a.example", "a-.example"),
        *("127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "1.2.3.256", "example.1"),
        *("fe80::1%eth0", "[1.2.3.4]", "[example.com]", "::1::", "a b.example", "a\0.example"),
        *("user@example.com", "example.com/path", "a" * 64 + ".example", ".".join(["a" * 60] * 5)),
        *("example.com\r\nHost: other", "\u200d.example", "*.example.com"),
        # Programs encode these in two ways, such as strasse and xn--strae-oqa.
        *("straße.example", "βόλος.example", "a\u200cb.example", "a\u200db.example"),
    ],
)
def test_a_text_that_is_not_a_host_is_refused(text: str) -> None:
    with pytest.raises(BadHost):
        parse_host(text)


@given(st.text(max_size=80))
def test_any_text_is_a_host_or_is_refused(text: str) -> None:
    try:
        host = parse_host(text)
    except BadHost:
        return
    assert parse_host(str(host)) == host  # parsing the normal form does not change it


@pytest.mark.parametrize(
    ("entry", "form"),
    [
        ("api.example.com:443", "api.example.com:443"),
        ("*.Example.org", "*.example.org"),
        ("db.example:*", "db.example:*"),
        ("10.0.0.0/8:5432", "10.0.0.0/8:5432"),
        ("[2001:db8::1]:8080", "[2001:db8::1]:8080"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("[fd00::/8]:443", "[fd00::/8]:443"),
        ("localhost:8080", "localhost:8080"),
    ],
)
def test_an_entry_is_a_name_an_address_or_a_network_with_a_port(entry: str, form: str) -> None:
    assert parse_entry(entry).text == form
    assert parse_entry(form) == parse_entry(entry)


@pytest.mark.parametrize(
    "entry",
    [
        *(
            "*",
            "*:443",
            "https://example.com",
            "example.com:",
            "example.com:0",
            "example.com:65536",
        ),
        *("example.com:٤٤٣", "example.com:+443", "*.10.0.0.1", "10.0.0.1/8", "a*.example.com"),
        "fe80::%1/64",
        *(
            "example.*",
            "*.*.example.com",
            "[::1]443",
            "[::1]:",
            "example.com:443:443",
            "10.0.0.0/99",
        ),
    ],
)
def test_an_invalid_entry_is_refused(entry: str) -> None:
    with pytest.raises(BadHost):
        parse_entry(entry)


def test_an_entry_without_a_port_has_the_ports_of_the_web() -> None:
    assert allows(["api.example.com"], "api.example.com", 443)
    assert allows(["api.example.com"], "api.example.com", 80)
    assert not allows(["api.example.com"], "api.example.com", 22)
    assert allows(["api.example.com:*"], "api.example.com", 22)
    assert not allows(["api.example.com:443"], "api.example.com", 80)


def test_a_star_stands_for_names_below_and_not_for_the_name_itself() -> None:
    assert allows(["*.example.org"], "a.example.org")
    assert allows(["*.example.org"], "a.b.example.org")
    assert not allows(["*.example.org"], "example.org")
    assert not allows(["*.example.org"], "badexample.org")
    assert not allows(["*.example.org"], "a.example.org.evil.test")


@given(NAME, NAME)
def test_a_name_allows_itself_and_no_other(name: str, other: str) -> None:
    assert allows([name], name) and allows([name], f"{name.upper()}.")
    assert allows([name], other) == (name == other)
    assert not allows([name], f"a.{name}")


def test_a_name_does_not_allow_its_addresses() -> None:
    assert not allows(["one.example"], "1.1.1.1")
    assert allows(["1.1.1.0/24"], "1.1.1.1") and not allows(["1.1.1.0/24"], "1.1.2.1")


def test_localhost_is_this_machine_by_name_and_by_address() -> None:
    rules = NetworkRules(["localhost:8080"])
    for host in ("localhost", "127.0.0.1", "[::1]", "::ffff:127.0.0.1"):
        assert rules.find_entry(parse_host(host), 8080) is not None
    assert rules.find_entry(parse_host("127.0.0.2"), 8080) is None
    assert not rules.allows_address("localhost", ipaddress.ip_address("10.0.0.1"), 8080)


# Loopback, private and link-local networks, reserved ranges, the metadata services of clouds
# (169.254.169.254 and others), and IPv6 addresses that contain such an IPv4 address.
NOT_PUBLIC = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"),
    *("100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16", "198.18.0.1", "224.0.0.1"),
    *("240.0.0.1", "255.255.255.255", "192.88.99.1", "203.0.113.1"),
    *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
    *("64:ff9b:1::a00:1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "100::1"),
)


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_an_address_of_this_machine_or_network_is_not_public(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    is_allowed = NetworkRules(["name.example"]).allows_address("name.example", address, 443)
    # The rules compare this one as the IPv4 address 8.8.8.8, which is public.
    assert is_allowed == (text == "::ffff:8.8.8.8")


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::808:808"]
)
def test_other_addresses_are_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


def test_an_address_that_is_not_public_is_reached_if_the_list_has_it_as_well() -> None:
    address = ipaddress.ip_address("10.1.2.3")
    assert not NetworkRules(["git.example"]).allows_address("git.example", address, 443)
    rules = NetworkRules(["git.example", "10.0.0.0/8:443"])
    assert rules.allows_address("git.example", address, 443)
    assert not rules.allows_address("git.example", address, 80)


def test_a_target_is_written_as_its_entry() -> None:
    for text in ("api.example.com:443", "[2001:db8::1]:8080", "10.0.0.1:22"):
        host, _, port = text.rpartition(":")
        assert format_target(parse_host(host), int(port)) == text
        assert allows([text], host, int(port))


def test_the_url_of_a_company_s_proxy_is_parsed_and_its_password_is_not_shown() -> None:
    assert parse_proxy_url("http://proxy.corp:3128") == UpstreamProxy("proxy.corp", 3128)
    assert parse_proxy_url("proxy.corp:8080/") == UpstreamProxy("proxy.corp", 8080)
    with_password = parse_proxy_url("http://me:p%40ss@proxy.corp")
    assert with_password == UpstreamProxy("proxy.corp", 80, "Basic bWU6cEBzcw==")
    not_utf_8 = UpstreamProxy("proxy.corp", 80, "Basic /zr/")
    for url in ("http://\udcff:%FF@proxy.corp", "%FF:\udcff@proxy.corp"):
        assert parse_proxy_url(url) == not_utf_8
    for url in ("https://proxy.corp", "socks5://me:geheim@proxy.corp", "http://", "http://a b"):
        with pytest.raises(BadHost) as refused:
            parse_proxy_url(url)
        assert "geheim" not in str(refused.value)


def test_no_proxy_lists_names_networks_and_ports() -> None:
    no_proxy = "localhost,.corp.example, internal.test:8443 10.0.0.0/8,,[::1]"
    excluded = [("a.corp.example", 443), ("corp.example", 80), ("internal.test", 8443)]
    excluded += [("10.9.9.9", 80), ("::1", 80)]
    for host, port in excluded:
        assert is_excluded(parse_host(host), port, no_proxy), host
    for host, port in (("corp.example.org", 443), ("internal.test", 443), ("11.0.0.1", 80)):
        assert not is_excluded(parse_host(host), port, no_proxy), host
    assert is_excluded("anything.example", 1, "*") and not is_excluded("anything.example", 1, "")
