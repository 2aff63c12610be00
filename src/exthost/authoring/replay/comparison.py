"""Finds the first difference between a recorded message and the actual message of a replay, and
describes it:

    the first difference: message 4 of the recording, a reply to shout
      at        result.text
      recorded: "HI"
      now:      "hi"

Does no I/O.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from exthost.authoring.replay.generated_ids import GeneratedIds, is_generated_id
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.secrets import HIDDEN
from exthost.wire import jsontext

# JSON fields whose value is the id of a request. Ids of requests may differ in each session.
_REQUEST_ID_FIELDS = frozenset({"progressToken", "requestId"})

# JSON fields with the id that the host has for the extension, and with the folder of the extension.
# Each replay chooses new values for both.
_OWN_ID_FIELDS = frozenset({"extension_id", "plugin_id", "extensionId", "pluginId"})
_OWN_FOLDER_FIELDS = frozenset({"plugin_root"})

# A longer value is truncated in a description.
_MAX_CHARACTERS = 2000


class ValueDifference(NamedTuple):
    """The first difference between the contents of two messages.

    path      the path of the values that differ, such as `params.items[2]`
    recorded  the recorded value at that path; None if the path is missing in the recording
    actual    the actual value at that path; None if the path is missing in the actual message
    missing   the side in which the path is missing, "recorded" or "actual"; "" if both have it
    """

    path: str
    recorded: Any
    actual: Any
    missing: str = ""


class Difference(NamedTuple):
    """The first difference of a replay.

    number    the number of the recorded message in the session, from 1; 0 if no recorded message
              matches
    recorded  a description of the recorded message; "" if no recorded message matches
    actual    a description of the message or event that occurred instead; "" if `place` is set
    place     the values that differ, if both messages have the same kind and method; otherwise None
    """

    number: int
    recorded: str
    actual: str
    place: ValueDifference | None = None

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
        position = (
            f"message {self.number} of the recording" if self.number else "after the recording"
        )
        head = f"the first difference: {position}"
        place = self.place
        if place is None:
            recorded = self.recorded or "nothing"
            return [head, f"  recorded: {recorded}", f"  now:      {self.actual}"]
        lines = [f"{head}, {self.recorded}", f"  at        {place.path or 'the whole of it'}"]
        recorded = "(absent)" if place.missing == "recorded" else _format_value(place.recorded)
        actual = "(absent)" if place.missing == "actual" else _format_value(place.actual)
        return [*lines, f"  recorded: {recorded}", f"  now:      {actual}"]


class MessageComparer:
    """Compares recorded messages with actual ones.

    These are allowed to differ: JSON fields whose name is in `ignored` (at any level: `params`,
    `result` and `error` are fields, too), secrets that were hidden in the recording, ids of
    requests, and UUIDs, unless the recorded UUID already corresponds to another actual UUID in
    `ids`. A comparison does not change `ids`.

    `own_id` is the id of the recorded extension, if the messages of a host are compared: a host may
    have another id for the extension, and another folder.
    """

    def __init__(
        self, ids: GeneratedIds, ignored: Collection[str] = (), own_id: str | None = None
    ) -> None:
        self.ids = ids
        self.ignored = frozenset(ignored)
        self._own_id = own_id

    def compare(self, number: int, recorded: TraceRecord, actual: TraceRecord) -> Difference | None:
        """Return the first difference between two messages, or None if they are equal. The ids of
        the messages are not compared. `number` is the number of the recorded message."""
        if recorded.kind != actual.kind:
            return Difference(number, describe(recorded), describe(actual))
        if recorded.kind in ("request", "notification") and recorded.method != actual.method:
            return Difference(number, describe(recorded), describe(actual))
        name = {"reply": "result", "failure": "error"}.get(recorded.kind, "params")
        if name in self.ignored:
            return None
        try:
            place = self.compare_values(recorded.data, actual.data, name)
        except RecursionError:  # nested hundreds of levels deep
            reason = "the messages are nested too deeply to be compared"
            return Difference(number, describe(recorded, False), reason)
        return None if place is None else Difference(number, describe(recorded, False), "", place)

    def compare_values(self, recorded: Any, actual: Any, path: str = "") -> ValueDifference | None:
        """Return the first difference between two values, or None if they are equal. `path` is the
        path of the two values in their messages."""
        if isinstance(recorded, Mapping) and isinstance(actual, Mapping):
            return self._compare_mappings(recorded, actual, path)
        if isinstance(recorded, list) and isinstance(actual, list | tuple):
            return self._compare_lists(recorded, actual, path)
        if isinstance(recorded, str) and isinstance(actual, str):
            is_equal = recorded == actual or self._is_allowed_difference(recorded, actual)
        else:
            # 1 == True in Python, but they are different values in JSON.
            is_equal = recorded == actual and isinstance(recorded, bool) == isinstance(actual, bool)
        return None if is_equal else ValueDifference(path, recorded, actual)

    def _compare_mappings(
        self, recorded: Mapping[str, Any], actual: Mapping[str, Any], path: str
    ) -> ValueDifference | None:
        """Return the first difference between two JSON objects."""
        for key in (*recorded, *(key for key in actual if key not in recorded)):
            field_path = f"{path}.{key}" if path else str(key)
            in_both = key in recorded and key in actual
            if key in self.ignored or (in_both and key in _REQUEST_ID_FIELDS):
                continue
            if in_both and self._is_own_id_or_folder(key, recorded[key], actual[key]):
                continue
            if not in_both:
                missing = "actual" if key in recorded else "recorded"
                return ValueDifference(field_path, recorded.get(key), actual.get(key), missing)
            place = self.compare_values(recorded[key], actual[key], field_path)
            if place is not None:
                return place
        return None

    def _is_own_id_or_folder(self, key: str, recorded: Any, actual: Any) -> bool:
        """Return whether two values are the ids, or the folders, that two hosts have for the
        extension."""
        if self._own_id is None or not isinstance(actual, str):
            return False
        if key in _OWN_FOLDER_FIELDS:
            return isinstance(recorded, str)
        return key in _OWN_ID_FIELDS and recorded == self._own_id

    def _compare_lists(
        self, recorded: Sequence[Any], actual: Sequence[Any], path: str
    ) -> ValueDifference | None:
        """Return the first difference between two lists."""
        for index, (recorded_item, actual_item) in enumerate(zip(recorded, actual, strict=False)):
            place = self.compare_values(recorded_item, actual_item, f"{path}[{index}]")
            if place is not None:
                return place
        count = min(len(recorded), len(actual))
        if len(recorded) > count:
            return ValueDifference(f"{path}[{count}]", recorded[count], None, "actual")
        if len(actual) > count:
            return ValueDifference(f"{path}[{count}]", None, actual[count], "recorded")
        return None

    def _is_allowed_difference(self, recorded: str, actual: str) -> bool:
        """Return whether two texts may differ: both are UUIDs that may correspond, or the recorded
        text contains a hidden secret and the rest is equal."""
        if is_generated_id(recorded) and is_generated_id(actual):
            return self.ids.may_correspond(recorded, actual)
        return HIDDEN in recorded and _matches_except_secrets(recorded, actual)


def _matches_except_secrets(recorded: str, actual: str) -> bool:
    """Return whether a text is equal to a recorded one, apart from the secrets that were hidden."""
    first, *middle, last = recorded.split(HIDDEN)
    start, end = len(first), len(actual) - len(last)
    if start > end or not (actual.startswith(first) and actual.endswith(last)):
        return False
    # Each part is searched for from the end of the previous one. A regular expression would also
    # try all later places, which takes exponential time.
    for part in middle:
        start = actual.find(part, start, end)
        if start < 0:
            return False
        start += len(part)
    return True


def match_key(record: TraceRecord) -> tuple[Any, ...]:
    """Return the key by which an actual message is matched with a recorded one: the id of a reply,
    or the kind and method of any other message."""
    if record.kind in ("reply", "failure"):
        return "reply", record.id
    return record.kind, record.method


def describe(record: TraceRecord, with_data: bool = True) -> str:
    """Return a description of a message, with its parameters, result or error if `with_data`."""
    match record.kind:
        case "reply":
            text = f"a reply to {record.method or 'a request'}"
        case "failure":
            text = f"an error reply to {record.method or 'a request'}"
        case "request" | "notification":
            text = f"the {record.kind} {record.method}"
        case _:
            text = f"a record of the kind {record.kind}"
    return f"{text}: {_format_value(record.data)}" if with_data else text


def _format_value(value: Any) -> str:
    """Return a value as text, truncated if it is long."""
    text = jsontext.display_text(value)
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[:_MAX_CHARACTERS]}… ({len(text):,} characters)"
