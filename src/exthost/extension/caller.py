"""Which client of the gateway makes the tool calls of the current task.

The gateway offers all tools of a host as one MCP server, to clients such as editors. A rule of the
config may name a client. The gateway sets the name for the task of a call. It is the name that the
client declares. It is not verified.
"""

from contextvars import ContextVar

CLIENT: ContextVar[str | None] = ContextVar("CLIENT", default=None)
"""The name of the client; None if the caller is not a client of the gateway."""
