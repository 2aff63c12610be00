"""How the hostile extension (the one that breaks the protocol on purpose, in fault tests) speaks
morphir. The dialect has no requests to the host, so there is no `host_request`."""

from exthost.dialects.hostile_peer import HostilePeer, fixed_answers
from exthost.model.messages import Notification

PEER = HostilePeer(
    dialect="morphir",
    answer_handshake=fixed_answers(
        {
            "initialize": None,
            "capabilities": [{"name": "do", "description": "does what the arguments request"}],
        }
    ),
    last_request="capabilities",
    notification=Notification("progress", {"n": 1}),
)
