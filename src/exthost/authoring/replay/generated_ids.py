"""Maps recorded ids to actual ones, for ids that a program generates in each session.

A replay compares the messages of a program with those of a recorded session, in which such ids were
different. An example is the UUID of a thread or a task. If a recorded message and the actual
message that matches it have UUIDs in the same field, the actual UUID corresponds to the recorded
one from then on. The messages that the replay sends contain the actual UUIDs. Does no I/O.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def is_generated_id(value: Any) -> bool:
    """Return whether a value is an id that a program generates: only UUIDs are recognised."""
    return isinstance(value, str) and len(value) == 36 and _UUID.fullmatch(value) is not None


class GeneratedIds:
    """The actual id for each recorded id, of the ids that the other side has generated."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def may_correspond(self, recorded: str, actual: str) -> bool:
        """Return whether an actual id may correspond to a recorded one: it already does, or the
        recorded id has no actual one yet. Does not remember the pair; see `remember`."""
        return self._ids.get(recorded, actual) == actual

    def remember(self, recorded: Any, actual: Any) -> None:
        """Remember the pairs of ids that are at the same path in two matching values. A recorded id
        that already has an actual one keeps it. Ids below hundreds of levels are not found."""
        with suppress(RecursionError):
            self._remember(recorded, actual)

    def _remember(self, recorded: Any, actual: Any) -> None:
        if is_generated_id(recorded) and is_generated_id(actual):
            self._ids.setdefault(recorded, actual)
        elif isinstance(recorded, Mapping) and isinstance(actual, Mapping):
            for key in recorded.keys() & actual.keys():
                self._remember(recorded[key], actual[key])
        elif isinstance(recorded, list) and isinstance(actual, list):
            for recorded_item, actual_item in zip(recorded, actual, strict=False):
                self._remember(recorded_item, actual_item)

    def replace_in(self, value: Any) -> Any:
        """Return a recorded value with the actual ids in place of the recorded ones. A value of
        hundreds of levels is returned unchanged."""
        if not self._ids:  # nothing to replace: skip the copy
            return value
        try:
            return self._replace_in(value)
        except RecursionError:
            return value

    def _replace_in(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._ids.get(value, value)
        if isinstance(value, Mapping):
            return {key: self._replace_in(item) for key, item in value.items()}
        return [self._replace_in(item) for item in value] if isinstance(value, list) else value
