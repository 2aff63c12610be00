"""The comparison of the handshake reply of a roder extension with its manifest.

roder is a dialect, a protocol that extensions speak. The reply must name the services that the
manifest names. Errors do not quote values of the reply, since they may be secret.
"""

import pytest

from exthost.dialects.roder.handshake_check import check_reply, find_difference
from exthost.dialects.roder.manifest import parse
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


def test_the_help_for_a_reply_that_is_not_an_object_is_a_sentence() -> None:
    with pytest.raises(HandshakeFailed) as caught:
        check_reply(MANIFEST, [], "0.2.0")
    assert caught.value.code == "X0545"
    assert "extension/initialize with an object" in caught.value.help


@pytest.mark.parametrize(
    ("services", "place"),
    [
        ("none", "services (text for a list)"),
        ([{"type": "event_sink"}], "services[0].id (missing)"),
        ([{"type": "event_sink", "id": "SECRET"}], "services[0].id"),
    ],
)
def test_an_error_about_services_names_the_place_without_the_value(
    services: object, place: str
) -> None:
    reply = {"protocolVersion": "0.2.0", "extensionId": "demo", "services": services}
    with pytest.raises(HandshakeFailed) as caught:
        check_reply(MANIFEST, reply, "0.2.0")
    assert caught.value.code == "X0543" and caught.value.message.endswith(f"at {place}")


def test_unexpected_members_are_a_difference() -> None:
    assert find_difference({"a": 1, "b": 2}, {"a": 1}) == "value (unexpected members)"
