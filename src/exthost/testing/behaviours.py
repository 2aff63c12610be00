"""What the hostile extension can do: one function for each value of `do` in a command.

The functions reach the host only through `ReplyPort`, which knows the dialect. None of them sleeps
to be late: `keep` holds a reply back until `release` is called.
"""

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias

from exthost.messages import Id, Request

Command: TypeAlias = Mapping[str, Any]

# Placeholders in a test's bytes for the id of the current request and the ids before and after it.
ID, NEXT, PREVIOUS = 4242424242, 4242424243, 4242424241

# The size of one write of a flood.
_BLOCK_BYTES = 64 * 1024


class ReplyPort(Protocol):
    """Replies to the host, in its dialect."""

    def reply(self, id: Id | None, value: Any) -> None: ...
    def fail(self, id: Id | None, text: str) -> None: ...
    def reply_frame(self, id: Id | None, value: Any) -> bytes: ...
    def request_frame(self) -> bytes: ...


def write(data: bytes, fd: int = 1) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def wait_forever() -> NoReturn:
    while True:
        signal.pause()


def finish(what: str, port: ReplyPort, id: Id | None, value: Any = None) -> None:
    """End a behaviour: "answer", "die" or "hang"."""
    if what == "answer":
        port.reply(id, value)
    elif what == "die":
        os._exit(3)
    elif what == "hang":
        wait_forever()


# -- replies ------------------------------------------------------------------------------------


def echo(port: ReplyPort, id: Id | None, command: Command) -> None:
    port.reply(id, command.get("value"))


def refuse(port: ReplyPort, id: Id | None, command: Command) -> None:
    port.fail(id, command.get("text", "no"))


def spew(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Write any bytes: `out` is a list of [hex, times], `fd` is 1 or 2. With `bytewise` each byte
    is a write."""
    fd, bytewise = command.get("fd", 1), command.get("bytewise", False)
    for text, times in command["out"]:
        piece = numbered(bytes.fromhex(text), id)
        if bytewise:
            for byte in piece * times:
                write(bytes([byte]), fd)
            continue
        at_once = max(1, _BLOCK_BYTES // max(1, len(piece)))
        block = piece * min(times, at_once)
        while times > 0:
            write(block if times >= at_once else piece * times, fd)
            times -= at_once
    finish(command.get("then", "answer"), port, id, "spewed")


def numbered(piece: bytes, id: Id | None) -> bytes:
    """Return the bytes with the placeholders replaced by ids. The length stays the same, since a
    length prefix may count it."""
    if isinstance(id, int):
        for placeholder, number in ((ID, id), (NEXT, id + 1), (PREVIOUS, id - 1)):
            piece = piece.replace(b"%d" % placeholder, b"%10d" % number)
    return piece


def half(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Write the first half of a correct reply."""
    whole = port.reply_frame(id, command.get("value"))
    write(whole[: len(whole) // 2])
    if command.get("then") == "close":
        os.close(1)
        wait_forever()
    finish(command.get("then", "die"), port, id)


_postponed: list[tuple[Id | None, Any]] = []


def keep(port: ReplyPort, id: Id | None, command: Command) -> None:
    _postponed.append((id, command.get("value")))


def release(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Send the replies that were held back, the last one first; then reply to this request."""
    held = _postponed[::-1]
    _postponed.clear()
    for late, value in held:
        port.reply(late, value)
    port.reply(id, len(held))


def ask(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Send the host `times` requests, and read none of its replies."""
    question = port.request_frame()
    block = question * max(1, _BLOCK_BYTES // len(question))
    for _ in range(command["times"] * len(question) // len(block) + 1):
        write(block)
    finish(command.get("then", "answer"), port, id, "asked")


# -- pipes --------------------------------------------------------------------------------------


def close(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Close some of its pipes and keep running."""
    for fd in command["fds"]:
        os.close(fd)
    if 1 not in command["fds"]:
        port.reply(id, "closed")
    wait_forever()


def deaf(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Reply, and never read again."""
    port.reply(id, "deaf from now on")
    wait_forever()


# -- processes ----------------------------------------------------------------------------------


def die(port: ReplyPort, id: Id | None, command: Command) -> None:
    write(b"dying, as I was told\n", 2)
    os._exit(command.get("code", 3))


def kill(port: ReplyPort, id: Id | None, command: Command) -> None:
    os.kill(os.getpid(), command["signal"])
    wait_forever()


def hang(port: ReplyPort, id: Id | None, command: Command) -> None:
    wait_forever()


def pid(port: ReplyPort, id: Id | None, command: Command) -> None:
    port.reply(id, os.getpid())


def fork(port: ReplyPort, id: Id | None, command: Command) -> None:
    """Leave a process that keeps all three pipes open: in the same group, or a daemon in its own
    session (double fork, setsid, all signals ignored that can be). Replies with its pid."""
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
    """Do what the command says; an empty command is `echo`."""
    BEHAVIOURS[command.get("do", "echo")](port, request.id, command)
