"""How the hostile extension (the one that breaks the protocol on purpose, in fault tests) speaks
roder.

Its handshake repeats the manifest. The command-line flag `manifest` is the path of the manifest.
"""

import tomllib
from pathlib import Path

from exthost.dialects.hostile_peer import Flags, HostilePeer
from exthost.model.messages import Failure, Notification, Reply, Request

_MANIFEST = """\
id = "hostile"
name = "hostile"
version = "6.6.6"
api_version = "^0.1"

[[provides]]
type = "tool_provider"
id = "hostile-tools"

[[provides.tools]]
name = "do"
description = "does what the arguments request"
parameters = { type = "object" }
"""


def _answer_handshake(request: Request, flags: Flags) -> Reply | Failure | None:
    if request.method == "extension/shutdown":
        return Reply(request.id, None)
    if request.method != "extension/initialize":
        return None
    data = Path(flags["manifest"]).read_bytes()
    manifest = tomllib.loads(data.decode())
    # The FNV-1a checksum of the manifest. It is computed here because this module must not import
    # `manifest`, which needs installed packages.
    checksum = 0xCBF29CE484222325
    for byte in data:
        checksum = (checksum ^ byte) * 0x100000001B3 % 2**64
    return Reply(
        request.id,
        {
            "protocolVersion": "0.2.0",
            "extensionId": manifest["id"],
            "services": manifest["provides"],
            "manifestChecksum": f"{checksum:016x}",
        },
    )


PEER = HostilePeer(
    dialect="roder",
    answer_handshake=_answer_handshake,
    last_request="extension/initialize",
    notification=Notification(
        "extension/event",
        {"extensionId": "hostile", "eventKind": "tick", "schemaVersion": 1, "payload": 1},
    ),
    host_request=Request("host/ask", {"n": 1}, 1),
    manifest=("roder-extension.toml", _MANIFEST),
)
