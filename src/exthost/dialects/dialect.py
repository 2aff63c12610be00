"""What a dialect is: one object of plain parts, filled in by one file each.

The session reads these parts and knows nothing else about any dialect. When a dialect seems to
need a special case in the session, a part is missing here.

A dialect supplies
- a framing and a codec (bytes ↔ frames ↔ messages), made anew for each session, in either role;
- a handshake: a generator of exchanges that returns an Offer;
- operations: what the host can ask for. A wire method that is not in the table is one request
  and one reply, unless the dialect is `closed`;
- streams: which calls answer in events, and how those find their way home;
- notices: what a notification of the child means to the host;
- questions: what the child may ask of the host;
- traits: its manners, as data;
- facets: small classes over `Caller` for what this dialect alone can do.

**Generators of exchanges.** An operation that needs more than one exchange is a generator. It
yields a Request and is sent its Reply or Failure; yields a Notice and is sent None; yields
`Offered()` and is sent the Offer that its session's handshake came to; yields `Spent()` and is
sent None; yields `Tentative`, `Standing` or `Inquiry`, which see; returns its value, or raises one
of our errors. It does no I/O and never waits: the session does both, and serves everything else
the child says in the meantime.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from exthost.dialects.codec import Codec
from exthost.dialects.options import Option
from exthost.dialects.value_result import VALUE_RESULT
from exthost.dialects.wishes import Question
from exthost.errors import CallFailed, ExthostError, HandshakeFailed
from exthost.messages import Failure, Notice, Reply, Request
from exthost.model import (
    NONE,
    Breaker,
    Caller,
    Fragment,
    Introduction,
    LadderStep,
    Limits,
    Offer,
    Restart,
    Role,
    Spec,
    Tool,
    nothing,
)
from exthost.tool_result import ResultReader
from exthost.wire.framing import Framing


class Offered(NamedTuple):
    """Said to nobody: asks the session for the Offer of its handshake, which may have put there
    what its operations go by (an option, a name of the child's)."""


class Spent(NamedTuple):
    """Said to nobody: when this operation is over, so is its process. It now expects something
    that no other operation begins with, and the next call must find a fresh one."""


class Tentative(NamedTuple):
    """A question that some children leave unanswered: the generator is sent None after so many
    seconds, or after half of the time limit if that is less. A late answer is dropped."""

    request: Request
    seconds: float


class Standing(NamedTuple):
    """A question that stands for as long as the session does, such as a subscription. Nobody waits
    for its answer: the generator is sent None at once.

    If the child ends it in good order it is asked again, after these pauses (seconds) in turn.
    `stale`: what was not told meanwhile may be the offer, which is then asked for as well.
    """

    request: Request
    pauses: tuple[float, ...] = ()
    stale: bool = False


class Inquiry(NamedTuple):
    """A question of the child's that came inside an answer: put to the host's own handlers, as if
    the child had asked it. The generator is sent their Reply or Failure."""

    method: str
    params: Any


Said: TypeAlias = Request | Notice
Heard: TypeAlias = Reply | Failure | Offer | None
Step: TypeAlias = Said | Offered | Spent | Tentative | Standing | Inquiry
Exchanges: TypeAlias = Generator[Step, Heard, Any]
Handshake: TypeAlias = Generator[Said | Tentative | Standing, Heard, Offer]


class Log(NamedTuple):
    """A notice that is a line for the log; `level` is a number of the logging module."""

    level: int
    text: str


class OfferStale(NamedTuple):
    """A notice that says: ask again what I offer."""


class Emitted(NamedTuple):
    """A notice that is an event of the extension's own, for the host's bus. `by` is the name it
    gives itself: one that speaks in another's name is not believed."""

    by: str
    kind: str
    schema_version: int
    payload: Any


class Told(NamedTuple):
    """A notice that is an event of the dialect's own, for whoever subscribed to such: its name and
    a value that the dialect has a type for."""

    kind: str
    payload: Any


class Unfit(NamedTuple):
    """A notice that cannot be used; `why` names the kind of fault, never what was said."""

    why: str


class Progress(NamedTuple):
    """A notice that says how far a call has come; `id` is that of its request."""

    id: Any
    progress: float
    total: float | None = None
    message: str = ""


Meaning: TypeAlias = Log | OfferStale | Emitted | Told | Unfit | Progress | None

OnProgress: TypeAlias = Callable[[Progress], None]
"""A caller's own; called in the step in which the notice was read, on the loop's thread."""


class ToolCall(NamedTuple):
    """The params of the operation `call_tool`, which every dialect words in its own way."""

    name: str
    arguments: Any
    context: Mapping[str, Any] = NONE
    tool: Tool | None = None
    spec: Spec | None = None


class HookCall(NamedTuple):
    """The params of the operation `hook`: which one, and what is about to happen or happened."""

    name: str
    event: Mapping[str, Any]


class HookAnswer(NamedTuple):
    """What a hook made of an event, in the words that every dialect with hooks is read into.

    `override` is laid over the event for those that come later; `decision` is what it thinks
    should be done (allow, block, transform), `transformed_body` what with. `confirm` is a question
    that a person has to answer before it may happen; `inject` is text to be added. `final`: nobody
    else is asked.
    """

    abort: bool = False
    reason: str = ""
    override: Mapping[str, Any] = NONE
    decision: str | None = None
    transformed_body: Any = None
    do_not_reply_again: bool = False
    confirm: str | None = None
    inject: str | None = None
    final: bool = False


class StreamEvent(NamedTuple):
    """One decoded event of a stream; a terminal one ends it."""

    event: Any
    terminal: bool = False


class Bar(NamedTuple):
    """How far something is that an event of a stream speaks of, for a person who watches. `id`
    tells several apart; of `total` steps `current` are done, where that is known."""

    id: str
    label: str = ""
    current: float | None = None
    total: float | None = None
    message: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamKind:
    """How the events of one opening method travel.

    `notices` maps each notification method to the member that names its stream, or to None when
    the event belongs to whichever call of this kind is in flight. `key` is the member of the
    opening request's params that carries the same name. `ends` says whether the reply ends the
    stream, or merely acknowledges it and a terminal event ends it. `decode` may return None for
    an event it cannot read: warned about and skipped. `limit` tells from the params how many
    seconds an acknowledged stream may take in all; None: as long as it likes. `result` reads the
    reply that ends a stream, and raises one of our errors if it is none.
    """

    notices: Mapping[str, str | None]
    decode: Callable[[str, Any], StreamEvent | None]
    key: str | None = None
    ends: Literal["reply", "terminal"] = "reply"
    acknowledged: Callable[[Any, Any], bool] | None = None
    cancel: Callable[[Any, str], Said | None] | None = None
    limit: Callable[[Any], float | None] | None = None
    result: Callable[[Any], Any] | None = None

    @property
    def nameless(self) -> bool:
        """Whether its events belong to whichever call is in flight. Such a call keeps its place
        when its consumer leaves: what it still sends would pass for the next one's."""
        return None in self.notices.values()


class EventSink(NamedTuple):
    """An extension that wants to be told of the host's events whose kind begins with one of
    `kinds`, and how one is said. `limit` bounds the seconds it may take to take one in."""

    kinds: tuple[str, ...]
    notice: Callable[[Mapping[str, Any]], Notice]
    limit: float


class Row(NamedTuple):
    """An operation of one request: `request` returns the wire method and its params, `result` maps
    the result."""

    request: Callable[[Any], tuple[str, Any]]
    result: Callable[[Any], Any] | None = None


class Once(NamedTuple):
    """An operation whose first exchange is mostly its last, and which is worth being quick.

    `ask` words it: a wire method and its params. `settle`, given the operation's params and the
    result, returns its value, raises one of our errors, or returns a generator of exchanges that
    goes on from there.
    """

    ask: Callable[[Any], tuple[str, Any]]
    settle: Callable[[Any, Any], Any]


Operation: TypeAlias = Row | Once | Callable[[Any], Exchanges]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The manners of a dialect. Each can be overruled in the config where DESIGN names a key.

    correlation  how a reply finds its call: by "id", or by "order"
    in_turn      one call at a time, whatever limits.max_in_flight says: an operation of several
                 exchanges must not be interrupted by another
    answers_first  while a question of the child's is open, our answer is the next thing it hears:
                 it may be a plain loop that takes whatever comes for that answer
    abandon      a call given up: "drop" its late reply, or "end" the session, since by order a
                 late reply would answer the next question
    noise        a frame that is no message: "skip" it, or "fatal"
    first_id     the first number; `ids_continue` when a new process goes on counting
    retry        "once" sends a call again that died with its process
    tools        known from the "handshake", or already from the "manifest"
    start        "eager", or "lazy": at first use
    environment  "filtered", "minimal" (with `variables`) or "declared"
    tells        variables that tell a child about itself: name → "extension" (its id),
                 "host_version", or "state_folder" (a folder of its own, made before it starts)
    limits       seconds and sizes; `method_limits` where a method, or an operation by its neutral
                 name, has its own
    time_limit   the limit on calls holds for the whole "call", or for each "exchange" of it. A
                 timeout that a caller gives always holds for the whole
    patience     a call that reports progress has its time limit anew with each report, up to so
                 many times that limit in all; 1: it has not. A timeout that a caller gives stays
    own_name     what an extension calls itself in its handshake is "free", or must be "unique"
                 among the extensions of this dialect in one host
    ladder       how a process is asked to end; SIGKILL for the whole tree is always the last step
    private      what passes may be somebody's words: what a child wrote is shown neither in our
                 errors nor in the log above DEBUG
    """

    limits: Limits
    ladder: tuple[LadderStep, ...]
    correlation: Literal["id", "order"] = "id"
    in_turn: bool = False
    answers_first: bool = False
    abandon: Literal["drop", "end"] = "drop"
    noise: Literal["skip", "fatal"] = "skip"
    first_id: int = 0
    ids_continue: bool = False
    retry: Literal["never", "once"] = "never"
    tools: Literal["handshake", "manifest"] = "handshake"
    start: Literal["eager", "lazy"] = "eager"
    environment: Literal["filtered", "minimal", "declared"] = "filtered"
    variables: tuple[str, ...] = ()
    tells: Mapping[str, str] = field(default_factory=nothing)
    method_limits: Mapping[str, float] = field(default_factory=nothing)
    time_limit: Literal["call", "exchange"] = "call"
    patience: int = 1
    own_name: Literal["free", "unique"] = "free"
    restart: Restart = Restart(strategy="never")
    breaker: Breaker | None = None
    private: bool = False


def method_unknown(request: Request) -> Failure:
    """JSON-RPC's answer to a question nobody here can answer."""
    return Failure(request.id, f"method not found: {request.method}", -32601)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One dialect, whole. See the module's docstring for what each part is.

    `operations` is keyed by neutral names (call_tool, list_tools, hook, health); `methods` by wire
    methods that are more than one exchange, or more than their params. `withdraw` words "never
    mind" for a call that timed out or was cancelled. `refuse` words our answer to a question for
    which nobody registered a handler. `fallback` is the handshake with a fresh process when the
    first one died of the usual one. `closed` dialects know no other methods than those in
    `methods`. `result_reader` reads tool results, and `error_result` makes one of an error, for
    `ext.tools.call`. `sink` tells which of the host's events an extension wants, if it wants any.
    `files` knows the pieces of files in a result, for whoever wants them written. `looks_at` tells
    whether an extension that has a hook wants it for this very event. `show` puts an event of a
    stream before a person: as progress, or as text. `options` are the config's for this dialect.
    """

    name: str
    versions: tuple[str, ...]
    framing: Callable[[int], Framing]
    codec: Callable[[Role], Codec]
    handshake: Callable[[Introduction], Handshake]
    traits: Traits
    operations: Mapping[str, Operation] = field(default_factory=nothing)
    methods: Mapping[str, Operation] = field(default_factory=nothing)
    closed: bool = False
    streams: Mapping[str, StreamKind] = field(default_factory=nothing)
    notices: Mapping[str, Callable[[Any], Meaning]] = field(default_factory=nothing)
    questions: Mapping[str, Question] = field(default_factory=nothing)
    withdraw: Callable[[Request, str], Said | None] | None = None
    refuse: Callable[[Request], Reply | Failure] = method_unknown
    fallback: Callable[[Introduction], Handshake] | None = None
    facets: Mapping[str, Callable[[Caller], Any]] = field(default_factory=nothing)
    manifest_names: tuple[str, ...] = ()
    result_reader: ResultReader = VALUE_RESULT
    error_result: Callable[[ExthostError], Any] | None = None
    sink: Callable[[Spec], EventSink | None] | None = None
    files: Callable[[Any], Sequence[Fragment]] | None = None
    looks_at: Callable[[Spec, str, Mapping[str, Any]], bool] | None = None
    show: Callable[[Any], Bar | str | None] | None = None
    options: Mapping[str, Option] = field(default_factory=nothing)


def expect(heard: Heard, method: str) -> Any:
    """The result in a reply; the extension's refusal as CallFailed. For use in generators."""
    if isinstance(heard, Reply):
        return heard.result
    assert isinstance(heard, Failure), "the session answers a Request with a Reply or a Failure"
    raise refusal(heard, method)


def refusal(failure: Failure, method: str) -> CallFailed:
    """The extension's no, as an error."""
    code = "" if failure.code is None else f" (code {failure.code})"
    said = failure.message if failure.message.strip() else "it does not say why"
    return CallFailed(
        "X0701",
        f"{method} was answered with an error{code}: {said}",
        error_code=failure.code,
        error_message=failure.message,
        data=failure.data,
        help="this is the extension's own answer; its arguments or its log tell why",
    )


def initialized(heard: Heard, method: str = "initialize") -> Any:
    """The result of the question a handshake begins with. Raises HandshakeFailed for a no."""
    try:
        return expect(heard, method)
    except CallFailed as refused:
        raise HandshakeFailed(
            "X0502",
            f"it refused to initialize: {refused.error_message or 'it does not say why'}",
            help="its config, or its own log, tells what it is missing",
        ) from None
