"""The row of synaps in the fault tests."""

from types import MappingProxyType

from exthost.dialects.hostile_peer import HostilePeer, fixed_answers
from exthost.messages import Notification, Request

PEER = HostilePeer(
    dialect="synaps",
    answer_handshake=fixed_answers(
        {"initialize": {"protocol_version": 1, "capabilities": []}, "shutdown": None}
    ),
    last_request="initialize",
    notification=Notification("progress", {"n": 1}),
    host_request=Request("host/ask", {"n": 1}, 1),
    settings=MappingProxyType(
        {"retry": "never"}
    ),  # a request that kills the peer would kill it twice
)
