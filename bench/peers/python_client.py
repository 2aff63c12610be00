"""A client in Python: `python_client.py [--uvloop] mcp|fastmcp CALLS TEXT SERVER…` makes CALLS
calls, a hundred in flight, or starts another client, for each line on stdin; until stdin ends.

`mcp` is the client session of the official Python SDK, `fastmcp` the client of FastMCP. It imports
nothing else of the bench, because FastMCP is in an environment of its own.
"""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

IN_FLIGHT = 100

Call = Callable[[], Awaitable[None]]
Connect = Callable[[], AbstractAsyncContextManager[Call]]


def _check(content: list[Any], text: str) -> None:
    if content[0].text != text:
        raise ValueError("not the echo")


@asynccontextmanager
async def connect_mcp(text: str, program: str, *args: str) -> AsyncIterator[Call]:
    """Start a server, list its tools, and return a call of `echo`."""
    mcp = importlib.import_module("mcp")
    about = mcp.StdioServerParameters(command=program, args=list(args))
    async with mcp.stdio_client(about) as pipes, mcp.ClientSession(*pipes) as session:
        await session.initialize()
        await session.list_tools()

        async def call() -> None:
            _check((await session.call_tool("echo", {"text": text})).content, text)

        yield call


@asynccontextmanager
async def connect_fastmcp(text: str, program: str, *args: str) -> AsyncIterator[Call]:
    """Start a server, list its tools, and return a call of `echo`."""
    fastmcp = importlib.import_module("fastmcp")
    transports = importlib.import_module("fastmcp.client.transports")
    # By default the server outlives its client.
    transport = transports.StdioTransport(program, list(args), keep_alive=False)
    async with fastmcp.Client(transport) as client:
        await client.list_tools()

        async def call() -> None:
            _check((await client.call_tool("echo", {"text": text})).content, text)

        yield call


CLIENTS = {"mcp": connect_mcp, "fastmcp": connect_fastmcp}


async def take_turns(connect: Connect, calls: int) -> None:
    """Answer `go` with a block of calls, and then `done`. Answer `start` with `started` when
    another client has its first result, and with `closed` when that has ended."""
    async with connect() as call:

        async def call_in_turn() -> None:
            for _ in range(calls // IN_FLIGHT):
                await call()

        await call()
        print("ready", flush=True)
        for line in sys.stdin:
            if line == "start\n":
                async with connect() as another:
                    await another()
                    print("started", flush=True)
                print("closed", flush=True)
            else:
                await asyncio.gather(*(call_in_turn() for _ in range(IN_FLIGHT)))
                print("done", flush=True)


def main(words: list[str]) -> None:
    """Take turns until stdin ends."""
    factory = None
    if words[0] == "--uvloop":
        factory = importlib.import_module("uvloop").new_event_loop
        del words[0]
    name, calls, text, *server = words
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(take_turns(lambda: CLIENTS[name](text, *server), int(calls)))


if __name__ == "__main__":
    main(sys.argv[1:])
