"""The author's side of exthost: write handlers, and speak any dialect.

    from exthost.sdk import Extension

    ext = Extension("text")

    @ext.tool
    def shout(text: str) -> str:
        '''Upper case.'''
        return text.upper()

    ext.run()  # python text.py --dialect mcp

Standard library only, and independent of the host: nothing else of exthost is imported, save by
`exthost.sdk.testing`, and cigen's messages when that dialect is spoken. In reading order:

- `extension`: the object with the decorators, and `run`
- `context`: what a handler can do beside returning a value
- `answers`: what handlers of hooks, providers and generators take and return
- `registry`: what was registered, as data
- `types`: schemas and arguments from annotations
- `connection`: one connection, from its first byte to its last
- `dialects`: the registry in the words of each dialect
- `serving`: running calls, in a plain loop or on an event loop
- `wire`: the descriptors, frames and writing
- `manifests`: the manifests of dialects that want one
- `scaffold`: a new extension, from a template; `languages`: in other languages than Python
- `testing`: an extension against the real host, in the author's own tests
- `errors`: what is raised
"""

from exthost.sdk.answers import (
    Block,
    Confirm,
    Fragment,
    HookEvent,
    Inject,
    Modify,
    Thinking,
    ToolUse,
    Turn,
    Usage,
)
from exthost.sdk.context import Context
from exthost.sdk.errors import (
    Cancelled,
    HostError,
    InvalidArguments,
    ToolError,
    UnsupportedType,
    UsageError,
)
from exthost.sdk.extension import Extension, claim_at_import
from exthost.sdk.registry import Model
from exthost.sdk.types.constraints import Param

__all__ = [
    "Extension",
    "Context",
    "Param",
    "ToolError",
    "InvalidArguments",
    "HostError",
    "Cancelled",
    "UnsupportedType",
    "UsageError",
    "HookEvent",
    "Block",
    "Modify",
    "Confirm",
    "Inject",
    "Turn",
    "Model",
    "Thinking",
    "ToolUse",
    "Usage",
    "Fragment",
]

claim_at_import()
