"""The rows about processes on nodes that are simulated on this machine."""

from functools import partial

from bench.measures import nodes
from bench.row import Direction, Row

NODE_ROWS: tuple[Row, ...] = (
    Row(
        key="remote-call",
        name="one call to a node / to a local process",
        measure=nodes.one_call,
        must=2.2,
    ),
    Row(
        key="remote-tls-call",
        name="one encrypted call to a node / to a local process",
        measure=partial(nodes.one_call, is_encrypted=True),
        must=2.8,
    ),
    Row(
        key="remote-in-flight",
        name="100 in flight on a node, of a local process",
        measure=nodes.many_in_flight,
        direction=Direction.AT_LEAST,
        must=0.7,
    ),
    Row(
        key="remote-tls-in-flight",
        name="100 encrypted in flight on a node, of a local process",
        measure=partial(nodes.many_in_flight, is_encrypted=True),
        direction=Direction.AT_LEAST,
        must=0.6,
    ),
    Row(
        key="remote-echo-16m",
        name="16 MiB there and back on a node / a local process",
        measure=nodes.large_echo,
        must=1.3,
    ),
    Row(
        key="remote-tls-echo-16m",
        name="16 MiB there and back, encrypted / a local process",
        measure=partial(nodes.large_echo, is_encrypted=True),
    ),
    *(
        Row(
            key=f"remote-{size}",
            name=f"a pool of {size} on nodes, of one process there",
            measure=nodes.pool(size),
            direction=Direction.AT_LEAST,
            must=0.9,
            limit_s=180.0,
        )
        for size in (16, 64)
    ),
    # An agent is a Python that starts; the cluster has to be reached, too.
    Row(
        key="remote-start",
        name="start, call and end on a node / of a local process",
        measure=nodes.start,
    ),
    # The cluster is open, and the extension ran on the node a moment ago.
    Row(
        key="remote-warm-start",
        name="restart and call on a node / of a local process",
        measure=nodes.warm_start,
        must=2.0,
    ),
    Row(
        key="remote-warm-start-added",
        name="restart and call on a node, beyond that of a local process",
        measure=nodes.warm_start_added,
        unit="ms",
        must=60,
    ),
    Row(
        key="remote-node-memory",
        name="memory of a node with 16 processes, without the programs / 40 MB + 3 MB each",
        measure=nodes.node_memory,
        must=1,
    ),
)
