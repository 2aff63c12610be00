"""Warnings of the host's own, told to whoever runs a verb: the library writes to no stream."""

import logging
from collections.abc import Callable
from typing import Self


class Heard(logging.Handler):
    """While it is entered, each warning is said. What extensions say comes as events instead."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self.addFilter(lambda record: record.name != "exthost.extensions")

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"{record.levelname.lower()}: {record.getMessage()}")

    def __enter__(self) -> Self:
        logging.getLogger("exthost").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("exthost").removeHandler(self)
