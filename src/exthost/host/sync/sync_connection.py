"""`sync_connect`: runs one extension without a host, for programs without an event loop.

    with exthost.sync_connect(["python3", "weather.py"]) as extension:
        extension.call_tool("forecast", {"city": "Lima"})

The event loop of the extension runs in a separate thread.
"""

from collections.abc import Mapping, Sequence
from typing import Unpack

from exthost.config.extension_settings import ExtensionSettings
from exthost.events import Bus
from exthost.extension.misuse import already_open_error
from exthost.host.connect_function import AnyConnection, make_connection
from exthost.host.sync.loop_thread import LoopThread
from exthost.host.sync.sync_extension import SyncExtension
from exthost.session.inbound import Handler


def sync_connect(
    command: Sequence[str],
    *,
    dialect: str | None = None,
    handlers: Mapping[str, Handler] | None = None,
    events: Bus | None = None,
    **settings: Unpack[ExtensionSettings],
) -> "SyncConnection":
    """Run `command` as an extension for as long as the `with` block lasts; see `connect`."""
    connection = make_connection(
        command, dialect, settings, handlers=handlers, events=events, shared=True
    )
    return SyncConnection(connection)


class SyncConnection:
    """One extension that runs during a `with` block. Its event loop runs in a separate thread."""

    def __init__(self, connection: AnyConnection) -> None:
        self._connection = connection
        self._loop_thread: LoopThread | None = None

    def __repr__(self) -> str:
        return f"<SyncConnection, {'open' if self._loop_thread is not None else 'not open'}>"

    def open(self) -> SyncExtension:
        """Start the extension, and return it, where a `with` block does not fit. End it with
        `close`."""
        return self.__enter__()

    def close(self) -> None:
        """End the extension, and the thread of the event loop. Closing twice is allowed."""
        self.__exit__()

    def __enter__(self) -> SyncExtension:
        if self._loop_thread is not None:
            raise already_open_error()
        loop_thread = LoopThread()
        try:
            extension = loop_thread.run(self._connection.__aenter__)
        except BaseException:
            loop_thread.close()
            raise
        # If the program drops this object without closing it, the extension is ended all the same.
        loop_thread.before_drop = self._connection.__aexit__
        self._loop_thread = loop_thread
        return SyncExtension(extension, loop_thread)

    def __exit__(self, *_: object) -> None:
        loop_thread = self._loop_thread
        if loop_thread is not None:
            loop_thread.refuse_own_thread()  # before anything is closed
        self._loop_thread = None
        # In a fork of the process, nothing is closed: thread and extension are the parent's.
        if loop_thread is not None and not loop_thread.is_copy:
            try:
                loop_thread.run(self._connection.__aexit__)
            finally:
                loop_thread.close()
