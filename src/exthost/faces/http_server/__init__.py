"""The code that the HTTP services of a host share: sockets, access checks, limits and metrics.

The services are the web page (`web`) and the MCP gateway (`gateway`).

In reading order:

    listener       creates sockets; the names that the Host header may have
    token          finds or creates the bearer token; checks whether a token is valid
    access         checks the Host and Origin headers and the token of a request
    metrics        counts calls, and produces the text of `/metrics`
    trace_context  reads the W3C Trace Context of a request, to pass it on to the extension
    asgi           reads requests and sends responses, in the form of the ASGI interface
    probes         answers `/healthz` and `/metrics`
    server         runs uvicorn with limits, and without its signal handlers
"""
