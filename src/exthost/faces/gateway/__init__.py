"""The gateway: publishes the extensions of one host as one MCP server.

MCP has two eras. In the handshake era (revisions before 2026) a client opens a session with
`initialize`. In the stateless era there is no session: each request carries the revision, the
capabilities and the name of its client. The gateway serves clients of both eras, and MCP servers of
both eras can be among its extensions.

The official `mcp` package ("the package" in these modules) is an optional install; only the gateway
imports it. It manages the sessions and handles most methods. Tool calls, which are nearly all of
the traffic, bypass its session layer, because that layer costs more than the call. In reading
order:

    server           the gateway: its parts, and the path of a request
    request_handlers the handler of each MCP method
    request_relay    relays one request to the extension that answers it
    exchanges        the requests in progress, and the requests that servers send to clients
    tasks            calls that a server runs in the background
    held_calls       calls that wait for the input of a stateless client
    search_mode      the two tools of a gateway whose clients search for tools
    confirmations    asks the client of a call whether the call may be made
    whole_results    results that were too long for a model
    tool_list        the tools that clients see, and when they see them
    catalog          resources, resource templates and prompts of MCP servers
    resource_subscriptions  the clients that subscribed to changes of resources
    capabilities     what a client can do, as it is declared to servers
    client_processes processes of servers that cannot be shared, for one client each
    clients          connected clients of the handshake era
    announcer        notifications: changed lists, updated resources, log messages
    outbox           a queue of notifications to one client
    meta             the `_meta` field of requests, translated between the eras
    mcp_values       tools, results and errors of the host as MCP values
    client_stream    the two directions of a connection that is not on HTTP
    stdio, http      the two transports
    relay_connection the socket of a relay, by which a client joins a host that runs
    first_replies    replies of an earlier host, sent before the package is imported
    call_messages    decodes and encodes the messages of a tool call
    call_session     the context and session of a tool call that bypasses the package
    stdio_calls      tool calls on stdio
    line_writer      writes lines to the client on stdio
    http_calls       tool calls on HTTP
    call_response    the HTTP response to a tool call: a JSON body, or an event stream
"""
