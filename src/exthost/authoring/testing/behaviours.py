"""The ways in which the hostile extension misbehaves: a function for each value of `do`.

A command is a JSON object such as `{"do": "die", "code": 3}`: `do` names a function of this module,
and the other members are its arguments. Each function replies to the host through a `ReplyPort`,
which knows the dialect. No function sleeps: a test that needs a late reply sends `keep`, and later
`release`, which sends the reply.
"""

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias

from exthost.model.messages import Id, Request

Command: TypeAlias = Mapping[str, Any]

# `spew` replaces these numbers in its bytes by the id of the current request, the id after it and
# the id before it.
ID, NEXT, PREVIOUS = 4242424242, 4242424243, 4242424241

# The size of one write of a flood.
_BLOCK_BYTES = 64 * 1024


class ReplyPort(Protocol):
    """Sends the messages of a behaviour to the host, in its dialect. `id` is the id of the request
    that is answered."""

    def reply(self, id: Id | None, value: Any) -> None:
        """Send a reply with this value."""

    def fail(self, id: Id | None, text: str) -> None:
        """Send an error reply with this message."""

    def correct_frame(self, id: Id | None, value: Any) -> bytes:
        """Return the frame of a correct reply: to a request of the handshake the reply that the
        dialect requires, to any other request this value."""

    def request_frame(self) -> bytes:
        """Return the frame of a request to the host."""


def write(data: bytes, fd: int = 1) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def wait_forever() -> NoReturn:
    while True:
        signal.pause()


def finish(ending: str, port: ReplyPort, id: Id | None, value: Any = None) -> None:
    """End a behaviour: "answer" replies with `value`, "die" exits and "hang" waits forever. Any
    other text does nothing, so the request is not answered."""
    if ending == "answer":
        port.reply(id, value)
    elif ending == "die":
        os._exit(3)
    elif ending == "hang":
        wait_forever()


# -- replies ------------------------------------------------------------------------------------


def echo(port: ReplyPort, id: Id | None, command: Command) -> None:
    port.reply(id, command.get("value"))


def refuse(port: ReplyPort, id: Id | None, command: Command) -> None:
    port.fail(id, command.get("text", "no"))


def spew(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Write arbitrary bytes to `fd`, which is 1 (the default) or 2.

    `out` is a list of [bytes in hexadecimal, how often]. With `bytewise`, each byte is written by a
    separate call. `then` is how the behaviour ends (see `finish`).
    """
    fd, bytewise = command.get("fd", 1), command.get("bytewise", False)
    for text, times in command["out"]:
        piece = fill_ids(bytes.fromhex(text), id)
        if bytewise:
            for byte in piece * times:
                write(bytes([byte]), fd)
            continue
        pieces_per_write = max(1, _BLOCK_BYTES // max(1, len(piece)))
        block = piece * min(times, pieces_per_write)
        while times > 0:
            write(block if times >= pieces_per_write else piece * times, fd)
            times -= pieces_per_write
    finish(command.get("then", "answer"), port, id, "spewed")


def fill_ids(piece: bytes, id: Id | None) -> bytes:
    """Return the bytes with the placeholders ID, NEXT and PREVIOUS replaced by ids. The length does
    not change, because the bytes may begin with a length prefix."""
    if isinstance(id, int):
        for placeholder, number in ((ID, id), (NEXT, id + 1), (PREVIOUS, id - 1)):
            piece = piece.replace(b"%d" % placeholder, b"%10d" % number)
    return piece


def half(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Write the first half of a correct reply. `then` may also be "close": close stdout, and keep
    running."""
    frame = port.correct_frame(id, command.get("value"))
    write(frame[: len(frame) // 2])
    if command.get("then") == "close":
        os.close(1)
        wait_forever()
    finish(command.get("then", "die"), port, id)


# The ids and values of the replies that `keep` did not send.
_postponed: list[tuple[Id | None, Any]] = []


def keep(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Do not reply yet; `release` sends the reply."""
    _postponed.append((id, command.get("value")))


def release(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Send the replies that `keep` postponed, the last one first. Then reply to this request with
    their number."""
    late_replies = _postponed[::-1]
    _postponed.clear()
    for late_id, value in late_replies:
        port.reply(late_id, value)
    port.reply(id, len(late_replies))


def ask(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Send the host at least `times` requests, in blocks, without reading its replies."""
    request = port.request_frame()
    block = request * max(1, _BLOCK_BYTES // len(request))
    for _ in range(command["times"] * len(request) // len(block) + 1):
        write(block)
    finish(command.get("then", "answer"), port, id, "asked")


# -- pipes --------------------------------------------------------------------------------------


def close(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Close the file descriptors `fds`, reply if stdout is still open, and keep running."""
    for fd in command["fds"]:
        os.close(fd)
    if 1 not in command["fds"]:
        port.reply(id, "closed")
    wait_forever()


def deaf(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Reply, and never read stdin again."""
    port.reply(id, "deaf from now on")
    wait_forever()


# -- processes ----------------------------------------------------------------------------------


def die(port: ReplyPort, id: Id | None, command: Command) -> None:
    write(b"exiting, as requested\n", 2)
    os._exit(command.get("code", 3))


def kill(port: ReplyPort, id: Id | None, command: Command) -> None:
    os.kill(os.getpid(), command["signal"])
    wait_forever()


def hang(port: ReplyPort, id: Id | None, command: Command) -> None:
    wait_forever()


def pid(port: ReplyPort, id: Id | None, command: Command) -> None:
    port.reply(id, os.getpid())


def fork(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Start a process that keeps all three pipes open, and reply with its pid.

    The new process is in the same process group. With `daemon` it is a daemon in a new session
    (double fork, setsid), which ignores SIGTERM, SIGHUP and SIGINT. With `then` = "die" this
    process exits after the reply.
    """
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        if command.get("daemon"):
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            if os.fork() != 0:
                os._exit(0)
        write(b"%d" % os.getpid(), write_end)
        os.close(write_end)
        wait_forever()
    os.close(write_end)
    child = int(os.read(read_end, 32))
    os.close(read_end)
    if command.get("then") == "die":
        port.reply(id, child)
        os._exit(3)
    port.reply(id, child)


Behaviour: TypeAlias = Callable[[ReplyPort, Id | None, Command], None]

BEHAVIOURS: Mapping[str, Behaviour] = {
    behaviour.__name__: behaviour
    for behaviour in (
        ask, close, deaf, die, echo, fork, half, hang, keep, kill, pid, refuse, release, spew,
    )
}  # fmt: skip


def perform(port: ReplyPort, request: Request, command: Command) -> None:
    """Run the function that the command names in `do`, by default `echo`."""
    BEHAVIOURS[command.get("do", "echo")](port, request.id, command)
