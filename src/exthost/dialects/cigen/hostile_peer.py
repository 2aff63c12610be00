"""How the hostile extension (the one that breaks the protocol on purpose, in fault tests) speaks
cigen.

A test sends it commands, such as `{"do": "die"}`. A command is sent as a path in a DetectRequest,
and its value is returned as a fact in the DetectResult, because cigen has no message that carries
arbitrary JSON.
"""

import json

from exthost.dialects.hostile_peer import HostilePeer, fixed_answers

PEER = HostilePeer(
    dialect="cigen",
    method="detect",
    answer_handshake=fixed_answers(
        {"hello": {"name": "hostile", "protocol": 1, "capabilities": ["detect:everything"]}}
    ),
    last_request="hello",
    wrap_command=lambda command: {"repo": {"root_path": json.dumps(command)}},
    unwrap_command=lambda params: json.loads(params["repo"]["root_path"]),
    wrap_value=lambda value: {"facts": {"value": json.dumps(value)}},
    unwrap_value=lambda result: json.loads(result["facts"].get("value", "null")),
    # The messages are protobuf, and exthost_sdk contains their Python classes.
    modules=("google.protobuf", "exthost_sdk"),
)
