"""Shows the warnings of the host to the user of a verb. The library itself only logs them."""

import logging
from collections.abc import Callable
from typing import Self

from exthost.host.manifest_reload import CHANGES_LOG

# These loggers repeat what also comes as events: the output of extensions and their states.
_SHOWN_ELSEWHERE = frozenset({"exthost.extensions", "exthost.states"})


class WarningHandler(logging.Handler):
    """Shows each warning inside a `with` block. `hides_changes`: the display already shows changes
    of manifests, from events."""

    def __init__(self, say: Callable[[str], None], *, hides_changes: bool = False) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        elsewhere = _SHOWN_ELSEWHERE | ({CHANGES_LOG} if hides_changes else set())
        self.addFilter(lambda record: record.name not in elsewhere)

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"{record.levelname.lower()}: {record.getMessage()}")

    def __enter__(self) -> Self:
        logging.getLogger("exthost").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("exthost").removeHandler(self)
