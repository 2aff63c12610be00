"""The same MCP server with FastMCP, as the official package has it: on stdio, or with `--http` on
HTTP, after a line with its address."""

import asyncio
import json
import socket
import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("fastmcp")


@server.tool()
def echo(text: str) -> str:
    """Echo."""
    return text


async def serve_http() -> None:
    """Serve on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}), flush=True)
        app = server.streamable_http_app()
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        await uvicorn.Server(config).serve(sockets=[listener])


if "--http" in sys.argv:
    asyncio.run(serve_http())
else:
    server.run("stdio")
