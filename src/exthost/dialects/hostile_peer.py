"""What the fault tests need to know of a dialect: `HostilePeer`.

The hostile extension (`exthost.testing.hostile`) speaks every dialect by its own framing and codec,
and does what a request tells it to. Such a request carries a command, a JSON object such as
`{"do": "die", "code": 3}`. A HostilePeer says which method carries commands, how a command and the
value that answers it are wrapped in the params and the result of that method, and how the handshake
is answered. The host uses `wrap_command` and `unwrap_value`, the extension uses the others. The
extension runs without installed packages, so a row imports nothing but exthost's messages.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from exthost.messages import Failure, Notification, Reply, Request

Flags: TypeAlias = Mapping[str, str]


def unchanged(value: Any) -> Any:
    """Return the value as it is: most dialects need no wrapping."""
    return value


@dataclass(frozen=True, kw_only=True)
class HostilePeer:
    """One dialect's row of the fault tests.

    method            the method that carries the commands, one exchange long
    answer_handshake  returns the answer to a request of the handshake; None for any other request
    last_request      the request that ends the handshake
    notification      something that the dialect lets an extension notify; None: it has none
    host_request      something that it lets an extension ask of the host; None: it has none
    settings          settings of its entry in the host's config
    modules           modules outside the standard library that the dialect needs
    manifest          the file name and the text of the manifest that it needs
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
    """Return an `answer_handshake` whose answers are always the same, by method."""

    def answer(request: Request, flags: Flags) -> Reply | Failure | None:
        if request.method not in table:
            return None
        result = table[request.method]
        if isinstance(result, Failure):
            return result._replace(id=request.id)
        return Reply(request.id, result)

    return answer
