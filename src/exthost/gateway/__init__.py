"""The gateway: one host as one MCP server, with everything that its extensions offer.

Sessions are those of the official `mcp` package, an optional install: nothing outside this package
imports it. Tool calls, which are nearly all of the traffic, go past its session layer. In reading
order:

    server           the gateway: its parts, and the way of a request
    requests         what is answered to each method
    relay            one request on its way to the extension that serves it
    exchanges        the requests under way, and what servers ask their clients meanwhile
    held_calls       calls that wait for input of a stateless client
    tool_list        the tools that clients see, and when
    catalog          resources, templates and prompts of MCP servers
    resource_subscriptions  the clients that subscribed to changes of resources
    clients          connected clients of the handshake era
    announcer        notifications: changed lists, updated resources, log messages
    outbox           notifications that go before a result
    meta             what a request says about its client
    mcp_values       tools, results and errors in the words of MCP
    stdio, http      the two transports
    call_messages    the messages of a tool call, by the host's own codec
    call_session     what a tool call has in the place of the package's session
    stdio_calls      tool calls on stdio, from line to line
    line_writer      the lines to the client on stdio
    http_calls       tool calls on HTTP, from the body of a request to the response
    client_requests  what servers ask a client of HTTP meanwhile
    call_response    that response: a JSON body, or a stream of events
"""
