"""Serves the web page of a running host, which `exthost run --web` shows in a browser.

It connects the parts of the page, and runs until its task is cancelled.
"""

import asyncio
import socket

from exthost.faces.http_server.access import Access
from exthost.faces.http_server.probes import Probes
from exthost.faces.http_server.server import serve_app
from exthost.faces.http_server.token import Tokens
from exthost.faces.web.application import build_application
from exthost.faces.web.endpoints import Endpoints
from exthost.faces.web.login import Login
from exthost.faces.web.page_questions import PageQuestions
from exthost.faces.web.server_requests import ServerRequests
from exthost.host.control.requests import RequestPerformer
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host


async def serve(
    host: Host,
    report: StatusReport,
    requests: RequestPerformer,
    probes: Probes,
    *,
    config: str,
    listener: socket.socket,
    address: str,
    tokens: Tokens,
    server_requests: ServerRequests,
    questions: PageQuestions,
) -> None:
    """Serve the page of this host, with `/healthz` and `/metrics`, until the task is cancelled.

    `requests` performs what a person requests on the page. `config` is the path of the config.
    `address` is the host name or address that the listener is bound to. `probes` adds `/healthz`
    and `/metrics`. `server_requests` answers the requests of MCP servers, and shows them with
    `questions`.
    """
    access = Access(address, tokens)
    endpoints = Endpoints(host, report, requests, config, questions, server_requests)
    port = listener.getsockname()[1]
    login = Login(access, tokens, port)
    app = probes.wrap(build_application(endpoints, access, login), access)
    serve_task = asyncio.get_running_loop().create_task(serve_app(app, listener, access))
    try:
        # Shielded: the endpoints are closed before the server is cancelled, so that open event
        # streams end and the server does not wait for them.
        await asyncio.shield(serve_task)
    finally:
        endpoints.close()
        serve_task.cancel()
        await asyncio.wait([serve_task])
        # The sampler measures the extensions. It is closed last, because event streams of open
        # pages use it until the server has ended.
        await endpoints.sampler.close()
