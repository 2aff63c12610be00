"""The events of a host, and the bus that delivers them.

    unsubscribe = host.events.subscribe(CallEnded, lambda ended: print(ended.tool, ended.seconds))

Subscribers such as logs, metrics, the command line and traces only observe: the host behaves the
same without them. Code on a hot path creates an event only if `bus.listeners` has a listener for
its class.

A listener is a plain function. It is called on the event loop's thread when the event happens. If
it raises, the error is logged and the listener stays subscribed.

In every event, `extension` is the id of the extension. `context` is the value that the caller
passed with the call, such as a user or a session.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args, overload

from exthost.errors import UsageError

# A library must not write to stderr by itself: a program that wants the log attaches a handler.
logging.getLogger("exthost").addHandler(logging.NullHandler())
_log = logging.getLogger("exthost.events")


class CallStarted(NamedTuple):
    """A call was accepted.

    `method` is the method of the request, or of the request that calls the tool. `key` identifies
    the call until its CallEnded, which has the same key. A later call may reuse the key. `tool` is
    the own name of the tool, or "" if the call is not one of a tool.
    """

    extension: str
    method: str
    context: Any = None
    key: int = 0
    tool: str = ""


class CallEnded(NamedTuple):
    """A call ended. Exactly one CallEnded follows each CallStarted.

    `outcome` is one of: result, error, timeout, cancelled, gone. A tool that failed has the outcome
    "error", also if its dialect reports the failure in a normal reply. "gone" means that the
    extension ended before it replied, or that no process of it could be started. `seconds` is the
    duration of the call. `key` and `tool` are those of the CallStarted. `call` is the number of the
    call in a trace, or None if its messages were not traced.
    """

    extension: str
    method: str
    outcome: str
    seconds: float
    context: Any = None
    key: int = 0
    call: int | None = None
    tool: str = ""


class HookFailed(NamedTuple):
    """A hook failed: its extension replied with an error, did not reply, or could not be started.
    A hook is a function of an extension that the host calls before or after an event.

    `hook` is the name of the hook, such as `before_tool_call`. `outcome` is "refused" if the event
    that the hook was called for, such as a tool call, was refused because of the failure. It is
    "passed over" if the event went on without the hook. `reason` is the error's message, and `code`
    the error's code, such as X0702. `about` is the name of the tool if the hook was called for a
    tool call, otherwise "". `seconds` is how long the hook ran.
    """

    extension: str
    hook: str
    outcome: str
    reason: str
    code: str = ""
    about: str = ""
    seconds: float = 0.0
    context: Any = None


class RuleApplied(NamedTuple):
    """A rule of the config (`[[rules]]`) decided about a tool call, before any hook was called.

    `tool_name` is the registered name of the tool. `rule` is the position of the rule in the
    config, from 1, and `reason` the reason that it gives. `outcome` is "allowed" or "denied" if the
    rule decided by itself, "agreed" or "declined" if a person did, and "unanswered" if no person
    could be asked or no answer arrived. `client` is the name of the gateway's client, None for any
    other caller.
    """

    extension: str
    tool_name: str
    rule: int
    outcome: str
    reason: str = ""
    client: str | None = None
    context: Any = None


class HooksSkipped(NamedTuple):
    """A tool was called without rules and hooks, because its caller requested that
    (`hooks=False`).

    `tool_name` is the registered name of the tool. Published before the call is sent.
    """

    extension: str
    tool_name: str
    context: Any = None


class OutputReplaced(NamedTuple):
    """A hook replaced the output of a tool by another text, before the caller got it.

    `extension` has the hook, and `about` is the name of the tool. `before` and `after` are the
    sizes of the output and of the text that replaced it, in bytes. The event has no content.
    """

    extension: str
    hook: str
    about: str
    before: int
    after: int
    context: Any = None


class Progressed(NamedTuple):
    """The extension reported the progress of a call.

    `progress` is the amount of work done so far, and `total` the whole amount, or None if it is
    unknown. `message` is a text for a person, or "".
    """

    extension: str
    method: str
    progress: float
    total: float | None = None
    message: str = ""
    context: Any = None


class StateChanged(NamedTuple):
    """An extension changed its state from `before` to `after`.

    `reason` says why, or is "". The life-cycle table lists the changes that are possible. A reload
    replaces the extension, so `before` and `after` may then be any two states, and `reason` is
    "reloaded".

    If a process ended and is started again, `attempt` is the number of that restart, `max_attempts`
    the number after which the extension is given up (None for no limit), and `delay` the seconds
    until the restart.
    """

    extension: str
    before: str
    after: str
    reason: str = ""
    attempt: int = 0
    max_attempts: int | None = None
    delay: float | None = None


class OfferChanged(NamedTuple):
    """The offer (the tools, hooks and capabilities) of one extension changed in its tools.

    `added`, `removed` and `changed` are the tools' own names. A tool is in `changed` if its
    description or a schema differs. ToolsChanged, in contrast, is about all tools of the host.
    """

    extension: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...] = ()


class Quarantined(NamedTuple):
    """A tool differs from its record in the lock, or the lock has no record of it.

    The lock is the file `exthost.lock` beside the config, which records what a person approved.
    `tool` is the own name of the tool, and `reason` says what differs. If `is_enforced`, the tool
    is not offered to callers. Otherwise the config requests only a warning (`trust.lock = "warn"`).
    """

    extension: str
    tool: str
    reason: str
    is_enforced: bool = True


class LockMismatch(NamedTuple):
    """An extension differs from its record in the lock (the file `exthost.lock`).

    `key` is the key of the record, `line` its line in the lock (0 if unknown), and `reason` says
    what differs. If `is_enforced`, the extension is not started. Otherwise the config requests only
    a warning (`trust.lock = "warn"`).
    """

    extension: str
    key: str
    line: int
    reason: str
    is_enforced: bool = True


class ToolsChanged(NamedTuple):
    """The tools of the host, `host.tools`, may have changed.

    Published after each change of an extension's offer or state and after each change of the set of
    extensions, without a check whether `host.tools` differs. OfferChanged, in contrast, names the
    tools of one extension that changed.
    """


class Spawned(NamedTuple):
    """A process of an extension was started.

    `argv` is its command line. `enforced` describes its sandbox, as `Extension.enforced` does.
    `node` is the machine on which the process runs, or "" for this machine.
    """

    extension: str
    pid: int
    argv: tuple[str, ...]
    enforced: Mapping[str, Any] = MappingProxyType({})
    node: str = ""


class ContainmentWeakened(NamedTuple):
    """An extension runs with weaker containment than usual or than configured.

    `what` is "sandbox" if its permissions are not enforced, or "lifetime" if its processes can
    outlive a killed host. `reason` says why.
    """

    extension: str
    what: str
    reason: str


class NetworkRefused(NamedTuple):
    """The proxy of an extension refused connections that `permissions.network` does not allow.

    `target` is the host and the port, such as `api.example.com:443`, as the extension named them.
    `reason` says why. `entry` is the entry of `permissions.network` that would allow it.
    `connections` is how many connections to this target were refused since the last such event.
    """

    extension: str
    target: str
    reason: str
    entry: str = ""
    connections: int = 1


class NetworkProxyEnded(NamedTuple):
    """The proxy of an extension ended by itself, or was killed. Its connections are lost.

    `reason` describes its end. `is_restarted` is whether it was started again. If it was not, all
    further connections of the extension are refused.
    """

    extension: str
    reason: str
    is_restarted: bool = True


class Exited(NamedTuple):
    """A process of an extension ended.

    `status` describes its exit status or signal as text. `node` is the machine on which the process
    ran, or "" for this machine.
    """

    extension: str
    pid: int
    status: str
    node: str = ""


class ProcessLost(NamedTuple):
    """A process of a pool (an extension with several processes) ended by itself or did not become
    ready. The other processes continue.

    `reason` is the message of its error and `code` its code. `processes` is how many processes are
    ready. `delay` is the time in seconds until a new process is started in its place; None if none
    is started, because the restart policy does not allow it.
    """

    extension: str
    reason: str
    code: str
    processes: int
    delay: float | None

    def __str__(self) -> str:
        """Return the event as a line of text, without the id of the extension."""
        successor = (
            "no other is started" if self.delay is None else f"another starts in {self.delay:.3g} s"
        )
        return (
            f"it lost a process of its pool: {self.reason} [{self.code}]; "
            f"{self.processes} left; {successor}"
        )


class LogLine(NamedTuple):
    """A line of log output of an extension.

    `source` is "stderr", "log" for a log notification, or "stdout" for a warning about stray output
    on stdout. `level` is a level of the `logging` module. `node` is the machine on which the
    process runs, or "" for this machine.
    """

    extension: str
    source: str
    level: int
    text: str
    node: str = ""


class Noticed(NamedTuple):
    """The extension sent the notification `method` with `params`."""

    extension: str
    method: str
    params: Any


class ExtensionEvent(NamedTuple):
    """The extension published an event.

    `kind` is the name that the extension gives the event, `schema_version` the version of the
    format of `payload`.
    """

    extension: str
    kind: str
    schema_version: int
    payload: Any


class HostEvent(NamedTuple):
    """The program that uses the host published an event with `host.emit`.

    Extensions that are event sinks (that subscribe to events) receive it. `kind` is a dotted name
    such as `turn.started`. `event` is the content. `source` names the part of the program that
    published it, or is "". `context` is the value that was passed to `host.emit`.
    """

    kind: str
    event: Any
    source: str = ""
    context: Mapping[str, Any] = MappingProxyType({})


class SinkFailed(NamedTuple):
    """An event could not be delivered to an event sink (an extension that subscribes to events).

    `reason` says why. `lost` is how many events this sink has missed so far.
    """

    extension: str
    reason: str
    lost: int


class Dropped(NamedTuple):
    """Output of an extension was dropped, because it exceeded a limit or matched no request.

    `what` describes the dropped output, such as "progress of no call". `times` is how often output
    with this description was dropped in this session so far.
    """

    extension: str
    what: str
    times: int


class ManifestChanged(NamedTuple):
    """A manifest on disk changed.

    `path` is the path of the manifest. `change` is one of: new, changed, removed, invalid. `note`
    says what the host did about it, or what a user can do.
    """

    extension: str
    path: str
    change: str
    note: str = ""


Event: TypeAlias = (
    CallStarted
    | CallEnded
    | HookFailed
    | HooksSkipped
    | RuleApplied
    | OutputReplaced
    | Progressed
    | StateChanged
    | OfferChanged
    | Quarantined
    | LockMismatch
    | ToolsChanged
    | Spawned
    | ContainmentWeakened
    | NetworkRefused
    | NetworkProxyEnded
    | Exited
    | ProcessLost
    | LogLine
    | Noticed
    | ExtensionEvent
    | HostEvent
    | SinkFailed
    | Dropped
    | ManifestChanged
)
EVERYTHING: tuple[type[Any], ...] = get_args(Event)
"""Every class of event, for `subscribe`."""

F = TypeVar("F")
E = TypeVar("E", bound=tuple[Any, ...])
E2 = TypeVar("E2", bound=tuple[Any, ...])
E3 = TypeVar("E3", bound=tuple[Any, ...])
Listener: TypeAlias = Callable[[Any], None]


class Bus:
    """Delivers each event to the listeners that subscribed to its class."""

    __slots__ = ("listeners",)

    def __init__(self) -> None:
        # The listeners of each class of event; a class without listeners has no key. Public, so
        # that a hot path can check `CallEnded in bus.listeners` with one look-up.
        self.listeners: dict[type, tuple[Listener, ...]] = {}

    # For two and three classes of event, a type checker derives the union of the classes from these
    # forms. For more it uses their common base class, so the listener takes any event.
    @overload
    def subscribe(self, kind: type[E], listener: Callable[[E], None]) -> Callable[[], None]: ...
    @overload
    def subscribe(
        self, kind: tuple[type[E], type[E2]], listener: Callable[[E | E2], None]
    ) -> Callable[[], None]: ...
    @overload
    def subscribe(
        self, kind: tuple[type[E], type[E2], type[E3]], listener: Callable[[E | E2 | E3], None]
    ) -> Callable[[], None]: ...
    @overload
    def subscribe(
        self, kind: tuple[type[E], ...], listener: Callable[[E], None]
    ) -> Callable[[], None]: ...
    def subscribe(
        self, kind: type[Any] | tuple[type[Any], ...], listener: Callable[[Any], None]
    ) -> Callable[[], None]:
        """Call `listener` for each event of the class `kind`, or of the classes in a tuple.

        Return a function that ends the subscription. Raises UsageError if `kind` is not a class of
        event, and if `listener` is not a plain function.
        """
        kinds = kind if isinstance(kind, tuple) else (kind,)
        _check_subscription(kinds, listener)
        for event_type in kinds:
            self.listeners[event_type] = (*self.listeners.get(event_type, ()), listener)

        def unsubscribe() -> None:
            for event_type in kinds:
                remaining = list(self.listeners.get(event_type, ()))
                if listener in remaining:
                    remaining.remove(listener)
                if remaining:
                    self.listeners[event_type] = tuple(remaining)
                else:
                    self.listeners.pop(event_type, None)

        return unsubscribe

    def publish(self, event: tuple[Any, ...]) -> None:
        """Call each listener that is subscribed to the class of this event."""
        for listener in self.listeners.get(type(event), ()):
            try:
                listener(event)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:
                # Not only Exception: a listener that reads the result of a cancelled task raises
                # CancelledError.
                _log.exception("a listener for %s failed", type(event).__name__)


def _check_subscription(kinds: tuple[Any, ...], listener: Any) -> None:
    """Raise UsageError if one of `kinds` is not a class of event, or if the listener is not a plain
    function."""
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, tuple)):
            class_names = ", ".join(event.__name__ for event in EVERYTHING)
            raise UsageError(
                "X1331",
                f"{kind!r} is not a kind of event, so the listener would never be called",
                help=f"pass a class of exthost.events: {class_names}",
            )
    check_callback(listener, "a listener")


def check_callback(function: F, name: str) -> F:
    """Return `function` if it can be used as a callback, which is called but not awaited. Raises
    UsageError if it cannot be called, or is async. `name` is its name in the error."""
    if not callable(function):
        raise UsageError(
            "X1332",
            f"{name} must be a function, not {function!r:.60}",
            help="pass a plain function",
        )
    if inspect.iscoroutinefunction(function):
        raise UsageError(
            "X1332",
            f"{name} must be a plain function: an asynchronous one would never be awaited",
            help="write `def`; start a task in it, or put the event in a queue",
        )
    return function
