"""Prints the warnings that a host logs with the module `logging`. The library only logs them; the
verbs (subcommands of exthost) that run a host print them with this handler."""

import logging
from collections.abc import Callable
from typing import Self

from exthost.host.manifest_reload import CHANGES_LOG

# These loggers log the output and the states of extensions. Displays show both as events, so that
# their log records would show everything twice.
_LOGGERS_OF_EVENTS = frozenset({"exthost.extensions", "exthost.states"})


class WarningHandler(logging.Handler):
    """Passes each warning of the host to `say` within a `with` block. With
    `hides_manifest_changes`, the warnings about changed manifests are left out, for a display that
    shows the same changes as events."""

    def __init__(self, say: Callable[[str], None], *, hides_manifest_changes: bool = False) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        skipped_loggers = _LOGGERS_OF_EVENTS | ({CHANGES_LOG} if hides_manifest_changes else set())
        self.addFilter(lambda record: record.name not in skipped_loggers)

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"{record.levelname.lower()}: {record.getMessage()}")

    def __enter__(self) -> Self:
        logging.getLogger("exthost").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("exthost").removeHandler(self)
