"""The settings of an extension in a config that are tables: their values, and rules about them."""

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import ConfigError

ENTRY = {"name": "a", "source": {"type": "process", "command": "python3"}}


@pytest.mark.parametrize("pool", [{"min": 3}, {"max": 2}, {"min": 2, "max": 2}])
def test_a_pool_can_have_a_minimum_a_maximum_or_both(pool: dict[str, int]) -> None:
    settings = spec_from_mapping({**ENTRY, "pool": pool}).pool
    assert (settings.min, settings.max) == (pool.get("min"), pool.get("max"))


def test_the_minimum_of_a_pool_must_not_be_more_than_its_maximum() -> None:
    with pytest.raises(ConfigError, match=r"min \(3\) must not be more than max \(2\)"):
        spec_from_mapping({**ENTRY, "pool": {"min": 3, "max": 2}})


REMOTE = {"type": "http", "url": "https://example.com/mcp"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pool": {"resources": {"CPU": -1}}}, "pool.resources.CPU: must be between 0 and "),
        ({"pool": {"resources": {"CPU": 10**400}}}, "pool.resources.CPU: must be between 0 and "),
        ({"pool": {"resources": {"CPU": True}}}, "must be a number, not true"),
        ({"pool": {"resources": {"CPU": "2"}}}, "must be a number, not text"),
        ({"pool": {"resources": 2}}, "must be a table"),
        ({"pool": {"labels": {"zone": 10**5000}}}, "must be text, not a number"),
        ({"pool": {"labels": "zone"}}, "must be a table"),
        ({"permissions": {"network": "a.com"}}, "must be true, false or a list of hosts"),
        ({"permissions": {"network": 1}}, "must be true, false or a list of hosts"),
        ({"permissions": {"network": ["a b"]}}, "a b"),
        ({"permissions": {"network": [1, "a b"]}}, "permissions.network[1]: 'a b'"),
        ({"tools": {"allow": [1, "a" * 1001]}}, "tools.allow[1]: a pattern has at most"),
        ({"sha256": "a" * 63}, "and is 63 characters"),
        ({"sha256": "g" * 64}, "and has a character that is not one"),
        ({"permissions": {"network": ["a.com"] * 10_000}}, "must have at most"),
        ({"inject": "x"}, "must be a table or a list of tables"),
        ({"inject": {"header": "A: {TOKEN}"}}, "`host` is missing"),
        ({"inject": [{"host": "a.com"}]}, "`header` is missing"),
        ({"inject": {"host": "http://a.com", "header": "A: {TOKEN}"}}, "it is a URL"),
        ({"inject": {"host": "a b", "header": "A: {TOKEN}"}}, "inject.host"),
        ({"inject": {"host": "a.com", "header": "no colon {TOKEN}"}}, "the name of a header"),
        ({"inject": {"host": "a.com", "header": "Host: {TOKEN}"}}, "the proxy itself sets"),
        ({"inject": {"host": "a.com", "header": "A: fixed"}}, "must name a variable of `env`"),
        ({"source": {"type": "http"}}, "url"),
        ({"source": REMOTE | {"url": "ftp://a"}}, "is not an http or https URL"),
        ({"source": REMOTE | {"url": 1}}, "url"),
        ({"source": REMOTE | {"token": 1}}, "token"),
        ({"source": {"type": "wasm"}}, "path"),
        ({"source": {"type": "process", "command": ""}}, "command"),
    ],
)
def test_an_invalid_setting_is_an_error_that_names_the_problem(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        spec_from_mapping({**ENTRY, "dialect": "mcp", **settings})
    assert message in "; ".join([caught.value.message, *caught.value.evidence.details])


@pytest.mark.parametrize(
    ("setting", "name", "value", "expected"),
    [
        ("pool", "resources", {"CPU": 0, "GPU": 0.5}, (("CPU", 0.0), ("GPU", 0.5))),
        ("pool", "labels", {"zone": "1"}, (("zone", "1"),)),
        ("permissions", "network", True, True),
        ("permissions", "network", [], False),
        ("permissions", "network", ["a.com", "a.com"], ("a.com",)),
    ],
)
def test_a_valid_setting_is_read(setting: str, name: str, value: object, expected: object) -> None:
    spec = spec_from_mapping({**ENTRY, setting: {name: value}})
    assert getattr(getattr(spec, setting), name) == expected


@pytest.mark.parametrize("is_list", [True, False])
@pytest.mark.parametrize(("host", "port"), [("a.com", 80), ("a.com:8443", 8443)])
def test_one_injection_or_a_list_is_read(host: str, port: int, is_list: bool) -> None:
    table = {"host": host, "header": "Authorization: Bearer {TOKEN}"}
    settings = {"env": {"TOKEN": {"from": "T"}}, "inject": [table] if is_list else table}
    (injection,) = spec_from_mapping({**ENTRY, **settings}).inject or ()
    assert (injection.host, injection.port, injection.name) == ("a.com", port, "Authorization")
