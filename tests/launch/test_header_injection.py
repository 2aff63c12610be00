"""The key `inject` of a config: the proxy of an extension gets a secret, the extension does not.

For example, `inject = { host = "api.example.com", header = "Authorization: Bearer {TOKEN}" }` makes
the proxy add this header to the requests of a sandboxed extension to that host. TOKEN is a
variable under `env`, which is then not passed to the extension.
"""

from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.dialects.find import find_dialect
from exthost.errors import ConfigError, Refused
from exthost.launch.command import make_command
from exthost.launch.header_injection import check_injections, make_headers
from exthost.launch.secret_sources import SecretReading, with_secrets
from exthost.launch.variables import variables_for_settings
from exthost.model.spec import Spec

SECRET = "hush-hush-4711"
INJECT = {"host": "api.example.com", "header": "Authorization: Bearer {TOKEN}"}
NETWORK = {"network": ["api.example.com"]}


def make_spec(**settings: Any) -> Spec:
    """Return an extension with the variables TOKEN and MODE, whose proxy gets TOKEN."""
    defaults = {
        "name": "x",
        "source": {"type": "process", "command": "true"},
        "env": {"TOKEN": {"from": "HOST_TOKEN"}, "MODE": "fast"},
        "inject": INJECT,
        "permissions": NETWORK,
    }
    return spec_from_mapping(defaults | settings)


@pytest.mark.parametrize("env_policy", [None, "filtered"])
def test_the_extension_does_not_get_the_secret(env_policy: str | None) -> None:
    settings = {} if env_policy is None else {"env_policy": env_policy}
    spec = make_spec(**settings)
    environ = {"PATH": "/usr/bin", "HOST_TOKEN": SECRET, "TOKEN": SECRET}
    check_injections(spec)
    variables = make_command(spec, find_dialect("morphir"), environ).environment.variables
    assert variables["MODE"] == "fast"
    assert SECRET not in variables.values()
    assert SECRET not in variables_for_settings(spec, environ).values()
    (header,) = make_headers(spec, environ)
    assert tuple(header) == ("api.example.com", 80, "Authorization", f"Bearer {SECRET}")
    assert SECRET not in repr(header)


def test_a_header_can_have_a_port_and_a_secret_from_a_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{SECRET}\n")
    token.chmod(0o600)
    spec = make_spec(
        env={"TOKEN": {"file": str(token)}},
        inject=[INJECT | {"host": "localhost:8080"}],
        permissions={"network": ["localhost:8080"]},
    )
    check_injections(spec)
    assert make_headers(spec, {}) == ()  # the secret has not been read yet
    reading = SecretReading(spec, {})
    reading.run()
    (header,) = make_headers(with_secrets(spec, reading.values), {})
    assert tuple(header) == ("localhost", 8080, "Authorization", f"Bearer {SECRET}")


@pytest.mark.parametrize(
    ("settings", "code", "help"),
    [
        ({"env": {}}, "X1930", "env = { TOKEN"),
        ({"permissions": {"network": True}}, "X1931", "api.example.com:80"),
        ({"permissions": {"network": ["api.example.com:443"]}}, "X1931", "api.example.com:80"),
        ({"sandbox": "off"}, "X1931", "strict sandbox"),
        ({"sandbox": "landlock"}, "X1931", "strict sandbox"),
    ],
)
def test_a_header_that_cannot_be_added_is_refused(
    settings: dict[str, Any], code: str, help: str
) -> None:
    with pytest.raises(Refused) as caught:
        check_injections(make_spec(**settings))
    assert caught.value.code == code
    assert help in caught.value.help


@pytest.mark.parametrize("secret", ["", "two\r\nX-Other: lines", "umläut", " hush-hush", "nul\0"])
def test_a_secret_that_cannot_be_in_a_header_is_refused(secret: str) -> None:
    with pytest.raises(Refused) as caught:
        make_headers(make_spec(), {"HOST_TOKEN": secret})
    assert caught.value.code == "X1932"
    assert not secret or secret not in f"{caught.value} {caught.value.help}"


@pytest.mark.parametrize(
    "inject",
    [
        "Authorization: Bearer {TOKEN}",
        {"host": "api.example.com"},
        INJECT | {"host": "*.example.com"},
        INJECT | {"host": "http://api.example.com"},
        INJECT | {"header": "Bearer {TOKEN}"},
        INJECT | {"header": "Authorization: Bearer"},
        INJECT | {"header": "Host: {TOKEN}"},
        INJECT | {"header": "X-A: {TOKEN}\r\nX-B: y"},
        INJECT | {"other": "x"},
    ],
)
def test_a_wrong_value_is_an_error_of_the_config(inject: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make_spec(inject=inject)
    assert "inject" in str(caught.value)
