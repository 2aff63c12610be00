"""A service of a host process: it runs as long as the host, and others reach the host through it.

MCP is in `mcp_service.py`, the page in `web_service.py`, the export of spans in `otel_export.py`. A
service has its socket or its descriptors before the host starts anything, so that a port that is in
use is an error at once.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from exthost.control.requests import Requests
from exthost.control.status_report import StatusReport
from exthost.host.host import Host

if TYPE_CHECKING:
    from exthost.gateway.server import McpServer
    from exthost.http_server.probes import Probes


class ServiceHost(NamedTuple):
    """What a service may use of the process. `mcp_server` is set if a service speaks MCP, `probes`
    if a service is on HTTP."""

    path: str
    host: Host
    report: StatusReport
    requests: Requests
    mcp_server: "McpServer | None" = None
    probes: "Probes | None" = None


class HostService(NamedTuple):
    """One service. `serve` runs until it is cancelled, or until its client leaves."""

    serve: Callable[[ServiceHost], Coroutine[Any, Any, None]]
    is_mcp: bool = False
    is_http: bool = False
