"""Offers the tools of a host to agent frameworks, by means of each framework's own interface for
tools.

Each module needs the framework, which the extra of the same name installs, such as
`exthost[langchain]`. Importing `exthost` imports none of them.

    pydantic_ai    a toolset of Pydantic AI
    langchain      tools of LangChain and LangGraph
    openai_agents  tools, and an MCP server, of the OpenAI Agents SDK
    smolagents     tools of smolagents
    fastmcp        a provider of FastMCP
    host_tools     what they share: the tools of a host, and their calls
"""
