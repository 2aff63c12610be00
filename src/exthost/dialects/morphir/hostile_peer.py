"""How the hostile extension of the fault tests speaks morphir."""

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
