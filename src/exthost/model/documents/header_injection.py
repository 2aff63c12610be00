"""The key `inject`: a header with a secret, which the proxy of an extension adds to its requests.

    [[extensions]]
    env = { TOKEN = { file = "token" } }
    inject = { host = "api.example.com", header = "Authorization: Bearer {TOKEN}" }

The secret is a variable under `env`. The extension does not get that variable: only the proxy has
the secret, and adds the header to plain HTTP requests to one host. A request by https is encrypted
between the extension and the server, so no header can be added to it.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from exthost.model.documents.keys import TEXT, Key, ValueType
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import describe_type, read_table
from exthost.model.network_rules import BadHost, format_target, parse_host, parse_port, split_port

# The port of plain HTTP.
_DEFAULT_PORT = 80

# The name of a header and its value, which is ASCII and does not begin or end with a space.
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ ]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)")
_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

# Headers that decide which server answers, or where a request ends.
_FORBIDDEN_HEADERS = frozenset(
    (
        *("connection", "content-length", "host", "keep-alive", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)


class HeaderInjection(NamedTuple):
    """One header. Requests to `host` and `port` get it. `value` has the names of variables in
    braces."""

    host: str
    port: int
    name: str
    value: str

    @property
    def target(self) -> str:
        """The host and the port, as `permissions.network` names them."""
        return format_target(parse_host(self.host), self.port)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables in its value."""
        return tuple(dict.fromkeys(_VARIABLE.findall(self.value)))

    def fill_in(self, variables: Mapping[str, str]) -> str:
        """Return the value of the header with the values of the variables."""
        return _VARIABLE.sub(lambda match: variables[match[1]], self.value)


_KEYS: Mapping[str, Key] = {
    "host": Key(
        TEXT,
        "The host whose requests get the header, with a port unless it is 80.",
        '"api.example.com"',
        required=True,
    ),
    "header": Key(
        TEXT,
        "The header, with the name of a variable of `env` in braces.",
        '"Authorization: Bearer {TOKEN}"',
        required=True,
    ),
}


def _read(value: Any, place: Place) -> tuple[HeaderInjection, ...] | None:
    """Read one table, or a list of tables."""
    if isinstance(value, Mapping):
        injection = _read_one(value, place)
        return None if injection is None else (injection,)
    if not isinstance(value, list | tuple):
        text = f"must be a table or a list of tables, not {describe_type(value)}"
        place.add_problem(WRONG_VALUE, text)
        return None
    items = [_read_one(item, place.at(index)) for index, item in enumerate(value)]
    return tuple(item for item in items if item is not None)


def _read_one(value: Any, place: Place) -> HeaderInjection | None:
    """Read one table. Return None if it has a problem, which is added to the place."""
    table = read_table(value, place, _KEYS)
    host_text, header = table.get("host"), table.get("header")
    for key in _KEYS:
        if isinstance(value, Mapping) and key not in value:
            place.add_problem(WRONG_VALUE, f"`{key}` is missing")
    if host_text is None or header is None:
        return None
    try:
        if "://" in host_text:
            raise BadHost("it is a URL: write the host alone, with a port unless it is 80")
        host, port_text = split_port(host_text)
        name = str(parse_host(host))
        port = parse_port(port_text) if port_text else _DEFAULT_PORT
    except BadHost as error:
        place.at("host").add_problem(WRONG_VALUE, str(error))
        return None
    match = _HEADER.fullmatch(header)
    if match is None:
        place.at("header").add_problem(
            WRONG_VALUE, "must be the name of a header, a colon and its value in ASCII"
        )
        return None
    injection = HeaderInjection(name, port, match[1], match[2])
    if match[1].lower() in _FORBIDDEN_HEADERS:
        place.at("header").add_problem(WRONG_VALUE, f"the proxy itself sets the header {match[1]}")
        return None
    if not injection.variables:
        place.at("header").add_problem(
            WRONG_VALUE, "must name a variable of `env` in braces", "for example {TOKEN}"
        )
        return None
    return injection


INJECTIONS = ValueType(_read, "table or list of tables", keys=_KEYS)
