"""A background service: a task that runs beside a host for as long as the host runs, such as the
web page of `exthost run --web`.

MCP is in `mcp_service.py`, the web page in `web_service.py`, the export of spans in
`otel_export.py`. A service that needs a socket or file descriptors opens them before the host
starts any extension, so that a port that is already in use is reported at once.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from exthost.host.control.requests import RequestPerformer
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host

if TYPE_CHECKING:
    from exthost.faces.gateway.server import McpServer
    from exthost.faces.http_server.probes import Probes
    from exthost.faces.web.server_requests import ServerRequests


class ServiceContext(NamedTuple):
    """The parts of the host process that a service may use.

    config_path  the path of the config file
    host         the host
    report       the state of the host and of each extension, for `exthost status` and the like
    requests     performs requests such as those of the control socket
    mcp_server   the MCP server; None unless a service of the process has `is_mcp`
    probes       the handlers of `/healthz` and `/metrics`; None unless a service has `is_http`
    """

    config_path: str
    host: Host
    report: StatusReport
    requests: RequestPerformer
    mcp_server: "McpServer | None" = None
    probes: "Probes | None" = None


class BackgroundService(NamedTuple):
    """One service.

    serve    runs the service until it is cancelled, or until its client disconnects
    is_mcp   whether it needs `ServiceContext.mcp_server`
    is_http  whether it needs `ServiceContext.probes`
    server_requests  answers the requests of MCP servers at the page; None if it is not the page
    """

    serve: Callable[[ServiceContext], Coroutine[Any, Any, None]]
    is_mcp: bool = False
    is_http: bool = False
    server_requests: "ServerRequests | None" = None
