"""How the hostile extension is spoken to in each dialect: a row each, and nothing else per dialect.

A request that steers it carries *words*, a JSON object such as `{"do": "die", "code": 3}`. A row
says under which method the words travel, how they are wrapped into that method's params and got
out again, the same for the answer, and how the handshake is answered. Framing and codec are the
dialect's own, in the role of the guest. Shared by both ends: `worded` and `value` are the host's,
`words`, `answered` and `shake` the extension's.

To add a dialect is to add a row here.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from exthost.messages import Failure, Notification, Reply, Request

Flags: TypeAlias = Mapping[str, str]


def as_it_is(value: Any) -> Any:
    """In most dialects words and values travel as they are."""
    return value


@dataclass(frozen=True, kw_only=True)
class Guest:
    """One dialect's row.

    method    the method that carries the words, one exchange long
    shake     the answer to a question of the handshake; None: it is no such question
    last      the question that ends the handshake
    notice    something the dialect lets an extension tell; None: it has no notices
    question  something it lets an extension ask the host; None: it cannot ask
    settings  of its entry in the host's config
    needs     modules outside the standard library that the dialect cannot do without
    manifest  the text of the manifest it must have, and the file's name
    """

    dialect: str
    method: str = "do"
    shake: Callable[[Request, Flags], Reply | Failure | None]
    last: str
    worded: Callable[[Any], Any] = as_it_is
    words: Callable[[Any], Any] = as_it_is
    answered: Callable[[Any], Any] = as_it_is
    value: Callable[[Any], Any] = as_it_is
    notice: Notification | None = None
    question: Request | None = None
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    needs: tuple[str, ...] = ()
    manifest: tuple[str, str] | None = None


def _answers(table: Mapping[str, Any]) -> Callable[[Request, Flags], Reply | Failure | None]:
    """A handshake whose answers are always the same."""

    def shake(request: Request, flags: Flags) -> Reply | Failure | None:
        if request.method not in table:
            return None
        answer = table[request.method]
        if isinstance(answer, Failure):
            return answer._replace(id=request.id)
        return Reply(request.id, answer)

    return shake


MORPHIR = Guest(
    dialect="morphir",
    shake=_answers(
        {
            "initialize": None,
            "capabilities": [{"name": "do", "description": "whatever it is told"}],
        }
    ),
    last="capabilities",
    notice=Notification("progress", {"n": 1}),
)

NEXO = Guest(
    dialect="nexo",
    shake=_answers({"initialize": {"server_version": "6.6.6", "tools": ["do"]}}),
    last="initialize",
    notice=Notification("progress", {"n": 1}),
    question=Request("host/ask", {"n": 1}, 1),
)


SYNAPS = Guest(
    dialect="synaps",
    shake=_answers({"initialize": {"protocol_version": 1, "capabilities": []}, "shutdown": None}),
    last="initialize",
    notice=Notification("progress", {"n": 1}),
    question=Request("host/ask", {"n": 1}, 1),
    settings=MappingProxyType({"retry": "never"}),  # what dies of a request would die of it twice
)

MCP = Guest(
    dialect="mcp",
    shake=_answers(
        {
            "server/discover": Failure(None, "never heard of it", -32601),
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "serverInfo": {"name": "hostile", "version": "6.6.6"},
            },
        }
    ),
    last="initialize",
    notice=Notification("notifications/resources/list_changed", {}),
    question=Request("host/ask", {"n": 1}, 1),
)


# -- cigen: the words are a path, the answer is a fact -----------------------------------------

CIGEN = Guest(
    dialect="cigen",
    method="detect",
    shake=_answers(
        {"hello": {"name": "hostile", "protocol": 1, "capabilities": ["detect:everything"]}}
    ),
    last="hello",
    worded=lambda words: {"repo": {"root_path": json.dumps(words)}},
    words=lambda params: json.loads(params["repo"]["root_path"]),
    answered=lambda value: {"facts": {"value": json.dumps(value)}},
    value=lambda result: json.loads(result["facts"].get("value", "null")),
    needs=("google.protobuf",),
)


# -- roder: an echo of the manifest ------------------------------------------------------------

_RODER_MANIFEST = """\
id = "hostile"
name = "hostile"
version = "6.6.6"
api_version = "^0.1"

[[provides]]
type = "tool_provider"
id = "hostile-tools"

[[provides.tools]]
name = "do"
description = "whatever it is told"
parameters = { type = "object" }
"""


def _echo(request: Request, flags: Flags) -> Reply | Failure | None:
    if request.method == "extension/shutdown":
        return Reply(request.id, None)
    if request.method != "extension/initialize":
        return None
    import tomllib

    data = Path(flags["manifest"]).read_bytes()
    told = tomllib.loads(data.decode())
    checksum = 0xCBF29CE484222325
    for byte in data:
        checksum = (checksum ^ byte) * 0x100000001B3 % 2**64
    return Reply(
        request.id,
        {
            "protocolVersion": "0.2.0",
            "extensionId": told["id"],
            "services": told["provides"],
            "manifestChecksum": f"{checksum:016x}",
        },
    )


RODER = Guest(
    dialect="roder",
    shake=_echo,
    last="extension/initialize",
    notice=Notification(
        "extension/event",
        {"extensionId": "hostile", "eventKind": "tick", "schemaVersion": 1, "payload": 1},
    ),
    question=Request("host/ask", {"n": 1}, 1),
    manifest=("roder-extension.toml", _RODER_MANIFEST),
)

GUESTS: Mapping[str, Guest] = MappingProxyType(
    {guest.dialect: guest for guest in (MORPHIR, NEXO, CIGEN, SYNAPS, RODER, MCP)}
)
