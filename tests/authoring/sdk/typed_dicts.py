"""TypedDicts in a module with postponed annotations, for `test_types.py`.

Because of `from __future__ import annotations`, Python keeps the annotations as text and does not
see NotRequired. The SDK must find out by itself which members are required.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, Required, TypedDict

import typing_extensions


class Search(TypedDict):
    text: str
    limit: NotRequired[int]
    page: Annotated[NotRequired[int], "from 1 on"]
    order: NotRequired[Annotated[str, "a column"]]


class Partial(TypedDict, total=False):
    id: Required[str]
    note: str


class Both(Search, Partial):
    """Members of a total and of a partial class."""

    last: NotRequired[bool]


class PartOfBoth(Both, total=False):
    extra: int
    key: Required[int]


class Foreign(typing_extensions.TypedDict):
    name: typing_extensions.ReadOnly[str]
    size: typing_extensions.ReadOnly[typing_extensions.NotRequired[int]]


def search(query: PartOfBoth) -> Search:
    return {"text": query["text"]}
