"""The gateway: every tool of every extension, whatever its dialect, as one MCP server.

`server` answers the protocol's questions from a host; `mcp_values` says our tools, results and
errors in its words; `stdio` and `http` are the two ways in. Protocol, sessions, HTTP and
authorization are the official `mcp` package's, an optional install: nothing outside this room
imports it.
"""
