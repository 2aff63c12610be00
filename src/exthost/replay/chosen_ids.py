"""Ids that one side chooses anew in each session, such as the UUID of a thread or a task. Pure.

Two texts that are UUIDs play the same part if they stand at the same place each time. What is said
in a replay has the ids of this session in the place of those that were recorded.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["ChosenIds", "is_chosen_id"]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def is_chosen_id(value: Any) -> bool:
    """Return whether a value is an id that may differ from session to session."""
    return isinstance(value, str) and len(value) == 36 and _UUID.fullmatch(value) is not None


class ChosenIds:
    """The ids of the other side: recorded → of this session."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def fits(self, recorded: str, actual: str) -> bool:
        """Return whether an id may stand for a recorded one."""
        return self._ids.get(recorded, actual) == actual

    def learn(self, recorded: Any, actual: Any) -> None:
        """Remember the ids in two values that play the same part."""
        if is_chosen_id(recorded) and is_chosen_id(actual):
            self._ids.setdefault(recorded, actual)
        elif isinstance(recorded, Mapping) and isinstance(actual, Mapping):
            for key in recorded.keys() & actual.keys():
                self.learn(recorded[key], actual[key])
        elif isinstance(recorded, list) and isinstance(actual, list):
            for recorded_item, actual_item in zip(recorded, actual, strict=False):
                self.learn(recorded_item, actual_item)

    def apply(self, value: Any) -> Any:
        """Return a recorded value with the ids of this session."""
        if not self._ids:
            return value
        if isinstance(value, str):
            return self._ids.get(value, value)
        if isinstance(value, Mapping):
            return {key: self.apply(item) for key, item in value.items()}
        return [self.apply(item) for item in value] if isinstance(value, list) else value
