"""What every HTTP service of a host shares: where it listens, who may ask, and the numbers.

listener  sockets, and the names under which a browser may ask for us
token     where the bearer token comes from, and which are valid now
access    checks of Host, Origin and token around an application
server    uvicorn with limits, which leaves signals to the command line
metrics   counts of calls, and the text of `/metrics`
trace_context  the W3C Trace Context of a request, which goes on to the extension
probes    `/healthz` and `/metrics`, beside the page and beside the MCP gateway
"""
