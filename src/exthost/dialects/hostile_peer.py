"""How the hostile extension of the fault tests speaks a dialect: `HostilePeer`.

The hostile extension (`authoring.testing.hostile`) uses the framing and codec of any dialect, and
executes commands. A command is a JSON object such as `{"do": "die", "code": 3}`. A HostilePeer
names the method whose requests carry commands, and defines how the extension replies to the
handshake, and how a command and its value are wrapped in the params and the result of that method.
The test, in the role of the host, calls `wrap_command` and `unwrap_value`; the extension uses the
other fields. The extension runs without installed packages, so a module with a HostilePeer imports
only the standard library, `exthost.model.messages` and this module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from exthost.model.messages import Failure, Notification, Reply, Request

Flags: TypeAlias = Mapping[str, str]


def unchanged(value: Any) -> Any:
    """Return the value unchanged, for dialects that carry any JSON value."""
    return value


@dataclass(frozen=True, kw_only=True)
class HostilePeer:
    """How the hostile extension speaks one dialect.

    dialect           the name of the dialect
    method            the method that carries commands; one request and one reply
    answer_handshake  returns the reply to a request of the handshake, given the request and the
                      command-line flags; None for a request that is not part of the handshake
    last_request      the method of the last request of the handshake
    wrap_command, unwrap_command  convert a command to the params of `method`, and back
    wrap_value, unwrap_value      convert the value of a command to a result, and back
    notification      a notification that an extension may send; None if the dialect has none
    host_request      a request that an extension may send to the host; None if the dialect has none
    settings          settings for the extension's entry in the host's config
    modules           modules outside the standard library that the dialect imports
    manifest          the file name and the text of the extension's manifest; None without one
    """

    dialect: str
    method: str = "do"
    answer_handshake: Callable[[Request, Flags], Reply | Failure | None]
    last_request: str
    wrap_command: Callable[[Any], Any] = unchanged
    unwrap_command: Callable[[Any], Any] = unchanged
    wrap_value: Callable[[Any], Any] = unchanged
    unwrap_value: Callable[[Any], Any] = unchanged
    notification: Notification | None = None
    host_request: Request | None = None
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    modules: tuple[str, ...] = ()
    manifest: tuple[str, str] | None = None


def fixed_answers(table: Mapping[str, Any]) -> Callable[[Request, Flags], Reply | Failure | None]:
    """Return an `answer_handshake` function with a fixed result, or Failure, for each method."""

    def answer(request: Request, flags: Flags) -> Reply | Failure | None:
        if request.method not in table:
            return None
        result = table[request.method]
        if isinstance(result, Failure):
            return result._replace(id=request.id)
        return Reply(request.id, result)

    return answer
