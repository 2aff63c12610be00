"""Who must go if too many are connected: strangers, silent ones first, of whom there are most."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.model.connection_limit import ConnectionLimit, peer_of

MOST, STRANGERS, PER_PEER = 12, 6, 4

# What happens: a new connection of a peer, or something about the n-th open connection.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.integers(0, 4)),
        st.tuples(st.sampled_from(["heard", "authenticate", "remove"]), st.integers(0, 20)),
    ),
    max_size=80,
)


@given(STEPS)
def test_the_limits_apply_and_no_authenticated_client_is_dropped(
    steps: list[tuple[str, int]],
) -> None:
    limit: ConnectionLimit[int] = ConnectionLimit(MOST, STRANGERS, PER_PEER)
    peers: dict[int, int] = {}  # of the strangers, oldest first
    authenticated: set[int] = set()
    speaking: set[int] = set()
    for number, (step, value) in enumerate(steps):
        everybody = [*peers, *sorted(authenticated)]
        if step == "admit":
            gone = limit.admit(number, value)
            peers[number] = value
            counts = Counter(peers.values())
            if gone is not None:
                assert gone in peers and gone not in authenticated
                rivals = [n for n, peer in peers.items() if peer == peers[gone] and n != number]
                assert gone == number or all(
                    rival >= gone for rival in rivals if ((rival in speaking) == (gone in speaking))
                )
                # A silent one goes before one that speaks.
                assert gone not in speaking or not set(rivals) - speaking
                # The new one goes only if there is no other stranger to go.
                assert gone != number or counts[value] == max(counts.values()) == 1
                del peers[gone]
            else:
                assert counts[value] <= PER_PEER and len(peers) <= STRANGERS
        elif value < len(everybody):
            chosen = everybody[value]
            getattr(limit, step)(chosen)
            if step == "heard" and chosen in peers:
                speaking.add(chosen)
            elif step == "authenticate" and chosen in peers:
                del peers[chosen]
                authenticated.add(chosen)
            elif step == "remove":
                peers.pop(chosen, None)
                authenticated.discard(chosen)
        assert len(limit) == len(peers) + len(authenticated) <= MOST
        assert limit.strangers == len(peers) <= STRANGERS
        assert max(Counter(peers.values()).values(), default=0) <= PER_PEER


@given(st.integers(0, 2000))
def test_silent_strangers_never_keep_out_one_that_shows_its_token(silent: int) -> None:
    limit: ConnectionLimit[str] = ConnectionLimit(MOST, STRANGERS, PER_PEER)
    for number in range(silent):
        limit.admit(f"silent {number}", "stranger")
    for number in range(MOST - STRANGERS):
        assert limit.admit(f"client {number}", "stranger") != f"client {number}"
        limit.authenticate(f"client {number}")
    assert limit.strangers <= STRANGERS


def test_a_peer_with_many_connections_loses_its_own() -> None:
    limit: ConnectionLimit[str] = ConnectionLimit(MOST, STRANGERS, PER_PEER)
    assert limit.admit("other", "other") is None
    gone = [limit.admit(f"{number}", "many") for number in range(50)]
    assert "other" not in gone and gone[PER_PEER] == "0"


def test_one_that_speaks_stays_longer_than_a_silent_one() -> None:
    limit: ConnectionLimit[str] = ConnectionLimit(MOST, STRANGERS, PER_PEER)
    limit.admit("speaks", "peer")
    limit.heard("speaks")
    gone = [limit.admit(f"{number}", "peer") for number in range(50)]
    assert "speaks" not in gone


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
    assert peer_of(address) == peer
