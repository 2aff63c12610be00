"""What every HTTP service of a host shares: sockets, access checks, limits and metrics.

In reading order:

    listener       sockets, and the names that the Host header may have
    token          where the bearer token comes from, and which tokens are valid now
    access         checks of Host, Origin and token for an application
    server         uvicorn with limits, and without its signal handlers
    metrics        counts of calls, and the text of `/metrics`
    trace_context  the W3C Trace Context of a request, which is passed on to the extension
    probes         `/healthz` and `/metrics`, for the page and for the MCP gateway
"""
