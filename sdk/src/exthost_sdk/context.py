"""The context of a call: progress, log, items of a stream, cancellation, and calls to the host.

    @ext.tool
    def count(to: int, ctx: Context) -> int:
        for number in range(to):
            ctx.progress(number, to)
        return to

A handler gets a context if it has a parameter that is annotated with `Context`. The same handler
works in every dialect: if the dialect has no message for progress or items, these are dropped; if
it has none for log lines, they are written to stderr. Calls to the host raise HostError if the
dialect has none.

`progress` and `emit` return an object that an asynchronous handler may await: it then waits while
the host is slow to read (back-pressure). In a synchronous handler the methods themselves wait.
"""

import sys
from collections.abc import Generator, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol

from exthost_sdk.answers import Elicitation, PromptMessage, Sample
from exthost_sdk.errors import CallCancelled, HostError
from exthost_sdk.types.form import Form

LEVELS = ("debug", "info", "warning", "error", "critical")


class Delivery(Protocol):
    """A message that was sent. Awaiting it waits until the host has read enough."""

    def __await__(self) -> Generator[Any, None, None]: ...


class ContextPort(Protocol):
    """The methods of a running call (`HandlerCall`) that its context uses."""

    @property
    def dialect(self) -> str: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def is_cancelled(self) -> bool: ...

    def send_progress(self, current: float, total: float | None, message: str) -> Delivery: ...

    def send_item(self, item: Any) -> Delivery: ...

    def send_log(self, level: str, text: str) -> bool: ...

    def call_host(self, method: str, params: Any, timeout: float | None) -> Any: ...

    async def call_host_async(self, method: str, params: Any, timeout: float | None) -> Any: ...

    def make_elicitation(self, message: str, schema: Mapping[str, Any]) -> tuple[str, Any]: ...

    def make_sampling(
        self, messages: Sequence[PromptMessage], system: str, max_tokens: int
    ) -> tuple[str, Any]: ...

    def send_widget(self, id: str, fields: Mapping[str, Any] | None) -> Delivery: ...


