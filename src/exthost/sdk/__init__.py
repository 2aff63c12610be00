"""For authors of extensions: write handlers once, and speak any dialect.

    from exthost.sdk import Extension

    ext = Extension("text")

    @ext.tool
    def shout(text: str) -> str:
        '''Upper case.'''
        return text.upper()

    ext.run()  # python text.py --dialect mcp

The SDK uses the standard library only and imports nothing else of exthost, with two exceptions:
`exthost.sdk.testing` imports the host, and the cigen endpoint imports the generated protobuf
classes. In reading order:

- `extension`: the class `Extension` with its decorators and `run`
- `context`: what a handler can do besides returning a value: progress, log, calls to the host
- `answers`: what handlers of hooks, providers and generators take and return
- `registry`: the registered handlers, as data
- `types`: schemas from annotations, and checked conversion of arguments
- `connection`: runs one connection to a host
- `dialects`: the extension's side of each dialect
- `serving`: runs the calls of a connection, in a blocking loop or on an event loop
- `wire`: file descriptors, framing and writing
- `manifests`: writes the manifests of those dialects that have one
- `scaffold`: creates a new extension from a template
- `languages`: the templates for programs in other languages than Python
- `testing`: connects an extension to the real host in the author's tests
- `errors`: the exceptions
"""

from exthost.sdk.answers import (
    Block,
    Confirm,
    Fragment,
    HookEvent,
    Inject,
    Modify,
    Replace,
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
    "Replace",
    "Turn",
    "Model",
    "Thinking",
    "ToolUse",
    "Usage",
    "Fragment",
]

claim_at_import()
