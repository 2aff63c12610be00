"""An MCP server written with the framework FastMCP, for `test_client_matrix.py`. It is run by the
Python in which FastMCP is installed.

It has a tool with an output schema, a tool that fails, a tool that returns an image, a resource and
a prompt.
"""

from fastmcp import FastMCP
from fastmcp.utilities.types import Image

server = FastMCP("fast", instructions="Add numbers.")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def fail() -> str:
    """Fail."""
    raise ValueError("it failed")


@server.tool
def picture() -> Image:
    """A picture of one pixel."""
    return Image(data=b"GIF89a", format="gif")


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "text"


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}"


server.run("stdio", show_banner=False)
