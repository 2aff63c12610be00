"""The comparison of roder's handshake reply with the manifest, without a process."""

import pytest

from exthost.dialects.roder.manifest import parse
from exthost.dialects.roder.manifest_check import judge_echo
from exthost.errors import HandshakeFailed

MANIFEST = parse(
    b"""
id = "demo"
name = "Demo"
version = "1.0.0"
api_version = "^0.1"

[[provides]]
type = "event_sink"
id = "sink"
"""
)


def test_the_help_for_a_reply_that_is_no_object_is_a_sentence() -> None:
    with pytest.raises(HandshakeFailed) as caught:
        judge_echo(MANIFEST, [], "0.2.0")
    assert caught.value.code == "X0545"
    assert "extension/initialize with an object" in caught.value.help
