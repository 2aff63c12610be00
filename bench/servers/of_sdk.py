"""The same MCP server with exthost.sdk."""

from exthost.sdk import Extension

ext = Extension("sdk")


@ext.tool
def echo(text: str) -> str:
    """Echo."""
    return text


@ext.tool
async def echo_async(text: str) -> str:
    """Echo, so that an event loop is needed."""
    return text


if __name__ == "__main__":
    import sys

    if "--plain" in sys.argv:
        del ext.registry.tools["echo_async"]
    ext.run("mcp", argv=[])
