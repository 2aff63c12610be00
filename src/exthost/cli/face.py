"""A face of a host: one way in which others reach it, served as long as the host runs.

The MCP faces are in `mcp_face.py`, the page is in `web_face.py`. A face has its socket or its
descriptors before the host starts anything, so that a taken port is told at once.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from exthost.control.report import Report
from exthost.control.requests import Requests
from exthost.host.host import Host

if TYPE_CHECKING:
    from exthost.gateway.server import McpServer
    from exthost.http_server.probes import Probes


class FacedHost(NamedTuple):
    """What a face may use of the process. `mcp_server` is there if a face wants MCP, `probes` if
    one is on HTTP."""

    path: str
    host: Host
    report: Report
    requests: Requests
    mcp_server: "McpServer | None" = None
    probes: "Probes | None" = None


class Face(NamedTuple):
    """One face. `serve` runs until it is cancelled, or until its client leaves."""

    serve: Callable[[FacedHost], Coroutine[Any, Any, None]]
    is_mcp: bool = False
    is_http: bool = False
