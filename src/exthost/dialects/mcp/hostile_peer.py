"""How the hostile extension (the one that breaks the protocol on purpose, in fault tests) speaks
mcp. It refuses `server/discover`, so that the host opens the session with `initialize`."""

from exthost.dialects.hostile_peer import HostilePeer, fixed_answers
from exthost.model.messages import Failure, Notification, Request

PEER = HostilePeer(
    dialect="mcp",
    answer_handshake=fixed_answers(
        {
            "server/discover": Failure(None, "never heard of it", -32601),
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "serverInfo": {"name": "hostile", "version": "6.6.6"},
            },
        }
    ),
    last_request="initialize",
    notification=Notification("notifications/resources/list_changed", {}),
    host_request=Request("host/ask", {"n": 1}, 1),
)
