"""Many answers in one read, decoded at once.

Where many calls are under way a read brings dozens of lines, and nearly always they are nothing but
the plainest of replies. Those are decoded in one step, at half the cost of line by line. It is all
or nothing: lines of which one is anything else are left to the framing and the codec, which say
what each of them is.
"""

from typing import Any

from exthost.wire import jsontext


class Burst:
    """Decodes whole lines that each are an id, a result and, if there is one, a marker."""

    __slots__ = ("_decode", "kind")

    kind: type[Any]

    def __init__(self, *marker: str) -> None:
        # Objects of this kind come out; they have an `id` and a `result`.
        self.kind, self._decode = jsontext.replies(*marker)

    def __call__(self, lines: bytes) -> list[Any] | None:
        """The answers in these lines, one in each; None: they are to be looked at one by one."""
        count = lines.count(b"\n")
        # Inside a value no newline comes between a `}` and a `{`: then each line holds a value or
        # more, and as many values as lines are one in each. That all lines begin like the first
        # is asked because a longer text is found sooner.
        if lines[:1] != b"{" or lines[-2:] != b"}\n":
            return None
        if lines.count(b"}\n" + lines[:6]) != count - 1:
            return None
        try:
            answers = self._decode(lines)
        except Exception:
            return None
        return answers if len(answers) == count else None
