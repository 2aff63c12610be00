"""Tools for people who write extensions, dialects or hosts.

check    checks an extension against the rules of its dialect (`exthost check`)
replay   plays a recorded session again, in the role of the host or of the extension
mcp_bundle  the bundle and the registry entry of an MCP server (`exthost pack`)
testing  the hostile extension, test vectors and faulty pipes; public as `exthost.testing`

The SDK, with which an extension is written in Python, is a separate distribution: `exthost_sdk`, in
the folder `sdk` of the source. `exthost.sdk` is its other name.
"""
