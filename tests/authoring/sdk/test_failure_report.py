"""The traceback of a failed handler has only the frames that concern the author."""

import json
from traceback import FrameSummary

import exthost_sdk.context
from exthost_sdk.serving.failure_report import own_frames

SDK, LIBRARY = exthost_sdk.context.__file__, json.__file__
OWN, INSTALLED = "/home/a/extension.py", f"{json.__file__[:-16]}/site-packages/b.py"


def shown_files(*files: str) -> list[str]:
    return [frame.filename for frame in own_frames([FrameSummary(file, 1, "f") for file in files])]


def test_frames_of_the_sdk_are_not_shown() -> None:
    assert shown_files(SDK, SDK, OWN, OWN) == [OWN, OWN]
    assert shown_files(SDK, OWN, SDK, LIBRARY) == [OWN]
    assert shown_files(SDK, OWN, SDK, OWN) == [OWN, OWN]


def test_libraries_that_the_author_calls_are_shown() -> None:
    assert shown_files(SDK, OWN, LIBRARY) == [OWN, LIBRARY]
    assert shown_files(SDK, INSTALLED) == [INSTALLED]


def test_libraries_that_the_sdk_calls_are_not_shown() -> None:
    assert shown_files(SDK, LIBRARY, OWN) == [OWN]
    assert shown_files(SDK, LIBRARY, "<frozen runpy>", SDK) == []
