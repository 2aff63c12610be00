"""The rows about small calls: `host.call_tool`, which users call and which is judged against the
least that a client does; `ext.call`, and the clients of other projects on the same server, which
are reported.
"""

from bench.cores import Pin
from bench.measures import calls, events, peers, tools
from bench.row import Direction, Row

# A row with a hundred in flight takes some seconds on an idle machine, and more on a busy one.
LIMIT_S = 240.0
LOOPS = {"asyncio": False, "uvloop": True}


def _one_call() -> tuple[Row, ...]:
    against_raw = tuple(
        Row(
            key=f"call_tool-{loop}-{pin.value}",
            name=f"host.call_tool, one call, {loop} / raw Python, {pin.value}",
            measure=tools.one_call(pin, uvloop=uvloop),
        )
        for loop, uvloop in LOOPS.items()
        for pin in (Pin.SPLIT, Pin.SAME)
    )
    against_lean = tuple(
        Row(
            key=f"call_tool-{loop}-lean",
            name=f"host.call_tool, one call, {loop} / the least a client does, split",
            measure=tools.against_lean(Pin.SPLIT, uvloop=uvloop),
            must=1.3,
        )
        for loop, uvloop in LOOPS.items()
    )
    return (*against_raw, *against_lean)


def _bounds() -> tuple[Row, ...]:
    """Return the rows of a client that does the least: bounds for those of `host.call_tool`."""
    one_call = tuple(
        Row(
            key=f"lean-{loop}-{pin.value}",
            name=f"the least a client does, one call, {loop} / raw Python, {pin.value}",
            measure=calls.lean_call(pin, uvloop=uvloop),
        )
        for loop, uvloop in LOOPS.items()
        for pin in (Pin.SPLIT, Pin.SAME)
    )
    in_flight = tuple(
        Row(
            key=f"lean-{loop}-100",
            name=f"the least a client does, 100 in flight, {loop} / streams + json",
            measure=calls.lean_in_flight(uvloop=uvloop),
            direction=Direction.AT_LEAST,
        )
        for loop, uvloop in LOOPS.items()
    )
    return (*one_call, *in_flight)


def _in_flight(loop: str) -> tuple[Row, ...]:
    """Return a row of calls per second with a hundred in flight, as a ratio in the same run."""
    uvloop = LOOPS[loop]
    measures = (
        ("streams", "streams + json", tools.against_streams(uvloop=uvloop), None, None),
        ("lean", "the least a client does", tools.in_flight_against_lean(uvloop=uvloop), 0.5, None),
        ("ext", "ext.call", tools.against_ext_call(uvloop=uvloop), 0.9, 0.95),
        # A subscriber costs 15 % at most, 8 % at best.
        ("observed", "without subscriber", tools.observed(calls=True, uvloop=uvloop), 0.85, 0.92),
        ("other-events", "unobserved", tools.observed(calls=False, uvloop=uvloop), 0.97, None),
        # A trace that has ended must not slow down calls.
        ("traced-before", "never traced", tools.traced_before(uvloop=uvloop), 0.97, None),
        ("pool-4", "one process", tools.pool(4, uvloop=uvloop), None, None),
        ("pool-16", "one process", tools.pool(16, uvloop=uvloop), 0.9, None),
        ("pool-64", "one process", tools.pool(64, uvloop=uvloop), None, None),
    )
    subjects = {
        "observed": ", subscriber to calls",
        "other-events": ", subscriber to other events",
        "traced-before": ", trace ended",
        **{f"pool-{size}": f", pool of {size}" for size in (4, 16, 64)},
    }
    return tuple(
        Row(
            key=f"call_tool-{loop}-100-{short}",
            name=f"host.call_tool, 100 in flight, {loop}{subjects.get(short, '')} / {baseline}",
            measure=measure,
            direction=Direction.AT_LEAST,
            must=must,
            stretch=stretch,
            limit_s=LIMIT_S,
        )
        for short, baseline, measure, must, stretch in measures
    )


CALL_TOOL_ROWS: tuple[Row, ...] = (
    *_bounds(),
    *_one_call(),
    Row(
        key="call_tool-blocking-split",
        name="SyncHost.call_tool, one call / raw Python, split",
        measure=tools.blocking_call(Pin.SPLIT),
    ),
    *_in_flight("asyncio"),
    *_in_flight("uvloop"),
    Row(
        key="call_tool-mcp-asyncio-split",
        name="host.call_tool, mcp, one call, asyncio / raw Python, split",
        measure=tools.one_call(Pin.SPLIT, dialect="mcp"),
    ),
    Row(
        key="call_tool-mcp-uvloop-split",
        name="host.call_tool, mcp, one call, uvloop / raw Python, split",
        measure=tools.one_call(Pin.SPLIT, dialect="mcp", uvloop=True),
    ),
    Row(
        key="call_tool-mcp-asyncio-100-ext",
        name="host.call_tool, mcp, 100 in flight, asyncio / ext.call",
        measure=tools.against_ext_call(dialect="mcp"),
        direction=Direction.AT_LEAST,
        must=0.9,
        stretch=0.95,
        limit_s=LIMIT_S,
    ),
    Row(
        key="call_tool-nexo-asyncio-100-ext",
        name="host.call_tool, nexo, 100 in flight, asyncio / ext.call",
        measure=tools.against_ext_call(dialect="nexo"),
        direction=Direction.AT_LEAST,
        must=0.9,
        stretch=0.95,
        limit_s=LIMIT_S,
    ),
    Row(
        key="call_tool-one-hook",
        name="host.call_tool, one call, one hook extension / without its hooks",
        measure=tools.hooked_calls(),
    ),
    Row(
        key="call_tool-100-one-hook",
        name="host.call_tool, 100 in flight, one hook extension / without its hooks",
        measure=tools.hooked_calls(many=True),
        limit_s=LIMIT_S,
    ),
)

