"""The parts that several dialects share. An endpoint translates between the messages of one dialect
and the handlers that the author registered (`exthost_sdk.registry`). In reading order:

- `endpoint`: the base class of all endpoints
- `sdk_dialect`: the description of a dialect, with its endpoint class
- `jsonrpc`: the base class of the endpoints that speak JSON-RPC 2.0
- `providers`: encodes what providers (handlers that run a model) yield, for synaps and roder
- `mcp_content`: encodes the results of MCP tools and resources
- `mcp_exchange`: parses the `_meta` field of an MCP request
- `nexo_second`: names and manifest in nexo's second contract
- `toml_text`: writes TOML, for manifests
"""
