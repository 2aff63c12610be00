"""What a dialect is: one object, `Dialect`, which a package fills in.

The session reads its parts and knows nothing else about any dialect. When a dialect seems to need
a special case in the session, a part is missing here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from exthost.dialects.caller import Caller
from exthost.dialects.calls import EventSink, FileFragment
from exthost.dialects.codec import Codec, Role
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.host_requests import HostRequest
from exthost.dialects.meanings import Meaning
from exthost.dialects.options import Option
from exthost.dialects.steps import Handshake, Operation, Outgoing
from exthost.dialects.streams import ProgressBar, StreamKind
from exthost.dialects.value_result import VALUE_RESULT
from exthost.empty_mapping import empty_mapping
from exthost.errors import ExthostError
from exthost.messages import Failure, Reply, Request
from exthost.shutdown_steps import ShutdownStep
from exthost.spec import Breaker, Limits, Restart, Spec
from exthost.tool_result import ResultReader
from exthost.wire.framing import Framing


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """How the extensions of a dialect behave, as data. A config can override some of it.

    Wire
        positional   messages have no ids: only its position says which call a reply answers. So
                     there is one call at a time, whatever limits.max_in_flight says; a call that is
                     given up, or a frame that is not a message, ends the session; and the time
                     limit of a call holds for each exchange of it. A timeout that a caller gives
                     holds for the whole call in every dialect
        largest_message  bytes that a message has at most at both ends, whatever limits.max_message
                     says; None: as limits.max_message says
        first_id     the first id of a session
        ids_continue a new process continues with the ids of the one before
        redact       messages may hold private text: what a child writes shows neither in errors
                     nor in the log above DEBUG
        quiet_stderr lines of stderr are logged at DEBUG, and not at INFO
    Calls
        method_limits  time limits of single methods, or operations by their neutral names
        progress_multiplier  each progress report of a call restarts its time limit, until the call
                     has taken this many times the limit; 1 for never. A timeout that a caller
                     gives is not restarted
        retry        "once" sends a call again that died with its process
    Host requests
        quiet_while_asked  nothing else is sent while a request of the child is open: it may take
                     the next message for our answer
    Life
        start        "eager", or "lazy": at first use
        tools        known from the "handshake", or already from the "manifest"
        environment  "filtered", "minimal" (with `variables`) or "declared"
        env_vars     variables that tell a child about itself: name → "extension" (its id),
                     "host_version" or "state_folder" (its own folder, made before it starts)
        limits       seconds and sizes
        unique_name  the name in its handshake must be unique among this dialect's extensions
        restart, breaker  what follows when a process ends or calls keep failing
        breaker_name  what errors call the breaker; `{id}` stands for the extension's id
        shutdown_steps  how a process is asked to exit. SIGKILL to the process tree is always the
                     last step
    """

    limits: Limits
    shutdown_steps: tuple[ShutdownStep, ...]
    positional: bool = False
    largest_message: int | None = None
    first_id: int = 0
    ids_continue: bool = False
    redact: bool = False
    quiet_stderr: bool = False
    method_limits: Mapping[str, float] = field(default_factory=empty_mapping)
    progress_multiplier: int = 1
    retry: Literal["never", "once"] = "never"
    quiet_while_asked: bool = False
    start: Literal["eager", "lazy"] = "eager"
    tools: Literal["handshake", "manifest"] = "handshake"
    environment: Literal["filtered", "minimal", "declared"] = "filtered"
    variables: tuple[str, ...] = ()
    env_vars: Mapping[str, str] = field(default_factory=empty_mapping)
    unique_name: bool = False
    restart: Restart = Restart(strategy="never")
    breaker: Breaker | None = None
    breaker_name: str = "the breaker"


def method_unknown(request: Request) -> Failure:
    """Return JSON-RPC's answer to a request that nobody here handles."""
    return Failure(request.id, f"method not found: {request.method}", -32601)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One dialect.

    Wire
        framing, codec  bytes ↔ frames ↔ messages, made anew for each session, for either role
        handshake       a generator (see `steps`) that returns an Offer
        fallback        the handshake with a fresh process if the first one died of the usual one
        traits          how its extensions behave, as data
    Calls
        operations      by neutral names: call_tool, list_tools, hook, health
        methods         wire methods that are more than one request, or change their params
        closed          whether there are no other methods than those in `methods`
        cancel_message  returns the message that cancels a call that timed out or was cancelled
        result_reader   reads tool results
        error_result    makes a tool result of an error, for `ext.tools.call`
        files           returns the pieces of files in a result, to be written
        wants_hook      whether an extension that has a hook wants it for this very event
        facets          classes over `Caller` for what this dialect alone can do. A facet with a
                        method `on_new_process` returns steps from it that are run after each
                        handshake: what a process that replaces another must be told again
    Streams and notifications
        streams         which methods are answered in events, and how these travel
        notifications   what a notification of the child means to the host
        render_event    shows an event of a stream to a person, as progress or as text
        event_sink      which events of the host an extension wants, if it wants any
    Host requests
        host_requests   what the child may ask of the host, by wire method
        refuse          returns the answer to a request for which nobody registered a handler
    Configuration
        options         the keys of `options` in a config entry, and what each must be
    """

    name: str
    framing: Callable[[int], Framing]
    codec: Callable[[Role], Codec]
    handshake: Callable[[HandshakeContext], Handshake]
    traits: Traits
    fallback: Callable[[HandshakeContext], Handshake] | None = None
    operations: Mapping[str, Operation] = field(default_factory=empty_mapping)
    methods: Mapping[str, Operation] = field(default_factory=empty_mapping)
    closed: bool = False
    cancel_message: Callable[[Request, str], Outgoing | None] | None = None
    result_reader: ResultReader = VALUE_RESULT
    error_result: Callable[[ExthostError], Any] | None = None
    files: Callable[[Any], Sequence[FileFragment]] | None = None
    wants_hook: Callable[[Spec, str, Mapping[str, Any]], bool] | None = None
    facets: Mapping[str, Callable[[Caller], Any]] = field(default_factory=empty_mapping)
    streams: Mapping[str, StreamKind] = field(default_factory=empty_mapping)
    notifications: Mapping[str, Callable[[Any], Meaning]] = field(default_factory=empty_mapping)
    render_event: Callable[[Any], ProgressBar | str | None] | None = None
    event_sink: Callable[[Spec], EventSink | None] | None = None
    host_requests: Mapping[str, HostRequest] = field(default_factory=empty_mapping)
    refuse: Callable[[Request], Reply | Failure] = method_unknown
    options: Mapping[str, Option] = field(default_factory=empty_mapping)
