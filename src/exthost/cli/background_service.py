"""A background service: a task that runs beside a host for as long as the host runs.

MCP is in `mcp_service.py`, the web page in `web_service.py`, the export of spans in
`otel_export.py`. A service that needs a socket or file descriptors opens them before the host
starts any extension, so that a port that is already in use is reported at once.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from exthost.control.requests import RequestPerformer
from exthost.control.status_report import StatusReport
from exthost.host.host import Host

if TYPE_CHECKING:
    from exthost.gateway.server import McpServer
    from exthost.http_server.probes import Probes


class ServiceContext(NamedTuple):
    """The parts of the host process that a service may use.

    `config_path` is the path of the config file. `mcp_server` is set if any service of the process
    has `is_mcp`, and `probes` (the handlers of `/healthz` and `/metrics`) if any has `is_http`.
    """

    config_path: str
    host: Host
    report: StatusReport
    requests: RequestPerformer
    mcp_server: "McpServer | None" = None
    probes: "Probes | None" = None


class BackgroundService(NamedTuple):
    """One service. `serve` runs until it is cancelled, or until its client disconnects."""

    serve: Callable[[ServiceContext], Coroutine[Any, Any, None]]
    is_mcp: bool = False
    is_http: bool = False
