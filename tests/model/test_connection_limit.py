"""ConnectionLimit chooses which connection is closed when too many are open.

It is for servers such as the gateway, where anyone may connect, but only clients that send a token
are served. It closes only strangers, which are connections that have sent no token yet: of the peer
(the address) with the most connections, and first those that have sent nothing.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.model.connection_limit import ConnectionLimit, peer_of

# Small numbers, so that a few steps reach each limit.
MAX_CONNECTIONS, MAX_STRANGERS, MAX_PER_PEER = 12, 6, 4

# Calls of methods. The integer of "admit" is the peer; for the others it is the position of a
# connection in the list of open connections.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.integers(0, 4)),
        st.tuples(st.sampled_from(["mark_active", "authenticate", "remove"]), st.integers(0, 20)),
    ),
    max_size=80,
)


@given(STEPS)
def test_the_limits_apply_and_no_authenticated_client_is_dropped(
    steps: list[tuple[str, int]],
) -> None:
    limit: ConnectionLimit[int] = ConnectionLimit(MAX_CONNECTIONS, MAX_STRANGERS, MAX_PER_PEER)
    peers: dict[int, int] = {}  # the peer of each stranger, oldest connection first
    authenticated: set[int] = set()
    active: set[int] = set()
    for number, (step, value) in enumerate(steps):
        open_connections = [*peers, *sorted(authenticated)]
        if step == "admit":
            closed = limit.admit(number, value)
            peers[number] = value
            counts = Counter(peers.values())
            if closed is not None:
                assert closed in peers and closed not in authenticated
                # Connections are numbered in the order in which they were opened.
                others = [n for n, peer in peers.items() if peer == peers[closed] and n != number]
                # Of the silent or of the active connections of a peer, the oldest is closed.
                was_active = closed in active
                alike = [other for other in others if (other in active) == was_active]
                assert closed == number or closed <= min(alike)
                # A silent connection is closed before one that has sent something.
                if was_active:
                    assert all(other in active for other in others)
                # The new connection is closed only if there is no other stranger.
                assert closed != number or counts[value] == max(counts.values()) == 1
                del peers[closed]
            else:
                assert counts[value] <= MAX_PER_PEER and len(peers) <= MAX_STRANGERS
        elif value < len(open_connections):
            connection = open_connections[value]
            getattr(limit, step)(connection)
            if step == "mark_active" and connection in peers:
                active.add(connection)
            elif step == "authenticate" and connection in peers:
                del peers[connection]
                authenticated.add(connection)
            elif step == "remove":
                peers.pop(connection, None)
                authenticated.discard(connection)
        assert len(limit) == len(peers) + len(authenticated) <= MAX_CONNECTIONS
        assert limit.strangers == len(peers) <= MAX_STRANGERS
        assert max(Counter(peers.values()).values(), default=0) <= MAX_PER_PEER


@given(st.integers(0, 2000))
def test_silent_strangers_never_keep_out_clients_with_a_token(silent: int) -> None:
    limit: ConnectionLimit[str] = ConnectionLimit(MAX_CONNECTIONS, MAX_STRANGERS, MAX_PER_PEER)
    for number in range(silent):
        limit.admit(f"silent {number}", "stranger")
    for number in range(MAX_CONNECTIONS - MAX_STRANGERS):
        assert limit.admit(f"client {number}", "stranger") != f"client {number}"
        limit.authenticate(f"client {number}")
    assert limit.strangers <= MAX_STRANGERS


def test_many_connections_of_a_peer_close_none_of_another_peer() -> None:
    limit: ConnectionLimit[str] = ConnectionLimit(MAX_CONNECTIONS, MAX_STRANGERS, MAX_PER_PEER)
    assert limit.admit("other", "other") is None
    closed = [limit.admit(f"{number}", "many") for number in range(50)]
    assert "other" not in closed and closed[MAX_PER_PEER] == "0"


def test_an_active_connection_outlasts_silent_connections() -> None:
    limit: ConnectionLimit[str] = ConnectionLimit(MAX_CONNECTIONS, MAX_STRANGERS, MAX_PER_PEER)
    limit.admit("active", "peer")
    limit.mark_active("active")
    closed = [limit.admit(f"{number}", "peer") for number in range(50)]
    assert "active" not in closed


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("192.0.2.1", 80), "192.0.2.1"),
        (("::ffff:192.0.2.1", 80, 0, 0), "192.0.2.1"),
        (("2001:db8:1:2:3::4", 80, 0, 0), "2001:db8:1:2::"),
        (("fe80::1%eth0", 80, 0, 2), "fe80::"),
        ("", ""),
        (None, ""),
    ],
)
def test_a_peer_is_an_address_or_an_ipv6_network(address: object, peer: str) -> None:
    """One user often has all addresses of an IPv6 network of 64 bits."""
    assert peer_of(address) == peer
