"""A server with the package `fastmcp`, as its users write one."""

from fastmcp import FastMCP

server = FastMCP("fastmcp")


@server.tool
def echo(text: str) -> str:
    """Echo."""
    return text


server.run(show_banner=False)