class Context:
    """One call, as its handler sees it."""

    __slots__ = ("_meta", "_port")

    def __init__(self, port: ContextPort, meta: Mapping[str, Any]) -> None:
        self._port = port
        self._meta = meta

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the host sent about the call besides its arguments, such as the ids of the agent and
        the session."""
        return self._meta

    @property
    def dialect(self) -> str:
        """The name of the dialect of this connection."""
        return self._port.dialect

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the extension, which the host sent in the handshake."""
        return self._port.config

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled, so that its result is not needed any more."""
        return self._port.is_cancelled

    def check_cancelled(self) -> None:
        """Raise CallCancelled if the call was cancelled."""
        if self._port.is_cancelled:
            raise CallCancelled

    def progress(self, current: float, total: float | None = None, message: str = "") -> Delivery:
        """Report how far the call has come: `current` of `total` steps. Once the call has ended,
        nothing is sent. Raises ValueError for a number that is not finite, which JSON does not
        have."""
        self.check_cancelled()
        for name, value in (("current", current), ("total", total)):
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"progress: {name} must be a finite number, not {value!r}")
        return self._port.send_progress(current, total, message)

    def emit(self, item: Any) -> Delivery:
        """Send one item of a stream or one piece of output, before the call has its result."""
        self.check_cancelled()
        return self._port.send_item(item)

    def log(self, message: str, level: str = "info") -> None:
        """Write a line to the host's log, at one of LEVELS."""
        if level not in LEVELS:
            raise ValueError(f"{level!r} is not a level; the levels are: {', '.join(LEVELS)}")
        if not self._port.send_log(level, message):
            print(f"{level}: {message}", file=sys.stderr, flush=True)

    def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Call a method of the host and wait for its result. Raises HostError.

        For a synchronous handler; an asynchronous one awaits `call_async`.
        """
        self.check_cancelled()
        return self._port.call_host(method, params, timeout)

    async def call_async(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> Any:
        """Call a method of the host and return its result. Raises HostError."""
        return await self._port.call_host_async(method, params, timeout)

    def elicit(self, message: str, form: Any, *, timeout: float | None = None) -> Elicitation:
        """Ask the person at the client to fill in a form, and wait for the answer. Raises HostError
        if the dialect or the client has no such requests.

        `form` is the type of the answer: a dataclass, a TypedDict, `str`, `bool` …, or a JSON
        Schema. For a synchronous handler; an asynchronous one awaits `elicit_async`."""
        fields = Form(form)
        method, params = self._port.make_elicitation(message, fields.schema)
        return _read_elicitation(self.call(method, params, timeout=timeout), fields)

    async def elicit_async(
        self, message: str, form: Any, *, timeout: float | None = None
    ) -> Elicitation:
        """Do the same as `elicit`, in an asynchronous handler."""
        fields = Form(form)
        method, params = self._port.make_elicitation(message, fields.schema)
        return _read_elicitation(await self.call_async(method, params, timeout=timeout), fields)

    def sample(
        self,
        prompt: str | Sequence[PromptMessage],
        *,
        system: str = "",
        max_tokens: int = 1024,
        timeout: float | None = None,
    ) -> Sample:
        """Let the model of the client continue a conversation, and wait for its answer. Raises
        HostError if the dialect or the client has no such requests.

        For a synchronous handler; an asynchronous one awaits `sample_async`."""
        method, params = self._port.make_sampling(_list_messages(prompt), system, max_tokens)
        return _read_sample(self.call(method, params, timeout=timeout))

    async def sample_async(
        self,
        prompt: str | Sequence[PromptMessage],
        *,
        system: str = "",
        max_tokens: int = 1024,
        timeout: float | None = None,
    ) -> Sample:
        """Do the same as `sample`, in an asynchronous handler."""
        method, params = self._port.make_sampling(_list_messages(prompt), system, max_tokens)
        return _read_sample(await self.call_async(method, params, timeout=timeout))

    def show_widget(
        self,
        id: str,
        lines: Sequence[str],
        *,
        title: str | None = None,
        position: str | None = None,
        seconds: float | None = None,
    ) -> Delivery:
        """Show lines in a widget of synaps, or replace those of the widget with this id. It
        disappears after `seconds`. Other dialects have no widgets, and drop it."""
        fields = {"lines": list(lines), "title": title, "position": position, "ttl_secs": seconds}
        known_fields = {key: value for key, value in fields.items() if value is not None}
        return self._port.send_widget(id, known_fields)

    def dismiss_widget(self, id: str) -> Delivery:
        """Remove the widget with this id."""
        return self._port.send_widget(id, None)


def _list_messages(prompt: str | Sequence[PromptMessage]) -> Sequence[PromptMessage]:
    return [PromptMessage("user", prompt)] if isinstance(prompt, str) else prompt


def _read_elicitation(answer: Any, form: Form) -> Elicitation:
    """Return the answer to a form. Raises HostError if it does not fit the form."""
    action = answer.get("action") if isinstance(answer, dict) else None
    if action not in ("accept", "decline", "cancel"):
        raise HostError(f"the client answered the form with {answer!r}")
    if action != "accept":
        return Elicitation(action)
    try:
        return Elicitation("accept", form.read(answer.get("content")))
    except ValueError as error:
        raise HostError(f"the answer does not fit the form: {error}") from None


def _read_sample(answer: Any) -> Sample:
    """Return the answer of a model. Raises HostError if it cannot be read."""
    if not isinstance(answer, dict):
        raise HostError(f"the client answered the sampling with {answer!r}")
    blocks = answer.get("content")
    blocks = blocks if isinstance(blocks, list) else [blocks]
    texts = [str(block.get("text", "")) for block in blocks if isinstance(block, dict)]
    model, reason = str(answer.get("model", "")), str(answer.get("stopReason", ""))
    return Sample("".join(texts), model, reason, answer)
