"""How the hostile extension (the one that breaks the protocol on purpose, in fault tests) speaks
nexo."""

from exthost.dialects.hostile_peer import HostilePeer, fixed_answers
from exthost.model.messages import Notification, Request

PEER = HostilePeer(
    dialect="nexo",
    answer_handshake=fixed_answers({"initialize": {"server_version": "6.6.6", "tools": ["do"]}}),
    last_request="initialize",
    notification=Notification("progress", {"n": 1}),
    host_request=Request("host/ask", {"n": 1}, 1),
)
