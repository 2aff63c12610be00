"""Which frames the SDK shows in the traceback of a handler that failed.

An author wants to see the frames of the extension and of the libraries that it calls, but not those
of the SDK, nor those of a library (such as asyncio) through which the SDK calls the handler. The
tests name the file of each frame, in the order of a traceback: the outermost call first.
"""

import json
from pathlib import Path
from traceback import FrameSummary

import exthost_sdk.context
from exthost_sdk.serving.failure_report import own_frames

SDK = exthost_sdk.context.__file__
LIBRARY = json.__file__  # a module of the standard library
EXTENSION = "/home/a/extension.py"
INSTALLED = f"{Path(LIBRARY).parents[1]}/site-packages/b.py"


def shown_files(*files: str) -> list[str]:
    """Return the files of the frames that are shown of a traceback with frames in these files."""
    return [frame.filename for frame in own_frames([FrameSummary(file, 1, "f") for file in files])]


def test_frames_of_the_sdk_are_not_shown() -> None:
    assert shown_files(SDK, SDK, EXTENSION, EXTENSION) == [EXTENSION, EXTENSION]
    assert shown_files(SDK, EXTENSION, SDK, LIBRARY) == [EXTENSION]
    assert shown_files(SDK, EXTENSION, SDK, EXTENSION) == [EXTENSION, EXTENSION]


def test_libraries_that_the_author_calls_are_shown() -> None:
    assert shown_files(SDK, EXTENSION, LIBRARY) == [EXTENSION, LIBRARY]
    assert shown_files(SDK, INSTALLED) == [INSTALLED], "an installed package may be an extension"


def test_libraries_that_the_sdk_calls_are_not_shown() -> None:
    assert shown_files(SDK, LIBRARY, EXTENSION) == [EXTENSION]
    assert shown_files(SDK, LIBRARY, "<frozen runpy>", SDK) == []
