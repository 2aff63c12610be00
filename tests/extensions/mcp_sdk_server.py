"""An MCP server for tests, written with the official Python SDK, which supports both eras of MCP:
with a handshake, and stateless."""

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("sdk-demo", version="4.2")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def work(steps: int, ctx: Context) -> str:
    """Report progress after each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "done"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Add a tool, and notify the client."""
    server.add_tool(lambda: name, name=name, description="grown")
    await ctx.notify_tools_changed()
    return name


class Sure(BaseModel):
    """The answer that a person gives."""

    yes: bool


def ask_person() -> Elicit[Sure]:
    """Ask the person. In the stateless era the result of the call is a request for input."""
    return Elicit("sure?", Sure)


@server.tool()
async def confirm(sure: Annotated[Sure, Resolve(ask_person)]) -> str:
    """Ask a person."""
    return f"sure: {sure.yes}"


@server.resource("demo://greeting")
def greeting() -> str:
    """A greeting."""
    return "hello"


@server.prompt()
def ask(topic: str) -> str:
    """Ask about something."""
    return f"What is {topic}?"


if __name__ == "__main__":
    server.run("stdio")