EXT_CALL_ROWS: tuple[Row, ...] = (
    Row(
        key="call-asyncio-split",
        name="ext.call, one call, asyncio / raw Python, split",
        measure=calls.one_call(Pin.SPLIT),
    ),
    Row(
        key="call-asyncio-same",
        name="ext.call, one call, asyncio / raw Python, same",
        measure=calls.one_call(Pin.SAME),
    ),
    Row(
        key="call-uvloop-split",
        name="ext.call, one call, uvloop / raw Python, split",
        measure=calls.one_call(Pin.SPLIT, uvloop=True),
    ),
    Row(
        key="call-uvloop-same",
        name="ext.call, one call, uvloop / raw Python, same",
        measure=calls.one_call(Pin.SAME, uvloop=True),
    ),
    Row(
        key="call-blocking-split",
        name="SyncExtension.call, one call / raw Python, split",
        measure=calls.blocking_call(Pin.SPLIT),
    ),
    Row(
        key="in-flight-asyncio",
        name="ext.call, 100 in flight, asyncio / streams + json",
        measure=calls.many_in_flight(),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="in-flight-uvloop",
        name="ext.call, 100 in flight, uvloop / streams + json on uvloop",
        measure=calls.many_in_flight(uvloop=True),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="events-unread",
        name="event bus without a subscriber, of a call",
        measure=events.unread_events,
        unit="%",
        must=5,
        stretch=2,
        limit_s=LIMIT_S,
    ),
)

PYTHON_SDK = peers.python_sdk()
NODE_SDK = peers.node("mcp_sdk.cjs", "@modelcontextprotocol/sdk")
RUST_SDK = peers.compiled("Rust SDK", "rmcp_peer")
GO_SDK = peers.compiled("Go SDK", "go_sdk")
MCP_GO = peers.compiled("mcp-go", "mcp_go")

# Other clients on the same C server: tools/call, 100 in flight.
PEER_ROWS: tuple[Row, ...] = (
    Row(
        key="peer-mcp-python",
        name="host.call_tool, mcp, 100 in flight, asyncio / MCP Python SDK client",
        measure=peers.calls(PYTHON_SDK),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="peer-mcp-python-uvloop",
        name="host.call_tool, mcp, 100 in flight, uvloop / MCP Python SDK client",
        measure=peers.calls(peers.python_sdk(uvloop=True), uvloop=True),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="peer-mcp-python-ext",
        name="ext.call_tool, mcp, 100 in flight, asyncio / MCP Python SDK client",
        measure=peers.calls(PYTHON_SDK, through="ext.call_tool"),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="peer-fastmcp",
        name="host.call_tool, mcp, 100 in flight / FastMCP client",
        measure=peers.calls(peers.FASTMCP),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="peer-mcp-node",
        name="host.call_tool, mcp, 100 in flight / Node MCP SDK",
        measure=peers.calls(NODE_SDK),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="peer-mcp-rust",
        name="host.call_tool, mcp, 100 in flight / Rust SDK (rmcp)",
        measure=peers.calls(RUST_SDK),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="peer-mcp-go",
        name="host.call_tool, mcp, 100 in flight / Go SDK",
        measure=peers.calls(GO_SDK),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="peer-mcp-mark3labs-go",
        name="host.call_tool, mcp, 100 in flight / mcp-go",
        measure=peers.calls(MCP_GO),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    Row(
        key="peer-vscode-jsonrpc",
        name="host.call_tool, mcp, 100 in flight / Node vscode-jsonrpc",
        measure=peers.calls(peers.node("vscode_jsonrpc.cjs", "vscode-jsonrpc", "--mcp-headers")),
        direction=Direction.AT_LEAST,
        limit_s=LIMIT_S,
    ),
    # Starts of that server by other clients.
    *(
        Row(
            key=f"peer-start-{key}",
            name=f"start to first result, mcp: a new Host / {name}",
            measure=peers.starts(peer),
            direction=Direction.AT_LEAST,
            limit_s=LIMIT_S,
        )
        for key, name, peer in (
            ("python", "MCP Python SDK client", PYTHON_SDK),
            ("fastmcp", "FastMCP client", peers.FASTMCP),
            ("node", "Node MCP SDK", NODE_SDK),
            ("rust", "Rust SDK (rmcp)", RUST_SDK),
            ("go", "Go SDK", GO_SDK),
            ("mark3labs-go", "mcp-go", MCP_GO),
        )
    ),
)
