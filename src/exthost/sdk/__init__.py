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
classes. The code is in `exthost.authoring.sdk`.
"""

from exthost.authoring.sdk.answers import (
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
from exthost.authoring.sdk.content import Audio, EmbeddedResource, Image, ResourceLink
from exthost.authoring.sdk.context import Context
from exthost.authoring.sdk.errors import (
    CallCancelled,
    HostError,
    InvalidArguments,
    SdkUsageError,
    ToolError,
    UnsupportedType,
)
from exthost.authoring.sdk.extension import Extension, claim_at_import
from exthost.authoring.sdk.registry import Model
from exthost.authoring.sdk.types.constraints import Param

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
