"""The gateway: one host as one MCP server, with everything that its extensions offer.

Transports and sessions are those of the official `mcp` package, an optional install: nothing
outside this package imports it. In reading order:

    server         the gateway: its parts, and the way of a request
    requests       what is answered to each method
    relay          one request on its way to the extension that serves it
    exchanges      the requests under way, and what servers ask their clients meanwhile
    held_calls     calls that wait for input of a stateless client
    tool_list      the tools that clients see, and when
    catalog        resources, templates and prompts of MCP servers
    subscriptions  who wants to hear of changes of which resource
    clients        connected clients of the handshake era
    announcer      notifications: changed lists, updated resources, log messages
    outbox         notifications that go before a result
    meta           what a request says about its client
    mcp_values     tools, results and errors in the words of MCP
    stdio, http    the two transports
"""
