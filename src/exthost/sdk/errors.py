"""The exceptions of the SDK: those that handlers raise, and those that handlers may get.

A handler that raises anything else is answered with the exception's type and text. Where a code
goes on the wire depends on the dialect; morphir, for example, has none.
"""

from typing import Any


class ToolError(Exception):
    """A failure that the caller is told in these words, without a traceback in the log."""

    def __init__(self, message: str, *, code: int = -32000, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


class InvalidArguments(ToolError):
    """The arguments of a call do not fit its handler. `problems` has a line for each fault."""

    def __init__(self, name: str, problems: list[str]) -> None:
        super().__init__(f"invalid arguments for {name}: {'; '.join(problems)}", code=-32602)
        self.problems = problems


class HostError(Exception):
    """The host refused a request of the extension, or its dialect has no such requests."""

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


class Cancelled(Exception):
    """Raised in a synchronous handler whose call was cancelled, when it next uses its context.

    An asynchronous handler gets `asyncio.CancelledError` where it awaits, as everywhere.
    """


class InputRequired(BaseException):
    """The handler has to be run again with an answer of the host's; only MCP's stateless revision
    works so. Not an Exception, so that a handler does not catch it by mistake."""

    def __init__(self, method: str, params: Any, state: str) -> None:
        super().__init__(method)
        self.method = method
        self.params = params
        self.state = state


class UnsupportedType(TypeError):
    """A handler is annotated with a type that has no form in JSON."""


class UsageError(Exception):
    """The extension was started in a way that cannot work. The message says how to correct it."""


def describe(error: BaseException) -> str:
    """Return the text of an exception for a reply: its type and its message."""
    if isinstance(error, ToolError):
        return error.message
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
