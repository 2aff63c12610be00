"""Plays the vectors of any dialect. A dialect adds `tests/vectors/<name>.toml` and is done.

The file begins with `module`, where its DIALECT is, and where the dialect needs one, `manifest`,
the text of a manifest (a vector may have its own). Then, as many as it likes of

    [[read]]        bytes → messages. `payload` (framed for you) or `bytes` (as on the pipe), or
                    either with `_hex`; `means`: a message, or a list of them (see notation.py).
                    `reader` = "host" (default) or "guest". `canonical = true`: the other role
                    writes these very bytes. `after`: what was said before, by the reader, or as
                    in a script by `>` the host or `<` the child. `cap`,
                    `end` (a part of why the end is no clean end), `answers` (the call that an
                    over-long frame would have answered), `alone = true` if it cannot come twice.
    [[handshake]]   `script` → `offer`. `config`, `options`, `handlers` are JSON.
    [[refusal]]     `script` → `error`, `code`, `says`.
    [[operation]]   `operation` (a neutral one) or `method`, `params`; `script` → `result`, or as
                    a refusal. In a process it follows the file's first handshake.
    [[meaning]]     `notice` → `means`: what a notification is to the host ("" for nothing).
    [[value]]       `function` (module:name) of the bytes `given` or `given_hex` → `result`.

In a script `>` is what the host says, `<` what the child says, `!` what only a real process can do
(see scripted_child.py). Every vector has a `name`, and `shows` requirement ids. One with `limits`
is played on a clock that stands still, and moves on by the limit at each `! silence`.
"""

import importlib
import json
import logging
import sys
import tomllib
from collections.abc import Generator, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from exthost.dialects import find
from exthost.dialects.base import Dialect, method_unknown
from exthost.dialects.calls import ToolCall
from exthost.dialects.codec import Codec, Positional
from exthost.dialects.manifest_format import Found
from exthost.dialects.meanings import Log, Progress, Unusable
from exthost.dialects.steps import (
    AskHost,
    GetOffer,
    MaybeMore,
    RetireProcess,
    Simple,
    Subscribe,
    TryRequest,
)
from exthost.errors import CallFailed, ExthostError, ProtocolViolation
from exthost.events import Bus, LogLine
from exthost.extension.extension import Extension
from exthost.messages import Noise, Notification, Reply, Request
from exthost.model import HandshakeContext, Limits, Offer, Role, Spec, Tool
from exthost.session.inbound import Handler
from exthost.wire.framing import EVIDENCE_BYTES, Broken, Item, Skipped
from tests.dialects.notation import Garbage, Stated, messages_in, parse, parse_message
from tests.dialects.scripted_child import COMPLAINT, SILENCE
from tests.extensions.clock import installed_clock

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests" / "vectors", ROOT / "tests" / "toys")
TABLES = ("read", "handshake", "refusal", "operation", "meaning", "value")
CAP = 2**20

# A child here imports half of the package before it answers.
_GENEROUS = {"start": 120.0, "handshake": 60.0, "call": 60.0}


@dataclass(frozen=True)
class Vector:
    """One table of a vector file."""

    file: str
    module: str
    table: str
    row: dict[str, Any]
    first_handshake: dict[str, Any] | None = None
    manifest: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.row['name']}"

    @property
    def dialect(self) -> Dialect:
        found = importlib.import_module(self.module).DIALECT
        assert isinstance(found, Dialect)
        return found

    def json(self, key: str, default: Any = None) -> Any:
        return json.loads(self.row[key]) if key in self.row else default

    def spec(self, argv: tuple[str, ...] = ("scripted",)) -> Spec:
        """The extension that this vector is about, with its manifest."""
        spec = Spec(
            id="scripted",
            argv=argv,
            dialect=self.dialect.name,
            cwd=str(ROOT),
            # The child is one of our tests and needs their variables, whatever its dialect has.
            env_policy="filtered",
            config=self.json("config", {}),
            options=self.json("options", {}),
            limits=Limits(**(_GENEROUS | self.row.get("limits", {}))),
        )
        text = self.row.get("manifest", self.manifest)
        if not text:
            return spec
        format = find.manifest_format(self.dialect.name)
        assert format is not None and format.join is not None
        return format.join(spec, Found(path="/manifest", folder="/", data=text.encode()))


