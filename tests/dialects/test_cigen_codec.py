"""Replies of a cigen plugin whose type does not fit the request.

cigen is a protocol with protobuf messages. A reply does not say to which request it belongs, so the
codec decodes it with the type that fits the last request.
"""

import pytest

from exthost.dialects.cigen.codec import CigenHostCodec
from exthost.errors import ProtocolViolation
from exthost.model.messages import Reply

# Field 1 as a number. Both results have messages there, so protobuf treats it as an unknown field.
MISFIT = b"\x08\x01"


def test_only_the_reply_to_a_plan_request_is_compared_with_the_schema() -> None:
    codec = CigenHostCodec()
    codec.request("plan", {}, 1)
    with pytest.raises(ProtocolViolation) as caught:
        codec.decode(MISFIT)
    assert caught.value.code == "X0622"
    codec.request("generate", {}, 2)
    assert isinstance(codec.decode(MISFIT), Reply)
