"""A toy dialect for tests with state, similar to a language server: JSON-RPC in lines.

A dialect is the protocol that an extension speaks; the extension here is `documents_child.py`.
The host opens a document by a notification, and the child reports the problems of a document by a
notification. A new process knows no document until the host opens it again.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.caller import Caller
from exthost.dialects.steps import Exchanges, WaitFor, result_of
from exthost.model.messages import Notification, Request
from exthost.model.shutdown_steps import CloseStdin
from exthost.model.spec import Limits, Restart, Spec
from exthost.wire.lines import Lines
from tests.toys import askback

CHILD = Path(__file__).parent / "documents_child.py"


def _check(params: Mapping[str, Any]) -> Exchanges:
    """Open a document, and return its problems, or None at the time limit."""
    yield Notification("open", params)
    received = yield WaitFor(
        "problems", lambda notice: bool(notice["name"] == params["name"]), params.get("seconds")
    )
    return received.params["problems"] if isinstance(received, Notification) else None


def _check_and_count(params: Mapping[str, Any]) -> Exchanges:
    problems = yield from _check(params)
    documents = result_of((yield Request("documents", None)), "documents")
    return problems, len(documents)


class Documents:
    """`ext.facet(Documents)`: the open documents."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._open: dict[str, str] = {}

    async def open(self, name: str, text: str) -> Any:
        """Open a document, and return its problems."""
        self._open[name] = text
        return await self._caller.call("check", {"name": name, "text": text})

    def on_new_process(self) -> Exchanges:
        for name, text in self._open.items():
            yield Notification("open", {"name": name, "text": text})
        if "refused" in self._open:
            result_of((yield Request("refuse", None)), "refuse")


DIALECT: Dialect = replace(
    askback.DIALECT,
    name="documents",
    framing=Lines,
    streams=MappingProxyType({}),
    methods=MappingProxyType({"check": _check, "check_and_count": _check_and_count}),
    facets=MappingProxyType({"documents": Documents}),
    traits=replace(
        askback.DIALECT.traits,
        limits=Limits(handshake=60, call=60, max_message=2**20, max_in_flight=100),
        restart=Restart(strategy="immediate", max_retries=5),
        shutdown_steps=(CloseStdin(wait=5),),
    ),
)


def spec(id: str) -> Spec:
    """Return the toy as an extension."""
    return Spec(id=id, argv=(sys.executable, "-S", "-E", str(CHILD)), dialect="documents")
