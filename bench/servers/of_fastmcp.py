"""The same MCP server with FastMCP, as the official package has it."""

from mcp.server import MCPServer

server = MCPServer("fastmcp")


@server.tool()
def echo(text: str) -> str:
    """Echo."""
    return text


server.run("stdio")
