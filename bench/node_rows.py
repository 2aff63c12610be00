"""The rows about processes on nodes that are simulated on this machine."""

from bench.measures import nodes
from bench.row import Direction, Row

NODE_ROWS: tuple[Row, ...] = (
    Row(
        key="remote-call",
        name="one call to a node / to a local process",
        measure=nodes.one_call,
        must=2.5,
    ),
    Row(
        key="remote-in-flight",
        name="100 in flight on a node, of a local process",
        measure=nodes.many_in_flight,
        direction=Direction.AT_LEAST,
        must=0.75,
    ),
    Row(
        key="remote-echo-16m",
        name="16 MiB there and back on a node / a local process",
        measure=nodes.large_echo,
        must=1.5,
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
    # A node process is a Python that starts; the cluster has to be reached, too.
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
)
