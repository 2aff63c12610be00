"""The rows about extensions that are written with exthost.sdk: processor time of a call."""

from bench.measures.sdk import FASTMCP, HAND_WRITTEN, SDK, SDK_ASYNC, against
from bench.row import Direction, Row

SDK_ROWS: tuple[Row, ...] = (
    Row(
        key="sdk-echo",
        name="sdk echo / hand-written loop",
        measure=against(SDK, HAND_WRITTEN),
        must=1.1,
        stretch=1,
    ),
    Row(
        key="sdk-echo-in-flight",
        name="sdk echo / hand-written loop, 100 in flight",
        measure=against(SDK, HAND_WRITTEN, in_flight=True),
        must=1.1,
        stretch=1,
    ),
    Row(
        key="sdk-echo-async",
        name="sdk async echo / hand-written loop",
        measure=against(SDK_ASYNC, HAND_WRITTEN),
        must=3,
        stretch=2,
    ),
    Row(
        key="sdk-fastmcp",
        name="FastMCP's server / sdk echo",
        measure=against(SDK, FASTMCP, faster=True),
        direction=Direction.AT_LEAST,
        must=10,
        stretch=30,
    ),
    Row(
        key="sdk-fastmcp-in-flight",
        name="FastMCP's server / sdk echo, 100 in flight",
        measure=against(SDK, FASTMCP, in_flight=True, faster=True),
        direction=Direction.AT_LEAST,
        must=10,
        stretch=30,
    ),
    Row(
        key="sdk-fastmcp-async",
        name="FastMCP's server / sdk async echo",
        measure=against(SDK_ASYNC, FASTMCP, faster=True),
        direction=Direction.AT_LEAST,
        must=10,
    ),
)
