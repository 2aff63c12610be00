"""An MCP client of the framework FastMCP, for `test_client_matrix.py`:

    fastmcp_client.py '[command]' '[calls]'     both arguments in JSON

It is run by the Python in which FastMCP is installed. It starts the server with this command, and
prints as JSON the lists of tools, resources and prompts, and the result or error of each call.
"""

import asyncio
import json
import os
import sys
import time

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

# How long to wait until the server lists all tools that are called: a gateway lists the tools of
# its servers as they become ready.
LIST_SECONDS = 60


async def main(command: list[str], calls: list[tuple[str, dict[str, object]]]) -> None:
    transport = StdioTransport(command[0], command[1:], env=dict(os.environ), keep_alive=False)
    async with Client(transport) as client:
        deadline = time.monotonic() + LIST_SECONDS
        while True:
            tools = await client.list_tools()
            tool_names = {tool.name for tool in tools}
            if all(name in tool_names for name, _ in calls) or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
        results: list[object] = []
        for name, arguments in calls:
            try:
                result = await client.call_tool_mcp(name, arguments)
                value = result.model_dump(mode="json")
                # `meta` depends on the era of the session, which the gateway can change.
                value.pop("meta", None)
                results.append(value)
            except Exception as error:
                results.append(f"{type(error).__name__}: {error}")
        report = {
            "tools": [tool.model_dump(mode="json") for tool in tools],
            "results": results,
            "resources": [item.model_dump(mode="json") for item in await client.list_resources()],
            "prompts": [item.model_dump(mode="json") for item in await client.list_prompts()],
        }
    print(json.dumps(report))


asyncio.run(main(*map(json.loads, sys.argv[1:])))
