"""Finds the first difference between a recorded and an actual message, and describes it. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from exthost.replay.chosen_ids import ChosenIds, is_chosen_id
from exthost.trace.record import TraceRecord
from exthost.trace.secrets import HIDDEN
from exthost.wire import jsontext

__all__ = ["Difference", "Place", "Rules", "describe"]

# JSON fields that refer to a request by its id, so that their values differ in each session.
_REQUEST_ID_FIELDS = frozenset({"progressToken", "requestId"})

# A longer value is cut in a description.
_MAX_CHARACTERS = 2000


class Place(NamedTuple):
    """The place where two values differ.

    path      the place, such as `params.items[2]`
    recorded  the recorded value there; None if it is absent
    actual    the actual value there; None if it is absent
    missing   "recorded" or "actual" if that one is absent, otherwise ""
    """

    path: str
    recorded: Any
    actual: Any
    missing: str = ""


class Difference(NamedTuple):
    """The first difference of a replay.

    number    the number of the recorded message in the session, from 1; 0 if there is none
    recorded  a description of the recorded message; "" if there is none
    actual    a description of what was received instead; "" if `place` is given
    place     where the two differ, if they are of the same kind and method
    """

    number: int
    recorded: str
    actual: str
    place: Place | None = None

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "number": self.number,
            "recorded": self.recorded,
            "actual": self.actual,
        }
        if self.place is not None:
            data["place"] = self.place._asdict()
        return data

    def lines(self) -> list[str]:
        """Return the difference as lines of text for a person."""
        about = f"message {self.number} of the recording" if self.number else "after the recording"
        head = f"the first difference: {about}"
        place = self.place
        if place is None:
            recorded = self.recorded or "nothing"
            return [head, f"  recorded: {recorded}", f"  now:      {self.actual}"]
        lines = [f"{head}, {self.recorded}", f"  at        {place.path or 'the whole of it'}"]
        recorded = "(absent)" if place.missing == "recorded" else _format_value(place.recorded)
        actual = "(absent)" if place.missing == "actual" else _format_value(place.actual)
        return [*lines, f"  recorded: {recorded}", f"  now:      {actual}"]


class Rules:
    """Compares messages. These may differ: JSON fields with a name in `ignored`, secrets that were
    hidden in the recording, ids of requests, and UUIDs as `ids` allows."""

    def __init__(self, ids: ChosenIds, ignored: Collection[str] = ()) -> None:
        self.ids = ids
        self.ignored = frozenset(ignored)

    def compare(self, number: int, recorded: TraceRecord, actual: TraceRecord) -> Difference | None:
        """Return the difference between two messages, except their ids; None if there is none.
        `number` is that of the recorded message."""
        if recorded.kind != actual.kind:
            return Difference(number, describe(recorded), describe(actual))
        if recorded.kind in ("request", "notification") and recorded.method != actual.method:
            return Difference(number, describe(recorded), describe(actual))
        name = {"reply": "result", "failure": "error"}.get(recorded.kind, "params")
        place = self.find_difference(recorded.data, actual.data, name)
        return None if place is None else Difference(number, describe(recorded, False), "", place)

    def find_difference(self, recorded: Any, actual: Any, path: str = "") -> Place | None:
        """Return the first place where two values differ; None if there is none."""
        if isinstance(recorded, Mapping) and isinstance(actual, Mapping):
            return self._find_in_mappings(recorded, actual, path)
        if isinstance(recorded, list) and isinstance(actual, list | tuple):
            return self._find_in_lists(recorded, actual, path)
        if isinstance(recorded, str) and isinstance(actual, str):
            is_equal = recorded == actual or self._may_stand_for(recorded, actual)
        else:
            # In Python 1 == True, in JSON they differ.
            is_equal = recorded == actual and isinstance(recorded, bool) == isinstance(actual, bool)
        return None if is_equal else Place(path, recorded, actual)

    def _find_in_mappings(
        self, recorded: Mapping[str, Any], actual: Mapping[str, Any], path: str
    ) -> Place | None:
        for key in (*recorded, *(key for key in actual if key not in recorded)):
            field_path = f"{path}.{key}" if path else str(key)
            in_both = key in recorded and key in actual
            if key in self.ignored or (in_both and key in _REQUEST_ID_FIELDS):
                continue
            if not in_both:
                missing = "actual" if key in recorded else "recorded"
                return Place(field_path, recorded.get(key), actual.get(key), missing)
            place = self.find_difference(recorded[key], actual[key], field_path)
            if place is not None:
                return place
        return None

    def _find_in_lists(
        self, recorded: Sequence[Any], actual: Sequence[Any], path: str
    ) -> Place | None:
        for index, (recorded_item, actual_item) in enumerate(zip(recorded, actual, strict=False)):
            place = self.find_difference(recorded_item, actual_item, f"{path}[{index}]")
            if place is not None:
                return place
        count = min(len(recorded), len(actual))
        if len(recorded) > count:
            return Place(f"{path}[{count}]", recorded[count], None, "actual")
        if len(actual) > count:
            return Place(f"{path}[{count}]", None, actual[count], "recorded")
        return None

    def _may_stand_for(self, recorded: str, actual: str) -> bool:
        """Return whether an actual text matches a different recorded one: both are UUIDs, or the
        recorded one has a hidden secret."""
        if is_chosen_id(recorded) and is_chosen_id(actual):
            return self.ids.fits(recorded, actual)
        return HIDDEN in recorded and _matches_hidden(recorded, actual)


def _matches_hidden(recorded: str, actual: str) -> bool:
    """Return whether a text matches a recorded one in which secrets were hidden."""
    visible_parts = map(re.escape, recorded.split(HIDDEN))
    return re.fullmatch(".*".join(visible_parts), actual, re.DOTALL) is not None


def describe(record: TraceRecord, with_data: bool = True) -> str:
    """Return a description of a message, with its parameters, result or error if `with_data`."""
    match record.kind:
        case "reply":
            text = f"a reply to {record.method or 'a request'}"
        case "failure":
            text = f"an error reply to {record.method or 'a request'}"
        case _:
            text = f"the {record.kind} {record.method}".rstrip()
    return f"{text}: {_format_value(record.data)}" if with_data else text


def _format_value(value: Any) -> str:
    """Return a value as text, cut if it is long."""
    text = jsontext.display_text(value)
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[:_MAX_CHARACTERS]}… ({len(text):,} characters)"
