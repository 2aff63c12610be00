"""Facets of third-party dialects: found by class or name, in the asynchronous and blocking API.

A facet is an object with the methods of one kind of extension; its dialect (protocol) defines it.
`ext.facet(Notes)` returns it. The methods are asynchronous, so the blocking API returns a view of
the facet, whose methods block, and which also wraps the iterators and context managers they return.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from exthost.dialects.base import Dialect
from exthost.dialects.caller import Caller
from exthost.dialects.morphir.dialect import DIALECT
from exthost.dialects.roder.facets import Inference
from exthost.errors import UsageError
from exthost.host.sync.loop_thread import LoopThread
from exthost.host.sync.sync_extension import SyncExtension
from tests.extensions.harness import closed_at_end, unstarted_extension


class Counter:
    """An object that a facet returns: an async context manager and async iterator."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entered = False

    async def __aenter__(self) -> "Counter":
        self.entered = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.entered = False

    async def __aiter__(self) -> AsyncIterator[int]:
        for number in range(self.limit):
            await asyncio.sleep(0)
            yield number


class Notes:
    """A facet of a third-party dialect."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.title = "notes"

    async def add(self, text: str, *, times: int = 1) -> Any:
        """Add a note."""
        return await self._caller.call("echo", [text] * times)

    def count(self, limit: int) -> Counter:
        return Counter(limit)


def dialect_with_notes() -> Dialect:
    return replace(DIALECT, facets=MappingProxyType({"notes": Notes}))


async def test_a_facet_of_another_dialect_is_found_by_its_class() -> None:
    async with closed_at_end(unstarted_extension(dialect=dialect_with_notes())) as ext:
        assert await ext.facet(Notes).add("a", times=2) == ["a", "a"]
        with pytest.raises(UsageError) as caught:
            ext.facet(Inference)
        assert caught.value.code == "X1309" and "notes" in caught.value.help


def test_a_facet_of_another_dialect_has_a_blocking_view() -> None:
    loop_thread = LoopThread()
    try:
        ext = SyncExtension(
            loop_thread.run_plain(
                lambda: unstarted_extension(dialect=dialect_with_notes(), shared=True)
            ),
            loop_thread,
        )
        try:
            notes = ext.facet(Notes)
            assert notes.add("a", times=2) == ["a", "a"] and notes.title == "notes"
            assert notes.add.__doc__ == "Add a note."
            # Type checkers do not know this attribute.
            assert getattr(ext, "notes").add("b") == ["b"]  # noqa: B009
            view = notes.count(3)
            with view as counter:
                assert counter is view and counter.entered and list(counter) == [0, 1, 2]
            assert not counter.entered and "add" in dir(notes)
            with pytest.raises(UsageError):
                ext.facet(Inference)
            assert not hasattr(ext, "inference") and not hasattr(ext, "nonsense")
        finally:
            ext.close()
    finally:
        loop_thread.close()


def test_a_built_in_facet_found_by_class_is_the_typed_facet() -> None:
    dialect = replace(DIALECT, facets=MappingProxyType({"inference": Inference}))
    loop_thread = LoopThread()
    try:
        extension = loop_thread.run_plain(lambda: unstarted_extension(dialect=dialect))
        ext = SyncExtension(extension, loop_thread)
        assert ext.facet(Inference) is ext.inference
        ext.close()
    finally:
        loop_thread.close()
