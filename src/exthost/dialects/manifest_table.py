"""Reads and checks the keys of one table of a manifest. The first mistake raises ManifestError.

table = ManifestTable(json.loads(data), "plugin.json", code, "an object")
command = table.text("command")             # the key is required
hooks = table.tables("hooks", default=[])   # one ManifestTable for each item of the list
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from exthost.errors import Evidence, ManifestError


@dataclass(frozen=True, slots=True)
class ManifestTable:
    """One table, or JSON object. Unknown keys are ignored.

    values  the decoded table
    path    the manifest file
    code    the error code of a value that is missing or of the wrong type
    noun    what the format calls a table, with its article: "a table" or "an object"
    id      the id of the extension, if it is known
    place   the path of the table in the document, such as extension.hooks[0]; "" for the document
    """

    values: Mapping[str, Any]
    path: str
    code: str
    noun: str
    id: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        if type(self.values) is not dict:
            raise self.error(self.code, f"{self.place}: must be {self.noun}")

    def error(self, code: str, message: str, key: str = "", help: str = "") -> ManifestError:
        """Return an error about the table, or about one of its keys."""
        return ManifestError(
            code,
            message,
            extension=self.id,
            help=help or "the dialect's page shows the required keys of a manifest",
            evidence=Evidence(path=self.path, key=self._place_of(key)),
        )

    def value_error(self, key: str, reason: str) -> ManifestError:
        """Return the error for the value of this key."""
        return self.error(self.code, f"{self._place_of(key)}: {reason}", key)

    def has(self, key: str) -> bool:
        """Return whether this key has a value other than null."""
        return self.values.get(key) is not None

    def _get(self, key: str, type_: type[Any], expected: str, default: Any = None) -> Any:
        """Return the value of a key, or the default. Raises ManifestError if there is neither, or
        if the value is of another type, such as null."""
        value = self.values.get(key, default)
        if value is None and key not in self.values:
            raise self.value_error(key, "is missing")
        if type(value) is not type_:
            raise self.value_error(key, f"must be {expected}")
        return value

    # Each of these methods raises ManifestError if the key is missing and has no default, or if its
    # value is of another type.

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text."""
        return str(self._get(key, str, "text", default))

    def argument(self, key: str) -> str:
        """Return a text that can be an argument of a program or the name of a file."""
        text = self.text(key)
        self._check_argument(key, text)
        return text

    def whole(self, key: str, default: int) -> int:
        """Return a whole number."""
        return int(self._get(key, int, "a whole number", default))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; it is empty if the key is missing."""
        items = self._get(key, list, "a list of text", [])
        if not all(type(item) is str for item in items):
            raise self.value_error(key, "must be a list of text")
        return tuple(items)

    def arguments(self, key: str) -> tuple[str, ...]:
        """Return a list of texts that can be arguments of a program; it is empty if the key is
        missing."""
        items = self.texts(key)
        for item in items:
            self._check_argument(key, item)
        return items

    def any_list(self, key: str) -> list[Any]:
        """Return a list of any values; it is empty if the key is missing or null."""
        return list(self._get(key, list, "a list")) if self.has(key) else []

    def table(self, key: str) -> Self:
        """Return the table under a key. The caller has checked with `has` that it is there."""
        return replace(self, values=self.values[key], place=self._place_of(key))

    def tables(self, key: str, default: list[Any] | None = None) -> list[Self]:
        """Return the tables in a list."""
        noun = self.noun.split()[1]  # without the article
        items = self._get(key, list, f"a list of {noun}s", default)
        place = self._place_of(key)
        return [
            replace(self, values=item, place=f"{place}[{index}]")
            for index, item in enumerate(items)
        ]

    def _check_argument(self, key: str, text: str) -> None:
        """Raise ManifestError for text that cannot be an argument of a program or the name of a
        file."""
        if "\0" in text:
            raise self.value_error(key, "must not contain a NUL character")
        try:
            text.encode()
        except UnicodeEncodeError:
            reason = "contains half of a surrogate pair, which is not a character"
            raise self.value_error(key, reason) from None

    def _place_of(self, key: str) -> str:
        """Return the path of a key in the document, or that of the table for the key ""."""
        return ".".join(part for part in (self.place, key) if part)
