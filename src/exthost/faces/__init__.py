"""The ways to a host from outside Python: command line, MCP gateway and web page.

cli          the command `exthost`, a module for each verb
bridge       a remote MCP server as a program on stdin and stdout
gateway      all tools of a host as one MCP server, on stdio or HTTP
relay        `exthost gateway` on stdio, which relays a client to the host that runs
web          the page of a host
http_server  what gateway and page share: sockets, the token, access checks, probes, metrics
"""
