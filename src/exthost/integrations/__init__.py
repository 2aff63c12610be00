"""The tools of a host for agent frameworks, on each framework's own extension point.

Each module needs the framework, which the extra of the same name installs. Importing `exthost`
imports none of them.

    pydantic_ai    a toolset of Pydantic AI
    langchain      tools of LangChain and LangGraph
    openai_agents  tools, and an MCP server, of the OpenAI Agents SDK
    smolagents     tools of smolagents
    fastmcp        a provider of FastMCP
    host_tools     what they share: the tools of a host, and their calls
"""
