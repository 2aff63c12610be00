"""A program that runs an agent of a framework, such as LangChain, with the tools of a host.

    python framework_agent.py FRAMEWORK HOST     HOST is Host, SyncHost or attach

FRAMEWORK is the name of one of the functions below. The tests run the program in an environment in
which the framework is installed, and with a fake model (`tests/fake_model.py`), which calls the
tools that the question names. The program prints one line of JSON: the names of selected tools,
the answers of two runs of the agent, and how the call of a third run, which is cancelled, was
counted.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import exthost

# Questions to the fake model. The second tool never returns.
ADD = 'call ext_painter_add {"a": 1, "b": 2}'
HANG = "call ext_painter_hang {}"


# Each of these functions runs an agent of a framework with one question, and returns its answer.
# Only the framework of this environment can be imported.


async def pydantic_ai(host: Any, question: str, **settings: Any) -> Any:
    from pydantic_ai import Agent

    from exthost.integrations.pydantic_ai import ExthostToolset

    agent = Agent("openai-chat:gpt-5-mini", toolsets=[ExthostToolset(host, **settings)])
    return (await agent.run(question)).output


async def langchain(host: Any, question: str, **settings: Any) -> Any:
    from langchain.agents import create_agent

    from exthost.integrations.langchain import tools

    agent = create_agent("openai:gpt-5-mini", tools(host, **settings))
    state = await agent.ainvoke({"messages": [{"role": "user", "content": question}]})
    return state["messages"][-1].content


async def openai_agents(host: Any, question: str, **settings: Any) -> Any:
    from agents import Agent, Runner

    from exthost.integrations.openai_agents import ExthostMCPServer

    server = ExthostMCPServer(host, **settings)
    result = await Runner.run(Agent(name="a", model="gpt-5-mini", mcp_servers=[server]), question)
    return result.final_output


async def openai_agents_tools(host: Any, question: str, **settings: Any) -> Any:
    from agents import Agent, Runner

    from exthost.integrations.openai_agents import tools

    agent = Agent(name="a", model="gpt-5-mini", tools=[*tools(host, **settings)])
    return (await Runner.run(agent, question)).final_output


async def fastmcp(host: Any, question: str, **settings: Any) -> Any:
    from fastmcp import Client, FastMCP

    from exthost.integrations.fastmcp import ExthostProvider

    server = FastMCP("server", providers=[ExthostProvider(host, **settings)])
    _, name, arguments = question.split(" ", 2)
    async with Client(server) as client:
        result = await client.call_tool(name, json.loads(arguments), raise_on_error=False)
        return f"{result.content} {result.structured_content}"


def selected_names(host: Any) -> list[str]:
    """Return the names of the tools that a framework gets from a selection of tools."""
    from exthost.integrations.host_tools import HostTools

    return [tool.name for tool in HostTools(host.tools.select("painter:a*")).listed()]


async def main(framework: str, kind: str) -> None:
    run = globals()[framework]
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        # The host that the framework gets, and the one that owns the processes. They differ if the
        # first is attached to the second.
        host: Any
        owner: Any
        if kind == "SyncHost":
            host = owner = stack.enter_context(exthost.SyncHost.from_config("exthost.toml"))
        else:
            opened = exthost.Host.from_config("exthost.toml", control=kind == "attach")
            host = owner = await stack.enter_async_context(opened)
        if kind == "attach":
            host = await stack.enter_async_context(exthost.attach("exthost.toml"))
        report: dict[str, Any] = {"selected": selected_names(host)}
        reports: list[Any] = []
        report["sum"] = str(await run(host, ADD, on_progress=reports.append))
        report["progress"] = len(reports)
        report["late"] = str(await run(host, HANG, timeout=0.2))
        started = asyncio.Event()
        owner.events.subscribe(
            exthost.events.CallStarted, lambda _: loop.call_soon_threadsafe(started.set)
        )
        task = asyncio.create_task(run(host, HANG))
        await asyncio.wait_for(started.wait(), 120)
        task.cancel()
        await asyncio.wait([task], timeout=60)
        # The host of another thread or connection cancels the call a moment later.
        for _ in range(600):
            stats = owner["painter"].stats
            if stats.cancelled:
                break
            await asyncio.sleep(0.05)
        report["is_cancelled"] = task.cancelled()
        report["cancelled"], report["in_flight"] = stats.cancelled, stats.in_flight
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
