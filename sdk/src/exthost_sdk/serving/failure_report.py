"""Writes the exception of a handler to stderr, for the author of the extension.

Only the frames of the author's code, and of what it calls, are shown. Frames of the SDK, and those
of the standard library that the SDK itself calls, say nothing about the author's code.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

from exthost_sdk.errors import CallCancelled, InputRequired, ToolError
from exthost_sdk.types.function import Function

if TYPE_CHECKING:
    from traceback import FrameSummary, TracebackException

# Not pathlib, which is slow to import.
_SDK_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120
_LIBRARY_FOLDER = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120


def report(error: BaseException, function: Function | None = None) -> None:
    """Write the traceback of a handler's exception to stderr, unless it was raised on purpose.

    If it has no frame of the author, as for a result that cannot be written as JSON, the place of
    the handler `function` is written instead; without a handler, the whole traceback.
    """
    if isinstance(error, ToolError | CallCancelled | InputRequired):
        return
    import traceback  # lazily imported, since it is rarely needed

    summary = traceback.TracebackException.from_exception(error)
    has_own_frames = bool(own_frames(summary.stack))
    if has_own_frames:
        _cut(summary)
        lines = "".join(summary.format())
    elif function is not None:
        lines = _place(function) + "".join(summary.format_exception_only())
    else:
        lines = "".join(summary.format())
    sys.stderr.write(lines)
    sys.stderr.flush()


def own_frames(frames: "list[FrameSummary]") -> "list[FrameSummary]":
    """Return the frames of the author's code, and of the libraries that it calls.

    A frame of the standard library belongs to the code that called it. So it is kept after a frame
    of the author, and removed after one of the SDK, such as that of a thread pool.
    """
    result = []
    is_author = False  # whether the frames are those of the author, or of what the author calls
    for frame in frames:
        if frame.filename.startswith(_SDK_FOLDER):
            is_author = False
        elif not _is_standard_library(frame.filename):
            is_author = True
        if is_author:
            result.append(frame)
    return result


def _is_standard_library(path: str) -> bool:
    is_installed = f"{os.sep}site-packages{os.sep}" in path
    return path.startswith("<frozen ") or (path.startswith(_LIBRARY_FOLDER) and not is_installed)


def _cut(summary: "TracebackException") -> None:
    """Leave only the author's frames in a traceback, and in those of its causes."""
    if frames := own_frames(summary.stack):
        summary.stack[:] = frames
    for earlier in (summary.__cause__, summary.__context__):
        if earlier is not None:
            _cut(earlier)


def _place(function: Function) -> str:
    """Return the place of a handler, in the form of a line of a traceback."""
    code: Any = getattr(function.handler, "__code__", None)
    if code is None:
        return f"In {function.name}, its arguments or its result:\n"
    place = f'  File "{code.co_filename}", line {code.co_firstlineno}, in {function.name}'
    return f"{place}: its arguments or its result\n"
