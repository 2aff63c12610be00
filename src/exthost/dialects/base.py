"""The interface of dialects: `Dialect`, an object that each dialect's package fills in.

A dialect is the protocol that an extension speaks. The session (the conversation with one process
of an extension) uses the fields of this object and knows nothing else about any dialect. When a
dialect seems to need a special case in the session, add a field here instead. The shortest example
is `DIALECT` in `morphir/dialect.py`.
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
from exthost.errors import ExthostError
from exthost.model.empty_mapping import empty_mapping
from exthost.model.messages import Failure, Reply, Request
from exthost.model.names import registered_name
from exthost.model.shortened_text import shorten_to
from exthost.model.shutdown_steps import ShutdownStep
from exthost.model.spec import Breaker, Limits, Restart, Spec
from exthost.tool_result import ResultReader
from exthost.wire.framing import Framing


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """How the extensions of a dialect behave, as data. A config can override some of it.

    Messages
        positional   replies carry no id and match requests by their order. Therefore only one call
                     is in flight at a time, whatever limits.max_in_flight is; a call that is
                     abandoned, or a frame that is not a message, ends the session; and the default
                     time limit of a call applies to each of its exchanges. A timeout that a caller
                     sets applies to the whole call in every dialect
        largest_message  the maximum size of a message in bytes, in both directions; a higher
                     limits.max_message has no effect. None if the dialect has no such limit
        first_id     the first request id of a session
        ids_continue whether a new process continues with the ids of the previous one
        redact       whether messages may contain private text. If so, the output of an extension
                     appears neither in errors nor in the log above DEBUG
        quiet_stderr whether lines of stderr are logged at DEBUG instead of INFO
    Calls
        method_limits  time limits in seconds, by method or by the name of an operation
        progress_multiplier  each progress report of a call restarts its time limit, until the call
                     has taken this many times the limit; 1 for never. A timeout that a caller
                     sets is not restarted
        retry        "once" sends a call a second time if its process ended before the reply
    Host requests
        quiet_while_asked  whether the host sends nothing but the reply while a request of the
                     extension is open, because the extension may take the next message for the
                     reply
    Life cycle
        start        "eager" starts an extension with the host, "lazy" at its first use
        tools        whether the tools are known from the "handshake" or already from the "manifest"
        environment  which variables of the host an extension inherits: "filtered" (all but
                     secrets), "minimal" (those in `variables`) or "declared" (only PATH)
        variables    the names of the variables that "minimal" passes on
        env_vars     variables that describe the extension to itself: name → "extension" (its id),
                     "host_version" or "state_folder" (its own folder, created before the start)
        limits       time limits in seconds, and sizes
        unique       what must be unique, or the start fails: the "name" in the handshake among
                     this dialect's extensions, or the registered names of "tools" among all. With
                     "nothing", the first tool of a name keeps it, and a second one is not listed
        is_exit_0_crash  whether a process that ends by itself with the status 0 has crashed. If
                     not, the extension stays stopped until the next call starts it
        restart, breaker  what happens when a process ends, or when calls keep failing
        breaker_name  the name of the circuit breaker in errors; `{id}` stands for the id
        shutdown_steps  the steps that end a process. SIGKILL to the process tree is always the
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
    unique: Literal["nothing", "name", "tools"] = "nothing"
    is_exit_0_crash: bool = True
    restart: Restart = Restart(strategy="never")
    breaker: Breaker | None = None
    breaker_name: str = "the breaker"


# How much of the method of an unknown request its refusal repeats.
_SHOWN_METHOD_CHARACTERS = 200


