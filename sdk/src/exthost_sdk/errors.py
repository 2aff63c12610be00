"""The exceptions of the SDK: those that handlers raise, and those that the SDK raises in handlers.

If a handler raises any other exception, its type and text are sent to the host. Where the `code` of
an exception is sent depends on the dialect; the errors of morphir, for example, have no code.
"""

from typing import Any


class ToolError(Exception):
    """A failure of a handler. The message is sent to the caller as it is, and no traceback is
    logged."""

    def __init__(self, message: str, *, code: int = -32000, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


class InvalidArguments(ToolError):
    """The arguments of a call do not match the parameters of its handler. `problems` has one line
    for each mismatch."""

    def __init__(self, name: str, problems: list[str]) -> None:
        super().__init__(f"invalid arguments for {name}: {'; '.join(problems)}", code=-32602)
        self.problems = problems


class HostError(Exception):
    """The host answered a request of the extension with an error, or the dialect has no requests to
    the host."""

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


class CallCancelled(Exception):
    """Raised in a synchronous handler whose call was cancelled, when it next uses its context.

    In an asynchronous handler, an `await` raises `asyncio.CancelledError`, as usual.
    """


class InputRequired(BaseException):
    """Ends a handler that needs an answer of the host; the SDK runs the handler again when the
    host has sent the answer. Used only with the stateless revision of MCP. It is not an Exception,
    so that a handler does not catch it by mistake."""

    def __init__(self, method: str, params: Any, state: str) -> None:
        super().__init__(method)
        self.method = method
        self.params = params
        self.state = state


class UnsupportedType(TypeError):
    """A handler is annotated with a type that has no JSON schema."""


class SdkUsageError(Exception):
    """The extension was started in a way that cannot work. `help` says how to correct it; "" if the
    message does."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


def describe(error: BaseException) -> str:
    """Return the text of an exception for a reply: its type and its message."""
    try:
        # The message of a ToolError can be of another type than it should be.
        text = str(error.message if isinstance(error, ToolError) else error)
    except Exception:  # the author's own class may fail here
        text = "(its text cannot be read)"
    if isinstance(error, ToolError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
