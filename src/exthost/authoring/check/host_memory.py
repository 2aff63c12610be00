"""The memory and the settings that a check offers to the extension, in place of those of a host.

In some dialects an extension can send requests to the host, such as `memory.append` of synaps,
which stores a text. What it stores lasts as long as one run: a process reads what an earlier
process of the run has stored, and nothing reaches the store of the user. A change of a setting
notifies no process.
"""

import time
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.host_requests import (
    HostAction,
    Memory,
    ReadConfig,
    Recall,
    Remember,
    WatchConfig,
    WriteConfig,
)
from exthost.errors import CallFailed
from exthost.model.messages import Failure, Reply, Request
from exthost.model.spec import Spec

# How much the extension can store during one run. A larger message is refused, as by a host whose
# store is full.
_MAX_STORED_CHARACTERS = 2**24
# What is counted for each record besides its texts.
_RECORD_CHARACTERS = 200
# The JSON-RPC code with which the host answers if its store is full.
_STORAGE_ERROR = -32000


class HostMemory:
    """What the extension has stored during one run."""

    def __init__(self) -> None:
        self._stored_characters = 0
        self._memories: list[Memory] = []
        self._settings: dict[str, str] = {}

    def answer(self, request: Request, spec: Spec, dialect: Dialect) -> Reply | Failure:
        """Return the reply to a request of the extension. Requests that the dialect does not pass
        to the host are refused or answered as the dialect does."""
        kind = dialect.host_requests.get(request.method)
        if kind is None:
            return dialect.refuse(request)
        try:
            outcome = self._perform(kind.parse_params(spec, request.params))
        except CallFailed as error:
            return Failure(request.id, error.error_message or error.message, error.error_code)
        return Reply(request.id, kind.make_result(spec, outcome))

    def _perform(self, action: HostAction) -> Any:
        match action:
            case Remember(content, tags, meta):
                self._count(content, *tags, str(meta or ""))
                now_ms = int(time.time() * 1000)
                self._memories.append(Memory(now_ms, content, tags, meta))
                return now_ms
            case Recall():
                newest_first = reversed(self._memories)
                return [memory for memory in newest_first if _matches(memory, action)][
                    : action.limit
                ]
            case ReadConfig(key):
                return self._settings.get(key)
            case WriteConfig(key, value):
                self._count(key, value)
                self._settings[key] = value
                return None
            case WatchConfig():
                return None

    def _count(self, *texts: str) -> None:
        """Count the texts of one record. Raises CallFailed if the store is full."""
        size = sum(map(len, texts)) + _RECORD_CHARACTERS
        if self._stored_characters + size > _MAX_STORED_CHARACTERS:
            raise CallFailed("X0755", "its store is full", error_code=_STORAGE_ERROR)
        self._stored_characters += size


def _matches(memory: Memory, filters: Recall) -> bool:
    contains, prefix = filters.content_contains, filters.tag_prefix
    since_ms, until_ms = filters.since_ms, filters.until_ms
    return (
        (contains is None or contains.lower() in memory.content.lower())
        and (prefix is None or any(tag.startswith(prefix) for tag in memory.tags))
        and (since_ms is None or memory.timestamp_ms >= since_ms)
        and (until_ms is None or memory.timestamp_ms <= until_ms)
    )
