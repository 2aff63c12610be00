"""A client of FastMCP, run by the Python that has it: `fastmcp_client.py '[command]' '[calls]'`.

Prints what it sees as JSON: the lists, and for each call its result or its error.
"""

import asyncio
import json
import os
import sys
import time

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

LIST_SECONDS = 60


async def main(command: list[str], calls: list[tuple[str, dict[str, object]]]) -> None:
    transport = StdioTransport(command[0], command[1:], env=dict(os.environ), keep_alive=False)
    async with Client(transport) as client:
        until = time.monotonic() + LIST_SECONDS
        while True:
            tools = await client.list_tools()
            known = {tool.name for tool in tools}
            if all(name in known for name, _ in calls) or time.monotonic() > until:
                break
            await asyncio.sleep(0.1)
        results: list[object] = []
        for name, arguments in calls:
            try:
                result = await client.call_tool_mcp(name, arguments)
                shown = result.model_dump(mode="json")
                # What only the era of the session decides, which may be another one.
                shown.pop("meta", None)
                results.append(shown)
            except Exception as error:
                results.append(f"{type(error).__name__}: {error}")
        observed = {
            "tools": [tool.model_dump(mode="json") for tool in tools],
            "results": results,
            "resources": [item.model_dump(mode="json") for item in await client.list_resources()],
            "prompts": [item.model_dump(mode="json") for item in await client.list_prompts()],
        }
    print(json.dumps(observed))


asyncio.run(main(*map(json.loads, sys.argv[1:])))
