"""What the hostile extension can do: a function each, named by the word `do` of a request.

They speak to the host only through `Mouth`, which knows the dialect; none of them knows which.
Nothing here sleeps in order to be late: `keep` holds an answer back until `release` is asked for.
"""

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias

from exthost.messages import Id, Request

Words: TypeAlias = Mapping[str, Any]

# Numbers that stand, in bytes made by a test, for the id of the request at hand and its neighbours.
ID, NEXT, PREVIOUS = 4242424242, 4242424243, 4242424241

# Written at a time where much is written.
_BLOCK_BYTES = 64 * 1024


class Mouth(Protocol):
    """The way back to the host, in its dialect."""

    def answer(self, id: Id | None, value: Any) -> None: ...
    def refuse(self, id: Id | None, text: str) -> None: ...
    def frame_of_answer(self, id: Id | None, value: Any) -> bytes: ...
    def frame_of_question(self) -> bytes: ...


def write(data: bytes, fd: int = 1) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def for_ever() -> NoReturn:
    while True:
        signal.pause()


def then(what: str, mouth: Mouth, id: Id | None, value: Any = None) -> None:
    """How a misdeed ends."""
    if what == "answer":
        mouth.answer(id, value)
    elif what == "die":
        os._exit(3)
    elif what == "hang":
        for_ever()


# -- words, wrong or right ----------------------------------------------------------------------


def echo(mouth: Mouth, id: Id | None, words: Words) -> None:
    mouth.answer(id, words.get("value"))


def refuse(mouth: Mouth, id: Id | None, words: Words) -> None:
    mouth.refuse(id, words.get("text", "no"))


def spew(mouth: Mouth, id: Id | None, words: Words) -> None:
    """Any bytes: `out` is a list of [hex, times]. `fd` 1 or 2, `bytewise` one at a time."""
    fd, bytewise = words.get("fd", 1), words.get("bytewise", False)
    for text, times in words["out"]:
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
    then(words.get("then", "answer"), mouth, id, "spewed")


def numbered(piece: bytes, id: Id | None) -> bytes:
    """The same with the numbers that stand for ids replaced; as long as before, since a length may
    stand before them."""
    if isinstance(id, int):
        for placeholder, number in ((ID, id), (NEXT, id + 1), (PREVIOUS, id - 1)):
            piece = piece.replace(b"%d" % placeholder, b"%10d" % number)
    return piece


def half(mouth: Mouth, id: Id | None, words: Words) -> None:
    """The beginning of the right answer."""
    whole = mouth.frame_of_answer(id, words.get("value"))
    write(whole[: len(whole) // 2])
    if words.get("then") == "close":
        os.close(1)
        for_ever()
    then(words.get("then", "die"), mouth, id)


_kept: list[tuple[Id | None, Any]] = []


def keep(mouth: Mouth, id: Id | None, words: Words) -> None:
    _kept.append((id, words.get("value")))


def release(mouth: Mouth, id: Id | None, words: Words) -> None:
    """The answers that were held back, late or not, the last first; then this one."""
    held = _kept[::-1]
    _kept.clear()
    for late, value in held:
        mouth.answer(late, value)
    mouth.answer(id, len(held))


def ask(mouth: Mouth, id: Id | None, words: Words) -> None:
    """Ask the host so often, and read none of what it says to that."""
    question = mouth.frame_of_question()
    block = question * max(1, _BLOCK_BYTES // len(question))
    for _ in range(words["times"] * len(question) // len(block) + 1):
        write(block)
    then(words.get("then", "answer"), mouth, id, "asked")


# -- pipes --------------------------------------------------------------------------------------


def close(mouth: Mouth, id: Id | None, words: Words) -> None:
    """Close some of its pipes and live on."""
    for fd in words["fds"]:
        os.close(fd)
    if 1 not in words["fds"]:
        mouth.answer(id, "closed")
    for_ever()


def deaf(mouth: Mouth, id: Id | None, words: Words) -> None:
    """Answer, and never read again."""
    mouth.answer(id, "deaf from now on")
    for_ever()


# -- life and death -----------------------------------------------------------------------------


def die(mouth: Mouth, id: Id | None, words: Words) -> None:
    write(b"dying, as I was told\n", 2)
    os._exit(words.get("code", 3))


def kill(mouth: Mouth, id: Id | None, words: Words) -> None:
    os.kill(os.getpid(), words["signal"])
    for_ever()


def hang(mouth: Mouth, id: Id | None, words: Words) -> None:
    for_ever()


def pid(mouth: Mouth, id: Id | None, words: Words) -> None:
    mouth.answer(id, os.getpid())


def fork(mouth: Mouth, id: Id | None, words: Words) -> None:
    """Leave a process that holds all three pipes: in its group, or a daemon in a session of its own
    (double fork, setsid, deaf to all that can be ignored). Answers with its pid."""
    told_read, told_write = os.pipe()
    if os.fork() == 0:
        if words.get("daemon"):
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            if os.fork() != 0:
                os._exit(0)
        write(b"%d" % os.getpid(), told_write)
        os.close(told_write)
        for_ever()
    os.close(told_write)
    child = int(os.read(told_read, 32))
    os.close(told_read)
    if words.get("then") == "die":
        mouth.answer(id, child)
        os._exit(3)
    mouth.answer(id, child)


Misdeed: TypeAlias = Callable[[Mouth, Id | None, Words], None]

MISDEEDS: Mapping[str, Misdeed] = {
    deed.__name__: deed
    for deed in (
        ask, close, deaf, die, echo, fork, half, hang, keep, kill, pid, refuse, release, spew,
    )
}  # fmt: skip


def commit(mouth: Mouth, request: Request, words: Words) -> None:
    """Do what the words say; without a word, answer."""
    MISDEEDS[words.get("do", "echo")](mouth, request.id, words)
