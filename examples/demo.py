"""What `make demo` shows: calls, a call that does not fit, a crash and its recovery."""

import asyncio
from pathlib import Path

import exthost
from exthost.events import StateChanged

CONFIG = Path(__file__).parent / "exthost.toml"


async def main() -> None:
    host = exthost.Host.from_config(CONFIG)
    host.events.subscribe(
        StateChanged, lambda e: print(f"    {e.extension}: {e.before} -> {e.after}")
    )

    print("starting the extensions of", CONFIG.name)
    async with host:
        print("\nwhat can be called:")
        for name, tool in host.tools.items():
            print(f"    {name:24} {tool.description}")

        print("\ncalls:")
        print("    shout  ", await host.call_tool("ext_text_shout", {"text": "hello"}))
        print("    divide ", await host.call_tool("ext_fragile_divide", {"a": 1, "b": 4}))

        print("\na call that does not fit is never sent:")
        try:
            await host.call_tool("ext_text_shout", {"txet": "hello"})
        except exthost.errors.UsageError as error:
            print("    " + str(error).replace("\n", "\n    "))

        print("\na crash is told with its evidence:")
        try:
            await host.call_tool("ext_fragile_divide", {"a": 1, "b": 0})
        except exthost.errors.ExtensionGone as error:
            print("    " + str(error).replace("\n", "\n    "))

        print("\nthe next call waits for the new process:")
        print("    divide ", await host.call_tool("ext_fragile_divide", {"a": 6, "b": 3}))
        print("    health ", {ext.id: str(ext.health) for ext in host.extensions})
        print("\nending")


asyncio.run(main())
