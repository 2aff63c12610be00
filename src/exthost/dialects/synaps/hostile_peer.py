"""How the hostile extension (the one that breaks the protocol on purpose, in fault tests) speaks
synaps."""

from exthost.dialects.hostile_peer import HostilePeer, fixed_answers
from exthost.model.messages import Notification, Request

PEER = HostilePeer(
    dialect="synaps",
    answer_handshake=fixed_answers(
        {"initialize": {"protocol_version": 1, "capabilities": []}, "shutdown": None}
    ),
    last_request="initialize",
    notification=Notification("progress", {"n": 1}),
    host_request=Request("host/ask", {"n": 1}, 1),
    # Without this, a command that ends the process would be sent again and end the next one, too.
    settings={"retry": "never"},
)
