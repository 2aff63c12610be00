"""Where two messages differ first, as data and as text. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from exthost.replay.chosen_ids import ChosenIds, is_chosen_id
from exthost.trace.record import TraceRecord
from exthost.trace.secrets import HIDDEN
from exthost.wire import jsontext

__all__ = ["Difference", "Place", "Rules", "describe"]

# Members that name a request of this session, whatever their value.
_NAMES_REQUEST = frozenset({"progressToken", "requestId"})

# The part of a value that a person looks at.
_SHOWN = 2000


class Place(NamedTuple):
    """Where two values differ, and how. An absent value is None, and `missing` says whose."""

    path: str
    recorded: Any
    actual: Any
    missing: str = ""


class Difference(NamedTuple):
    """The first difference of a replay.

    number    of the record among the messages of the session, from 1; 0 if it has none
    recorded  the message that was recorded, or "" if there is none
    actual    what came in its place
    place     where the two differ, if both are messages of one kind
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
        """Return it for a person."""
        about = f"message {self.number} of the recording" if self.number else "after the recording"
        head = f"the first difference: {about}"
        place = self.place
        if place is None:
            recorded = self.recorded or "nothing"
            return [head, f"  recorded: {recorded}", f"  now:      {self.actual}"]
        lines = [f"{head}, {self.recorded}", f"  at        {place.path or 'the whole of it'}"]
        recorded = "(absent)" if place.missing == "recorded" else _shown(place.recorded)
        actual = "(absent)" if place.missing == "actual" else _shown(place.actual)
        return [*lines, f"  recorded: {recorded}", f"  now:      {actual}"]


class Rules:
    """What may differ: members of the names in `ignored`, secrets that were hidden, names of
    requests of this session, and the ids in `ids`."""

    def __init__(self, ids: ChosenIds, ignored: Collection[str] = ()) -> None:
        self.ids = ids
        self.ignored = frozenset(ignored)

    def compare(self, number: int, recorded: TraceRecord, actual: TraceRecord) -> Difference | None:
        """Return the difference of two messages, whose ids may differ; None if there is none."""
        if recorded.kind != actual.kind:
            return Difference(number, describe(recorded), describe(actual))
        if recorded.kind in ("request", "notification") and recorded.method != actual.method:
            return Difference(number, describe(recorded), describe(actual))
        name = {"reply": "result", "failure": "error"}.get(recorded.kind, "params")
        place = self.find(recorded.data, actual.data, name)
        return None if place is None else Difference(number, describe(recorded, False), "", place)

    def find(self, recorded: Any, actual: Any, path: str = "") -> Place | None:
        """Return the first place where two values differ."""
        if isinstance(recorded, Mapping) and isinstance(actual, Mapping):
            return self._find_in_members(recorded, actual, path)
        if isinstance(recorded, list) and isinstance(actual, list | tuple):
            return self._find_in_items(recorded, actual, path)
        if isinstance(recorded, str) and isinstance(actual, str):
            fits = recorded == actual or self._fits(recorded, actual)
        else:
            fits = recorded == actual and isinstance(recorded, bool) == isinstance(actual, bool)
        return None if fits else Place(path, recorded, actual)

    def _find_in_members(
        self, recorded: Mapping[str, Any], actual: Mapping[str, Any], path: str
    ) -> Place | None:
        for key in (*recorded, *(key for key in actual if key not in recorded)):
            inside = f"{path}.{key}" if path else str(key)
            in_both = key in recorded and key in actual
            if key in self.ignored or (in_both and key in _NAMES_REQUEST):
                continue
            if not in_both:
                missing = "actual" if key in recorded else "recorded"
                return Place(inside, recorded.get(key), actual.get(key), missing)
            place = self.find(recorded[key], actual[key], inside)
            if place is not None:
                return place
        return None

    def _find_in_items(
        self, recorded: Sequence[Any], actual: Sequence[Any], path: str
    ) -> Place | None:
        for index, (recorded_item, actual_item) in enumerate(zip(recorded, actual, strict=False)):
            place = self.find(recorded_item, actual_item, f"{path}[{index}]")
            if place is not None:
                return place
        count = min(len(recorded), len(actual))
        if len(recorded) > count:
            return Place(f"{path}[{count}]", recorded[count], None, "actual")
        if len(actual) > count:
            return Place(f"{path}[{count}]", None, actual[count], "recorded")
        return None

    def _fits(self, recorded: str, actual: str) -> bool:
        if is_chosen_id(recorded) and is_chosen_id(actual):
            return self.ids.fits(recorded, actual)
        return HIDDEN in recorded and _fits_hidden(recorded, actual)


def _fits_hidden(recorded: str, actual: str) -> bool:
    """Return whether a text fits one in which a secret was hidden."""
    parts = map(re.escape, recorded.split(HIDDEN))
    return re.fullmatch(".*".join(parts), actual, re.DOTALL) is not None


def describe(record: TraceRecord, whole: bool = True) -> str:
    """Return a message in words, with what it says if it is to be shown whole."""
    match record.kind:
        case "reply":
            text = f"a reply to {record.method or 'a request'}"
        case "failure":
            text = f"an error reply to {record.method or 'a request'}"
        case _:
            text = f"the {record.kind} {record.method}".rstrip()
    return f"{text}: {_shown(record.data)}" if whole else text


def _shown(value: Any) -> str:
    text = jsontext.display_text(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"
