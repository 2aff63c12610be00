"""The rows about the gateway: calls through it, compared with direct calls of the same server."""

from bench.measures import gateway
from bench.measures.gateway import Era, Transport
from bench.row import Direction, Row

# The official client and server take milliseconds a call where other programs run.
LIMIT_S = 180.0
TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")
ERAS: tuple[tuple[Era, str], ...] = (("legacy", "handshake"), ("auto", "stateless"))

GATEWAY_ROWS: tuple[Row, ...] = (
    Row(
        key="gateway",
        name="one call through the gateway / directly, exthost's client, C server",
        measure=gateway.one_call,
    ),
    Row(
        key="gateway-lines",
        name="one call through the gateway / directly, bare client, C server",
        measure=gateway.lines(),
    ),
    Row(
        key="gateway-lines-in-flight",
        name="calls/s through the gateway / directly, bare client, C server, 100 in flight",
        measure=gateway.lines(in_flight=True),
        direction=Direction.AT_LEAST,
    ),
    Row(
        key="relay-lines",
        name="one call through a relay and a shared host / a gateway of its own, bare client",
        measure=gateway.relayed(),
        must=1.3,
    ),
    Row(
        key="relay-lines-in-flight",
        name="calls/s through a relay and a shared host / a gateway of its own, 100 in flight",
        measure=gateway.relayed(in_flight=True),
        direction=Direction.AT_LEAST,
    ),
    Row(
        key="relay-start",
        name="initialize answered by a relay, where a host runs / python -c pass",
        measure=gateway.relay_start,
        must=2,
    ),
    *(
        row
        for transport in TRANSPORTS
        for mode, era in ERAS
        for row in (
            Row(
                key=f"gateway-{transport}-{era}",
                name=f"one call through the gateway / directly, official, {transport}, {era}",
                measure=gateway.official(transport, era=mode),
                must=2,
                limit_s=LIMIT_S,
            ),
            Row(
                key=f"gateway-{transport}-{era}-in-flight",
                name=f"calls/s through the gateway / directly, official, {transport}, {era}, "
                "100 in flight",
                measure=gateway.official(transport, era=mode, in_flight=True),
                direction=Direction.AT_LEAST,
                must=0.8,
                limit_s=LIMIT_S,
            ),
        )
    ),
)
