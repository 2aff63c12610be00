"""The table as data: what is measured, its target, and the function that measures it.

`call_rows.py` has the rows about small calls. A new row is one function in `measures/` and one
entry in one of these two files. A row for a peer that is not installed raises `NotHere`; a row
for a part of the host that does not exist yet raises `NotBuiltYet`.
"""

from bench.call_rows import CALL_TOOL_ROWS, EXT_CALL_ROWS, PEER_ROWS
from bench.cores import Pin
from bench.gateway_rows import GATEWAY_ROWS
from bench.measures import (
    bulk,
    calls,
    cigen,
    control_socket,
    discovery,
    floods,
    growth,
    locked_start,
    memory,
    neighbours,
    start,
    templates,
)
from bench.memory import MIB
from bench.node_rows import NODE_ROWS
from bench.row import Direction, Row
from bench.sdk_rows import SDK_ROWS

ROWS: tuple[Row, ...] = (
    # The machine without exthost.
    Row(
        key="limit-c-split",
        name="C ping-pong / raw Python, split",
        measure=calls.c_ping_pong(Pin.SPLIT),
    ),
    Row(
        key="limit-c-same",
        name="C ping-pong / raw Python, same core",
        measure=calls.c_ping_pong(Pin.SAME),
    ),
    Row(
        key="streams-split",
        name="asyncio streams + json / raw Python, split",
        measure=calls.one_call_streams(Pin.SPLIT),
    ),
    Row(
        key="streams-same",
        name="asyncio streams + json / raw Python, same core",
        measure=calls.one_call_streams(Pin.SAME),
    ),
    Row(
        key="streams-in-flight",
        name="asyncio streams + json, 100 in flight",
        measure=calls.many_in_flight_streams,
        unit="calls/s",
        direction=Direction.AT_LEAST,
    ),
    Row(
        key="pipe-16m",
        name="raw pipe, 16 MiB there and back",
        measure=bulk.bare_pipe(16 * MIB),
        unit="MB/s",
        direction=Direction.AT_LEAST,
    ),
    Row(
        key="floor-1m",
        name="1 MiB: raw pipe with msgspec alone / raw pipe",
        measure=bulk.codec_floor(1 * MIB),
    ),
    Row(
        key="floor-16m",
        name="16 MiB: raw pipe with msgspec alone / raw pipe",
        measure=bulk.codec_floor(16 * MIB),
    ),
    Row(
        key="bare-100-children",
        name="100 bare Popen + echo",
        measure=start.bare_children,
        unit="ms",
    ),
    # Small calls.
    *CALL_TOOL_ROWS,
    *EXT_CALL_ROWS,
    # Large messages.
    Row(
        key="echo-1m",
        name="1 MiB echo / raw pipe",
        measure=bulk.large_echo(1 * MIB),
        must=2.2,
        stretch=2,
    ),
    Row(
        key="echo-16m",
        name="16 MiB echo / raw pipe",
        measure=bulk.large_echo(16 * MIB),
        must=1.8,
        stretch=1.6,
    ),
    Row(
        key="line-128m-allowed",
        name="128 MB on one line, allowed",
        measure=bulk.long_line_allowed,
        unit="s",
        must=1,
    ),
    # Memory.
    Row(
        key="line-128m-refused",
        name="128 MB on one line, refused: memory over the cap",
        measure=memory.long_line_refused,
        unit="MiB",
        must=8,
    ),
    Row(
        key="peak-16m",
        name="peak memory of a 16 MiB echo / payload",
        measure=memory.peak_of_large_echo,
        must=4,
        stretch=3,
    ),
    Row(
        key="idle-memory",
        name="host memory per idle extension",
        measure=memory.idle_extension,
        unit="KiB",
        must=10,
        stretch=8,
    ),
    # Starts.
    Row(
        key="help",
        name="exthost --help / python -c pass",
        measure=start.help_text,
        must=2.5,
        stretch=2,
    ),
    Row(
        key="call-verb",
        name="exthost call in a running host / python -c pass",
        measure=start.call_in_running_host,
        must=2,
    ),
    Row(
        key="first-host-time",
        name="the first Host of a program: processor time",
        measure=start.first_host_time,
        unit="ms",
        must=120,
    ),
    Row(
        key="first-host-modules",
        name="the first Host of a program: modules",
        measure=start.first_host_modules,
        unit="",
        must=200,
    ),
    Row(
        key="start-100-plain",
        name="100 children answered / bare Popen, plain",
        measure=start.many_children("plain"),
        must=1.5,
        stretch=1.2,
    ),
    Row(
        key="start-100-tree",
        name="100 children answered / bare Popen, PID namespace",
        measure=start.many_children("tree"),
        must=2.2,
        stretch=1.8,
    ),
    # An order of magnitude below the figures of cigen itself: 50 ms, 100 ms, 1 ms.
    Row(
        key="cigen-spawn",
        name="cigen: spawning a C plugin",
        measure=cigen.starting("spawn"),
        unit="ms",
        must=5,
    ),
    Row(
        key="cigen-handshake",
        name="cigen: handshake with a C plugin",
        measure=cigen.starting("handshake"),
        unit="ms",
        must=10,
    ),
    Row(
        key="cigen-message",
        name="cigen: a message of plan and generate",
        measure=cigen.message,
        unit="ms",
        must=0.1,
    ),
    Row(
        key="start-sandboxed",
        name="sandboxed start of a Python extension / bare",
        measure=start.sandboxed,
        must=1.8,
        stretch=1.5,
    ),
    Row(
        key="start-locked",
        name="restart to first result of a Python server, locked / not",
        measure=locked_start.restarting("hand_written.py"),
        must=1.05,
        limit_s=300,
    ),
    Row(
        key="start-locked-fastmcp",
        name="restart to first result of a FastMCP server, locked / not",
        measure=locked_start.of_fastmcp(),
        must=1.05,
        limit_s=300,
    ),
    Row(
        key="template-fastmcp",
        name="restart to first result of a sandboxed FastMCP server, executed / from a template",
        measure=templates.first_result,
        direction=Direction.AT_LEAST,
        must=20,
        stretch=40,
        limit_s=300,
    ),
    Row(
        key="template-pool-16",
        name="restart of a pool of 16 FastMCP servers from a template / of one, executed",
        measure=templates.pool,
        must=1,
        limit_s=300,
    ),
    *(
        Row(
            key=f"neighbour-{behaviour.replace(' ', '-')}",
            name=f"p99 of a call beside: {behaviour} / idle",
            measure=neighbours.beside(behaviour),
            must=2,
        )
        for behaviour in neighbours.BEHAVIOURS
    ),
    *(
        Row(
            key=f"flood-{count}-{flood.replace(' ', '-')}",
            name=f"p99 of a call beside {count} x {flood} / idle",
            measure=floods.beside(flood, count),
            must=must,
            limit_s=180,
        )
        for flood in floods.FLOODS
        for count, must in ((1, 2), (floods.MANY, 5))
    ),
    *PEER_ROWS,
    # The SDK.
    *SDK_ROWS,
    *NODE_ROWS,
    *GATEWAY_ROWS,
    Row(
        key="socket",
        name="one call through the control socket / in process, asyncio",
        measure=control_socket.one_call(),
        must=3,
        stretch=2.5,
    ),
    # Growth.
    Row(
        key="growth-calls",
        name="a call after 100,000 / in a young session",
        measure=growth.old_session,
    ),
    Row(
        key="growth-extensions",
        name="a call with 200 extensions loaded / with 1",
        measure=growth.in_company,
    ),
    Row(
        key="growth-call_tool",
        name="host.call_tool with 200 extensions loaded / with 1",
        measure=growth.call_tool_in_company,
    ),
    Row(
        key="growth-discovery",
        name="finding one of 10,000 manifests / of 1,000",
        measure=discovery.many_manifests,
        limit_s=180,
    ),
)
