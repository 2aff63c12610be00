"""An MCP server on HTTP: `remote_server.py http|sse [--token TOKEN]`. It prints its port.

The tool `die` ends the process in the middle of an answer.
"""

import argparse
import os
import socket
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.types import ASGIApp, Receive, Scope, Send

server = MCPServer("remote")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def work(steps: int, ctx: Context) -> str:
    """Report progress, then be done."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "done"


@server.tool()
async def headers(ctx: Context) -> str:
    """Return a header of the request."""
    return str(ctx.headers.get("x-team")) if ctx.headers is not None else "none"


@server.tool()
async def die(ctx: Context) -> str:
    """End the process."""
    await ctx.report_progress(1, 2)
    os._exit(3)


def with_token(app: ASGIApp, token: str) -> ASGIApp:
    """Return an application that answers 401 without the token."""

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        credentials = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or credentials == f"Bearer {token}".encode():
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return check


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=("http", "sse"))
    parser.add_argument("--token")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    app: Any = server.streamable_http_app() if args.transport == "http" else server.sse_app()
    if args.token:
        app = with_token(app, args.token)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", args.port))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
