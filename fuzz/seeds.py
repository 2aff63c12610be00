"""The first inputs of the fuzzer: messages that an extension and its host really exchange."""

from pathlib import Path

from exthost.authoring.testing.peers import PEERS
from exthost.dialects import find
from exthost.dialects.codec import Positional, Role
from exthost.errors import UsageError
from exthost.model.messages import Failure, Message, Notification, Reply, Request


def plant(name: str, folder: Path) -> None:
    """Write seeds for a target; the first two bytes choose a cap and the size of pieces."""
    dialect_name, _, role_name = name.rpartition("-")
    peer, dialect = PEERS[dialect_name], find.find_dialect(dialect_name)
    speaker = (
        Role.GUEST if role_name == "host" else Role.HOST
    )  # the target reads what the other side sends
    messages: list[Message] = [
        Request(peer.method, peer.wrap_command({"do": "echo"}), 1),
        Reply(1, peer.wrap_value({"a": [1, 2.5, None, "ü"]})),
        Failure(1, "no", -32601, {"why": 1}),
        Notification("log", {"level": "info", "message": "hello"}),
    ]
    messages += [each for each in (peer.notification, peer.host_request) if each is not None]
    for method in (peer.last_request, *_handshake_methods(dialect_name)):
        answer = (
            peer.answer_handshake(Request(method, {}, 0), {}) if peer.manifest is None else None
        )
        messages += [answer] if answer is not None else []
    framing, stream = dialect.framing(1 << 20), b""
    for n, message in enumerate(messages):
        codec = dialect.codec(speaker)
        if isinstance(codec, Positional):
            codec.expect(peer.method)
            codec.decode(b"")
        try:
            frame = framing.wrap(codec.encode(message))
        except (UsageError, AssertionError):
            continue  # not every dialect has every message
        stream += frame
        (folder / f"{n}").write_bytes(b"\4\0" + frame)
        (folder / f"{n}-bytewise").write_bytes(b"\4\1" + frame)
    (folder / "all").write_bytes(b"\4\0" + stream)
    (folder / "garbage").write_bytes(b"\4\3stray\n\r\n\xef\xbb\xbf{}\n[[[[1e999,NaN\n\xff\n")


def _handshake_methods(dialect: str) -> tuple[str, ...]:
    return {"morphir": ("initialize",)}.get(dialect, ())