def method_unknown(request: Request) -> Failure:
    """Return JSON-RPC's error reply to a request that the host has no handler for."""
    method = shorten_to(_SHOWN_METHOD_CHARACTERS, request.method)
    return Failure(request.id, f"method not found: {method}", -32601)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One dialect.

    Messages
        framing         returns the framing of a new session, given the maximum size of a message in
                        bytes
        codec           returns the codec of a new session, given its role
        handshake       a generator (see `steps`) that returns an Offer: what an extension announces
        fallback        another handshake. The host tries it with a new process if the first process
                        read the request of the usual handshake, and then ended
        traits          how the extensions of this dialect behave
    Calls
        operations      the operations that the host calls by the same names in every dialect:
                        call_tool, list_tools, hook, health
        methods         methods whose calls take more than one request, or change their params
        has_fixed_methods
                        whether extensions have only the methods in `methods`: other calls fail
        methods_without_tools
                        the standard methods that call no tool, whatever their params name
        cancel_message  returns the message that cancels a call, given its request and the reason
        result_reader   reads tool results
        error_result    returns an error as a tool result of this dialect, for `ext.tools.call`
        files           returns the file fragments in a result, which the host can write
        facets          the attributes that only extensions of this dialect have, such as
                        `ext.resources`: name → a class that takes a `Caller`. If it has a method
                        `on_new_process`, its steps are run after each handshake, to restore state
                        that a new process does not have
    Streams and notifications
        streams         the methods that are answered with events, and how the events are sent
        notifications   method of a notification → a function that returns its meaning to the host
        render_event    returns an event of a stream as a progress bar or as text, for a person
    Host requests
        host_requests   the requests that an extension may send to the host, by method
        refuse          returns the reply to a request that has no registered handler
    Configuration
        options         the keys of `options` in a config entry, and their valid values
        contract        a dialect can have several versions that differ too much for one `Dialect`:
                        its contracts. The name of this one, such as "2"; "" for the first
        contracts       the other contracts of this dialect, as Dialects of the same name
        conformance     a reference ("module:attribute") to the `Conformance` of this contract; ""
                        for that of the package

    A dialect that differs in one of the methods below derives a class.
    """

    name: str
    framing: Callable[[int], Framing]
    codec: Callable[[Role], Codec]
    handshake: Callable[[HandshakeContext], Handshake]
    traits: Traits
    fallback: Callable[[HandshakeContext], Handshake] | None = None
    operations: Mapping[str, Operation] = field(default_factory=empty_mapping)
    methods: Mapping[str, Operation] = field(default_factory=empty_mapping)
    has_fixed_methods: bool = False
    methods_without_tools: frozenset[str] = frozenset()
    cancel_message: Callable[[Request, str], Outgoing | None] | None = None
    result_reader: ResultReader = VALUE_RESULT
    error_result: Callable[[ExthostError], Any] | None = None
    files: Callable[[Any], Sequence[FileFragment]] | None = None
    facets: Mapping[str, Callable[[Caller], Any]] = field(default_factory=empty_mapping)
    streams: Mapping[str, StreamKind] = field(default_factory=empty_mapping)
    notifications: Mapping[str, Callable[[Any], Meaning]] = field(default_factory=empty_mapping)
    render_event: Callable[[Any], ProgressBar | str | None] | None = None
    host_requests: Mapping[str, HostRequest] = field(default_factory=empty_mapping)
    refuse: Callable[[Request], Reply | Failure] = method_unknown
    options: Mapping[str, Option] = field(default_factory=empty_mapping)
    contract: str = ""
    contracts: "tuple[Dialect, ...]" = ()
    conformance: str = ""

    @property
    def full_name(self) -> str:
        """The name of the dialect and of its contract, for `find.find_dialect`, such as nexo/2."""
        return f"{self.name}/{self.contract}" if self.contract else self.name

    @property
    def announces_hooks(self) -> bool:
        """Whether a handshake of this dialect announces the hooks of an extension."""
        return "hook" in self.operations

    def wants_hook(self, spec: Spec, hook: str, event: Mapping[str, Any]) -> bool:
        """Return whether an extension that has a hook wants it called for this event."""
        return True

    def event_sink(self, spec: Spec) -> EventSink | None:
        """Return which events of the host an extension receives; None for no events."""
        return None

    def contract_for(self, spec: Spec) -> "Dialect":
        """Return the contract that an extension speaks, which is a Dialect of the same name.
        `find.find_dialect_of` calls this method."""
        return self

    def with_environ(self, spec: Spec, environ: Mapping[str, str]) -> Spec:
        """Return the spec, with settings from the host's environment variables, if this dialect
        reads any. A setting in the config takes precedence."""
        return spec

    def registered_name(self, extension: str, tool: str) -> str:
        """Return the name under which a tool is registered, given the id of its extension and its
        own name."""
        return registered_name(extension, tool)
