"""Results of a tool that are not text: images, audio, and resources.

    @ext.tool
    def draw() -> Image:
        return Image(png_bytes, "image/png")

A handler returns one of them, or a list of them and of text. In MCP each becomes a content block.
In other dialects, and inside another value, each becomes a text that describes it.
"""

import base64
from typing import Any


class Content:
    """A part of a result that is not text."""

    __slots__ = ()

    def as_block(self) -> dict[str, Any]:
        """Return the content block of MCP."""
        raise NotImplementedError

    def as_text(self) -> str:
        """Return the text that is used where a content block is not possible."""
        raise NotImplementedError


class BinaryContent(Content):
    """An image or sound."""

    __slots__ = ("data", "media_type")

    kind = ""

    def __init__(self, data: bytes, media_type: str) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"the data of an {self.kind} is bytes, not {type(data).__name__}")
        if not media_type.startswith(f"{self.kind}/"):
            raise ValueError(f"{media_type!r} is not the media type of an {self.kind}")
        self.data = bytes(data)
        self.media_type = media_type

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.data)} bytes, {self.media_type!r})"

    def as_block(self) -> dict[str, Any]:
        """Return the content block of MCP."""
        data = base64.b64encode(self.data).decode()
        return {"type": self.kind, "data": data, "mimeType": self.media_type}

    def as_text(self) -> str:
        """Return the text that is used where a content block is not possible."""
        size = f"{self.media_type}, {len(self.data)} bytes"
        return f"[{size}: only a content block of MCP can hold an {self.kind}]"


class Image(BinaryContent):
    """An image as a result: its bytes, and their media type, such as `image/png`."""

    __slots__ = ()
    kind = "image"

    def __init__(self, data: bytes, media_type: str = "image/png") -> None:
        super().__init__(data, media_type)


class Audio(BinaryContent):
    """Sound as a result: its bytes, and their media type, such as `audio/wav`."""

    __slots__ = ()
    kind = "audio"

    def __init__(self, data: bytes, media_type: str = "audio/wav") -> None:
        super().__init__(data, media_type)


class ResourceLink(Content):
    """A link to a resource as a result. The client reads the resource if it needs it."""

    __slots__ = ("description", "media_type", "name", "uri")

    def __init__(
        self, uri: str, *, name: str = "", description: str = "", media_type: str = ""
    ) -> None:
        """Without `name`, the last part of the URI is the name."""
        self.uri = uri
        self.name = name or uri.rstrip("/").rpartition("/")[2] or uri
        self.description = description
        self.media_type = media_type

    def __repr__(self) -> str:
        return f"ResourceLink({self.uri!r})"

    def as_block(self) -> dict[str, Any]:
        """Return the content block of MCP."""
        optional = {"description": self.description, "mimeType": self.media_type}
        block = {"type": "resource_link", "uri": self.uri, "name": self.name}
        return block | {key: text for key, text in optional.items() if text}

    def as_text(self) -> str:
        """Return the text that is used where a content block is not possible."""
        return f"{self.name}: {self.uri}" if self.name != self.uri else self.uri


class EmbeddedResource(Content):
    """A resource with its content as a result: text or bytes, and the URI that it has."""

    __slots__ = ("content", "media_type", "uri")

    def __init__(self, uri: str, content: str | bytes, *, media_type: str = "") -> None:
        self.uri = uri
        self.content = content
        self.media_type = media_type

    def __repr__(self) -> str:
        return f"EmbeddedResource({self.uri!r}, {len(self.content)} long)"

    def as_block(self) -> dict[str, Any]:
        """Return the content block of MCP."""
        resource: dict[str, Any] = {"uri": self.uri}
        if self.media_type:
            resource["mimeType"] = self.media_type
        if isinstance(self.content, str):
            resource["text"] = self.content
        else:
            resource["blob"] = base64.b64encode(self.content).decode()
        return {"type": "resource", "resource": resource}

    def as_text(self) -> str:
        """Return the text that is used where a content block is not possible."""
        if isinstance(self.content, str):
            return self.content
        size = f"{self.uri}, {len(self.content)} bytes"
        return f"[{size}: only a content block of MCP can hold a resource]"


def has_content(value: Any) -> bool:
    """Return whether a result is content, or a list with content in it."""
    if isinstance(value, Content):
        return True
    return isinstance(value, list | tuple) and any(isinstance(item, Content) for item in value)
