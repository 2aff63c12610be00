"""One target, fuzzed in a process of its own.

    python -m fuzz.target NAME [libFuzzer options] [corpus]

A target is a dialect in one role. Bytes go through its framing, in pieces, then its codec, and then
to whoever reads the messages: notices, events of streams, and in the host's role the handshake and
the operations of several exchanges. The framing must not raise at all; from the rest only our own
errors may come, and from the codec only ProtocolViolation.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import atheris

from exthost.config import spec_from_mapping
from exthost.config.discovery.configfile import read_named_manifest

with atheris.instrument_imports(include=["exthost"]):
    from exthost.authoring.testing.peers import PEERS, HostilePeer
    from exthost.dialects import find
    from exthost.dialects.base import Dialect
    from exthost.dialects.calls import HookCall, ToolCall
    from exthost.dialects.codec import Positional, Role
    from exthost.dialects.handshake_context import HandshakeContext
    from exthost.dialects.steps import (
        AskHost,
        GetOffer,
        TryRequest,
        as_generator,
    )
    from exthost.errors import ExthostError, ProtocolViolation
    from exthost.model.messages import Failure, Noise, Notification, Reply, Request
    from exthost.model.offer import Offer, Tool
    from exthost.wire.framing import Broken, Skipped

    # Dialects are imported when they are asked for; here that must be now.
    for one in PEERS:
        find.find_dialect(one)

# Small caps, so that the fuzzer gets past them; the largest of them lets most through.
CAPS = (0, 8, 64, 1024, 65536)


def names() -> list[str]:
    return [f"{name}-{role.name.lower()}" for name in PEERS for role in Role]


def target(name: str) -> Callable[[bytes], None]:
    """What is called with each input that the fuzzer thinks of."""
    dialect_name, _, role_name = name.rpartition("-")
    peer = PEERS[dialect_name]
    dialect, role = find.find_dialect(dialect_name), Role[role_name.upper()]
    context = _introduction(peer)

    def one_input(data: bytes) -> None:
        if len(data) < 2:
            return
        framing = dialect.framing(CAPS[data[0] % len(CAPS)])
        codec = dialect.codec(role)
        frames: list[bytes] = []
        for piece in _pieces(data[2:], data[1]):
            for item in framing.feed(piece):
                if isinstance(item, Skipped):
                    codec.reply_id_in_prefix(item.head)
                elif not isinstance(item, Broken):
                    frames.append(bytes(item))
        framing.end()
        _prepare(codec, peer, role)
        _hear(codec, frames, dialect)
        if role is Role.HOST:
            _operate(dialect, frames, context)

    return one_input


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    step = size or len(data) or 1
    return (data[at : at + step] for at in range(0, len(data), step))


def _prepare(codec: Any, peer: HostilePeer, role: Role) -> None:
    """Where only what was asked tells what an answer is, ask."""
    if role is Role.GUEST:
        if isinstance(codec, Positional):
            codec.expect(peer.method)
    else:
        for n in range(8):
            codec.request(peer.method, peer.wrap_command({}), n)


def _hear(codec: Any, frames: list[bytes], dialect: Dialect) -> None:
    """Each message, and what it means where it was not asked for."""
    for frame in frames:
        try:
            message = codec.decode(frame)
        except ProtocolViolation:
            return
        if isinstance(message, Notification):
            _notice(dialect, message)
        elif isinstance(message, Request):
            dialect.refuse(message)
        else:
            assert isinstance(message, tuple | Reply | Failure | Noise), message


def _operate(dialect: Dialect, frames: list[bytes], context: HandshakeContext) -> None:
    """The handshake, and what can be asked after it, answered with these frames."""
    _converse(dialect, dialect.handshake(context), frames)
    asked = {
        "call_tool": ToolCall(
            "generate" if dialect.has_fixed_methods else "do", {}, tool=Tool("do")
        ),
        "hook": HookCall("before_message", {}),
    }
    for name, operation in dialect.operations.items():
        _converse(dialect, as_generator(operation, asked.get(name), name), frames)
    for name, method in dialect.methods.items():
        _converse(dialect, as_generator(method, {}, name), frames)


def _notice(dialect: Dialect, notice: Notification) -> None:
    meaning = dialect.notifications.get(notice.method)
    if meaning is not None:
        meaning(notice.params)
    for kind in dialect.streams.values():
        if notice.method in kind.notifications:
            kind.decode(notice.method, notice.params)


def _converse(dialect: Dialect, steps: Any, frames: list[bytes]) -> None:
    """Answer each of its questions with the next frame that is an answer, as far as that goes."""
    codec, left = dialect.codec(Role.HOST), iter(frames)
    received: Any = None
    try:
        while True:
            output = steps.send(received)
            received = None
            if isinstance(output, TryRequest):
                output = output.request
            if isinstance(output, GetOffer):
                received = OFFER
            elif isinstance(output, AskHost):
                received = Failure(None, "nobody here answers that")
            elif isinstance(output, Request):
                codec.request(output.method, output.params, 1)
                received = next(
                    filter(None, (_answer(codec.decode(frame)) for frame in left)), None
                )
                if received is None:
                    steps.close()
                    return
    except (StopIteration, ExthostError):
        pass


def _answer(message: Any) -> Reply | Failure | None:
    if type(message) is tuple:
        return Reply(*message)
    return message if isinstance(message, Reply | Failure) else None


# What a handshake came to, for operations that go by it.
OFFER = Offer(
    name="fuzz",
    tools=tuple(map(Tool, ("plan", "generate", "detect", "validate", "preflight"))),
    extra={"plan": True},
)


def _introduction(peer: HostilePeer) -> HandshakeContext:
    manifest = None
    if peer.manifest is not None:
        with tempfile.TemporaryDirectory() as folder:
            name, text = peer.manifest
            (Path(folder) / name).write_text(text, encoding="utf-8")
            entry = {
                "name": "fuzz",
                "dialect": peer.dialect,
                "source": {"command": "none"},
                "manifest": str(Path(folder) / name),
            }
            manifest = read_named_manifest(spec_from_mapping(entry)).manifest
    return HandshakeContext(extension="fuzz", config={}, manifest=manifest, cwd="/", env={})


def main() -> None:
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, target(name))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
