"""Maps ids that differ in each session, such as the UUID of a thread or a task. Pure.

If a recorded message and an actual one have UUIDs at the same place, the actual UUID stands for the
recorded one from then on. Messages that the replay sends contain the actual ids.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["ChosenIds", "is_chosen_id"]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def is_chosen_id(value: Any) -> bool:
    """Return whether a value is an id that may differ in each session: a UUID."""
    return isinstance(value, str) and len(value) == 36 and _UUID.fullmatch(value) is not None


class ChosenIds:
    """The ids that the other side chose: from the recorded to the actual ones."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def fits(self, recorded: str, actual: str) -> bool:
        """Return whether an actual id may stand for a recorded one: it does already, or the
        recorded one is new."""
        return self._ids.get(recorded, actual) == actual

    def learn(self, recorded: Any, actual: Any) -> None:
        """Remember the ids at the same places of two matching values."""
        if is_chosen_id(recorded) and is_chosen_id(actual):
            self._ids.setdefault(recorded, actual)
        elif isinstance(recorded, Mapping) and isinstance(actual, Mapping):
            for key in recorded.keys() & actual.keys():
                self.learn(recorded[key], actual[key])
        elif isinstance(recorded, list) and isinstance(actual, list):
            for recorded_item, actual_item in zip(recorded, actual, strict=False):
                self.learn(recorded_item, actual_item)

    def apply(self, value: Any) -> Any:
        """Return a recorded value with the actual ids in place of the recorded ones."""
        if not self._ids:
            return value
        if isinstance(value, str):
            return self._ids.get(value, value)
        if isinstance(value, Mapping):
            return {key: self.apply(item) for key, item in value.items()}
        return [self.apply(item) for item in value] if isinstance(value, list) else value
