"""For authors of extensions: write handlers once, and speak any dialect.

    from exthost_sdk import Extension

    ext = Extension("text")

    @ext.tool
    def shout(text: str) -> str:
        '''Upper case.'''
        return text.upper()

    ext.run()  # python text.py --dialect mcp

The SDK uses the standard library only, and the package protobuf for the dialect cigen. Its module
`exthost_sdk.testing` needs exthost, the host. Where exthost is installed, `exthost.sdk` is another
name of this package.

In reading order:

- `extension`: the class `Extension` with its decorators and `run`
- `context`: what a handler can do besides returning a value: progress, log, calls to the host
- `answers`: what handlers of hooks, providers and generators take and return
- `content`: results that are not text
- `registry`: the registered handlers, as data
- `types`: schemas from annotations, and checked conversion of arguments
- `connection`: runs one connection to a host
- `first_message`: detects which dialect a host speaks, from its first bytes
- `dialects`: the extension's side of each dialect, one module each; `endpoints`: what they share
- `serving`: runs the calls of a connection, in a blocking loop or on an event loop
- `wire`: file descriptors, framing and writing
- `proto`: the messages of the dialect cigen
- `scaffold`: creates a new extension from a template
- `languages`: the templates for programs in other languages than Python
- `testing`: connects an extension to the real host in the author's tests
- `errors`: the exceptions
"""

from exthost_sdk.answers import (
    Assignment,
    Block,
    Close,
    Commit,
    Confirm,
    EditorEvent,
    Elicitation,
    Fragment,
    HookEvent,
    Inject,
    Modify,
    PromptMessage,
    Render,
    Replace,
    Sample,
    SinkEvent,
    Thinking,
    ToolUse,
    Turn,
    Usage,
)
from exthost_sdk.content import Audio, EmbeddedResource, Image, ResourceLink
from exthost_sdk.context import Context
from exthost_sdk.errors import (
    CallCancelled,
    HostError,
    InvalidArguments,
    SdkUsageError,
    ToolError,
    UnsupportedType,
)
from exthost_sdk.extension import Extension, claim_at_import
from exthost_sdk.registry import Model
from exthost_sdk.types.constraints import Param

__all__ = [
    "Extension",
    "Context",
    "Param",
    "Image",
    "Audio",
    "ResourceLink",
    "EmbeddedResource",
    "PromptMessage",
    "Elicitation",
    "Sample",
    "ToolError",
    "InvalidArguments",
    "HostError",
    "CallCancelled",
    "UnsupportedType",
    "SdkUsageError",
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
    "Assignment",
    "SinkEvent",
    "EditorEvent",
    "Render",
    "Commit",
    "Close",
]

claim_at_import()