@cache
def load() -> tuple[Vector, ...]:
    """Every vector of every file that names a dialect."""
    found = []
    for path in sorted(path for folder in FOLDERS for path in folder.glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        module = tables.pop("module", None)
        if module is None:
            continue
        manifest = tables.pop("manifest", "")
        unknown = tables.keys() - set(TABLES)
        assert not unknown, f"{path.name} has tables that nobody plays: {unknown}"
        first = next(iter(tables.get("handshake", ())), None)
        found += [
            Vector(path.stem, module, table, row, first, manifest)
            for table, rows in tables.items()
            for row in rows
        ]
    return tuple(found)


def vectors(*tables: str) -> list[Vector]:
    return [vector for vector in load() if vector.table in tables]


# -- reading ---------------------------------------------------------------------------------


class Reading:
    """A vector of the table `read`."""

    def __init__(self, vector: Vector) -> None:
        row = vector.row
        self.dialect = vector.dialect
        self.role = Role(row.get("reader", "host"))
        self.cap: int = row.get("cap", CAP)
        means = row["means"]
        self.means = [parse(line) for line in ([means] if isinstance(means, str) else means)]
        self.after = [self._spoken(line) for line in row.get("after", ())]
        self.bytes = self._bytes(row)

    def _spoken(self, line: str) -> tuple[Role, Stated]:
        signs = {"> ": Role.HOST, "< ": Role.GUEST}
        role = signs.get(line[:2])
        return (self.role, parse_message(line)) if role is None else (role, parse_message(line[2:]))

    def _both(self, times: int = 1) -> dict[Role, Codec]:
        """The codecs of both ends, after what went before."""
        codecs = {role: self.dialect.codec(role) for role in Role}
        for _ in range(times):
            for role, stated in self.after:
                other = Role.GUEST if role is Role.HOST else Role.HOST
                said = codecs[role].encode(stated.message())
                listener = codecs[other]
                if isinstance(listener, Positional) and stated.kind == "Request":
                    listener.expect(stated.fields["method"])
                listener.decode(said)
        return codecs

    def _bytes(self, row: dict[str, Any]) -> bytes:
        (key,) = (key for key in row if key.removesuffix("_hex") in ("payload", "bytes"))
        text = row[key]
        data = bytes.fromhex(text) if key.endswith("_hex") else text.encode()
        if key.startswith("bytes"):
            return data
        framing = self.dialect.framing(max(self.cap, len(data)))
        return framing.wrap(data)

    def read(self, chunks: Iterable[bytes], times: int = 1) -> tuple[list[Any], Broken | None]:
        """What the reader makes of these bytes."""
        framing, codec = self.dialect.framing(self.cap), self._both(times)[self.role]
        heard: list[Any] = []
        for chunk in chunks:
            for item in framing.feed(chunk):
                heard += _decoded(codec, item)
                if isinstance(heard[-1], ProtocolViolation):
                    return heard, None
        return heard, framing.end()

    def write(self) -> bytes:
        """The same messages, written by the other role."""
        other = Role.GUEST if self.role is Role.HOST else Role.HOST
        framing, codec = self.dialect.framing(self.cap), self._both()[other]
        written = b""
        for stated in self.means:
            assert isinstance(stated, Stated), "only messages can be canonical"
            payload = codec.encode(stated.message())
            written += framing.wrap(payload)
        return written

    def write_request(self) -> bytes | None:
        """The same by the short cut that every call takes; None if it is no single request."""
        if len(self.means) != 1 or not isinstance(stated := self.means[0], Stated):
            return None
        message = stated.message()
        if not isinstance(message, Request) or message.id is None or self.role is Role.HOST:
            return None
        codec = self.dialect.codec(Role.HOST)
        payload = codec.request(message.method, message.params, message.id)
        return self.dialect.framing(self.cap).wrap(payload)

    def answers(self, skipped: Skipped) -> Any:
        return self.dialect.codec(self.role).reply_id_in_prefix(skipped.head)


def _decoded(codec: Codec, item: Item) -> Sequence[object]:
    if isinstance(item, Skipped | Broken):
        return [item]
    frame = bytes(item)
    try:
        said = messages_in(codec.decode(item))
    except ProtocolViolation as violation:
        return [violation]
    for one in said:
        if isinstance(one, Noise):
            assert one.data == frame[:EVIDENCE_BYTES], "noise must be kept as it was"
    return said


def fit(expected: list[Stated | Garbage], heard: list[Any]) -> bool:
    return len(expected) == len(heard) and all(
        stated.fits(item) for stated, item in zip(expected, heard, strict=True)
    )


# -- scripts, without a process --------------------------------------------------------------


def drive(
    steps: Generator[Any, Any, Any],
    script: list[str],
    offer: Any = None,
    handlers: dict[str, Any] | None = None,
) -> Any:
    """Let a generator of exchanges play the host's part; returns its value or raises its error.

    What the session serves beside it (the child's own questions and notices, and our answers to
    those) and what only a process can do is passed over. A tentative question whose answer the
    script does not have stays without one.
    """
    lines = _exchanges(script)
    heard: Any = None
    while True:
        try:
            said = steps.send(heard)
            while isinstance(said, GetOffer | RetireProcess | AskHost):
                said = steps.send(_inside(said, offer, handlers or {}))
        except StopIteration as done:
            assert not lines, f"the script has more than was said: {lines}"
            return done.value
        assert lines, f"said more than the script has: {said}"
        sign, stated = lines.pop(0)
        assert sign == ">", f"said {said} where the child was to say {stated}"
        spoken = said.request if isinstance(said, TryRequest | Subscribe) else said
        _assert_said(stated, spoken)
        heard = None
        if isinstance(spoken, Request) and not isinstance(said, Subscribe):
            answered = bool(lines) and lines[0][0] == "<"
            assert answered or isinstance(said, TryRequest), f"the script does not answer {said}"
            heard = lines.pop(0)[1].message() if answered else None


def _inside(said: Any, offer: Any, handlers: dict[str, Any]) -> Any:
    """What the session itself answers."""
    if isinstance(said, AskHost):
        asked = Request(said.method, said.params)
        known = said.method in handlers
        return Reply(None, handlers[said.method]) if known else method_unknown(asked)
    return offer if isinstance(said, GetOffer) else None


def _exchanges(script: list[str]) -> list[tuple[str, Stated]]:
    told = []
    for line in script:
        sign, _, rest = line.partition(" ")
        assert sign in "<>!", f"not a step: {line!r}"
        if sign == "!":
            continue
        stated = parse_message(rest)
        aside = ("Request", "Notification") if sign == "<" else ("Reply", "Failure")
        if stated.kind not in aside:
            told.append((sign, stated))
    return told


def _assert_said(stated: Stated, said: Any) -> None:
    """As `fits`, but a generator leaves the numbering to the session."""
    fields = {name: value for name, value in stated.fields.items() if name != "id"}
    assert Stated(stated.kind, fields).fits(said), f"expected {stated}, said {said}"


def handshake_without_process(vector: Vector) -> Any:
    spec = vector.spec()
    context = HandshakeContext(
        extension="scripted",
        config=spec.config,
        options=spec.options,
        host_version="1.2.3",
        manifest=spec.manifest,
        wire_id=spec.wire_id,
        handles=frozenset(vector.json("handlers", {})),
    )
    return drive(vector.dialect.handshake(context), vector.row["script"])


def operation_without_process(vector: Vector) -> Any:
    dialect, row = vector.dialect, vector.row
    params = vector.json("params")
    if "operation" in row:
        operation = dialect.operations[row["operation"]]
        if row["operation"] == "call_tool":
            tools = {tool.name: tool for tool in vector.spec().tools}
            name, context = params["name"], params.get("context", {})
            params = ToolCall(name, params["arguments"], context, tools.get(name))
    else:
        operation = dialect.methods[row["method"]]
    if isinstance(operation, Simple):
        return drive(_one_exchange(operation, params), row["script"])
    handlers = vector.json("handlers", {})
    if isinstance(operation, MaybeMore):
        return drive(_once(operation, params), row["script"], _offer_before(vector), handlers)
    return drive(operation(params), row["script"], _offer_before(vector), handlers)


def _offer_before(vector: Vector) -> Any:
    """What the file's first handshake comes to, with this vector's own config and options."""
    if vector.first_handshake is None:
        return None
    own = {key: vector.row[key] for key in ("config", "options") if key in vector.row}
    first = vector.first_handshake | own
    return handshake_without_process(replace(vector, table="handshake", row=first))


def _once(operation: MaybeMore, params: Any) -> Generator[Any, Any, Any]:
    heard = yield Request(*operation.request(params))
    if type(heard).__name__ == "Failure":
        raise CallFailed("X0701", heard.message, error_message=heard.message)
    value = operation.finish(params, heard.result)
    return (yield from value) if isinstance(value, Generator) else value


def _one_exchange(row: Simple, params: Any) -> Generator[Any, Any, Any]:
    heard = yield Request(*row.request(params))
    if type(heard).__name__ == "Failure":
        raise CallFailed("X0701", heard.message, error_message=heard.message)
    return row.result(heard.result) if row.result is not None else heard.result


# -- scripts, with a process -----------------------------------------------------------------


class Scripted:
    """An extension whose process plays a script. Use as `async with`."""

    def __init__(self, vector: Vector, script: list[str], folder: Path) -> None:
        path = folder / "script.json"
        path.write_text(json.dumps({"module": vector.module, "steps": script}), encoding="utf-8")
        spec = vector.spec((sys.executable, "-m", "tests.dialects.scripted_child", str(path)))
        bus = Bus()
        self.complaints: list[str] = []
        self._limit = max(vector.row.get("limits", {}).values(), default=0.0)
        self._exits = AsyncExitStack()
        bus.subscribe(LogLine, self._listen)
        answers = vector.json("handlers", {})
        handlers = {method: _answering(result) for method, result in answers.items()}
        self._make = partial(Extension, spec, vector.dialect, bus=bus, handlers=handlers)

    def _listen(self, line: LogLine) -> None:
        if line.source == "stderr" and line.text.startswith(COMPLAINT):
            self.complaints.append(line.text)
        if line.source == "stderr" and line.text == SILENCE:
            self._clock.move(self._limit)

    async def __aenter__(self) -> Extension:
        if self._limit:
            self._clock = self._exits.enter_context(installed_clock())
            self._clock.stop()
        extension = self._make()
        self._exits.push_async_callback(extension.close)
        return extension

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()
        assert not self.complaints


def _answering(result: Any) -> Handler:
    async def handler(params: Any) -> Any:
        return result

    return handler


async def operate(extension: Extension, vector: Vector) -> Any:
    """Run the vector's operation as a user would."""
    row, params = vector.row, vector.json("params")
    match row.get("operation"):
        case None:
            return await extension.call(row["method"], params)
        case "call_tool":
            context = params.get("context", {})
            result = await extension.call_tool(
                params["name"], params["arguments"], context=context, check=False
            )
            if result.error_reply is not None:
                raise result.error_reply
            return result.raw
        case "health":
            return await extension.check_health()
        case "list_tools":
            return [tool.name for tool in await extension.list_tools()]
        case other:
            raise AssertionError(f"the runner cannot run {other}")


# -- what is expected ------------------------------------------------------------------------


def assert_offer(vector: Vector, offer: Any) -> None:
    assert type(offer) is Offer
    stated = vector.json("offer")
    extra = stated.pop("extra", None)
    tools = tuple(Tool(**tool) for tool in stated.pop("tools", ()))
    lists = {key: tuple(value) for key, value in stated.items() if isinstance(value, list)}
    assert offer == Offer(**{**stated, **lists, "tools": tools})
    assert extra is None or dict(offer.extra) == extra


def assert_error(vector: Vector, error: ExthostError) -> None:
    row = vector.row
    assert (error.kind, error.code) == (row["error"], row["code"]), error
    assert row["says"] in error.message, error.message


def meaning(vector: Vector) -> str:
    """What a notice is to the host, as the vector writes it down."""
    notice = parse_message(vector.row["notification"]).message()
    assert isinstance(notice, Notification)
    read = vector.dialect.notifications.get(notice.method)
    meant = read(notice.params) if read is not None else None
    if isinstance(meant, Unusable):
        return f"Unusable {meant.why}"
    if isinstance(meant, Progress):
        return f"Progress {list(meant)}"
    if isinstance(meant, Log):
        return f"Log {logging.getLevelName(meant.level)} {meant.text}"
    return "" if meant is None else type(meant).__name__


def value(vector: Vector) -> Any:
    """What the vector's function makes of its bytes."""
    row = vector.row
    module, _, name = row["function"].partition(":")
    given = bytes.fromhex(row["given_hex"]) if "given_hex" in row else row["given"].encode()
    return getattr(importlib.import_module(module), name)(given)
