"""A morphir extension (JSON lines on stdin and stdout) that misbehaves when a test asks it to.

Arguments set its behaviour: `die_at=initialize` ends it at a stage of its start, `stubborn` ignores
SIGTERM, `die_after=50` ends it after 50 calls. `answer_handshake`, `enter_stage` and `main` read
them. METHODS are the methods that a test can call: `huge` writes a reply of any size, `half` ends
in the middle of a reply. Any other method is answered with its params.

The extension never sleeps: the answer to `keep` is sent when a request `release` comes. It uses
the standard library only, and tests start it with `python -S -E`, so that many starts are fast.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would cost more than all the rest
    from typing import Any, NoReturn

# The arguments; one without "=" has the value "".
FLAGS = dict(word.partition("=")[::2] for word in sys.argv[1:])
KEPT: list[tuple[int, Any]] = []  # ids of calls of `keep`, with their params
SLOW: list[tuple[str, str]] = []  # files that the next reads wait for, and create
TOGETHER: list[tuple[int, Any]] = []  # ids of calls of `together`, with their params


def write(data: bytes, fd: int = 1) -> None:
    """Write all of these bytes, without a buffer."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_message(value: Any) -> None:
    write(json.dumps(value, separators=(",", ":")).encode() + b"\n")


def answer(number: Any, result: Any = None) -> None:
    write_message({"id": number, "result": result})


def write_stderr(text: str) -> None:
    write(text.encode() + b"\n", 2)


def wait_forever() -> NoReturn:
    while True:
        signal.pause()


# -- methods -----------------------------------------------------------------------------------


def garbage(number: int, params: Any) -> None:
    """Write lines that are not valid messages, then the answer."""
    write(b"Listening on port 8080...\n\n   \n\r\n")
    write(b'\xff\xfe\x00 not text\n[1, 2]\n12\n"text"\nnull\n{}\n{"result": 1}\n{"id":\n')
    write_message({"id": 5, "method": "ask", "params": {}})
    write_message({"method": 7})
    answer(number, params)


def twice(number: int, params: Any) -> None:
    answer(number, "first")
    answer(number, "second")


def old_id(number: int, params: Any) -> None:
    answer(number - 1, "an answer to the request before")
    answer(number, params)


def unknown_id(number: int, params: Any) -> None:
    answer(number + 100_000, "an answer to no request")
    answer(number, params)


def odd_ids(number: int, params: Any) -> None:
    for odd in (str(number), float(number), True, None, -number, [number], {"id": number}):
        answer(odd, "wrong")
    answer(number, params)


def odd_answers(number: int, params: Any) -> None:
    """Write an answer with the correct id and the members of the params."""
    write_message({"id": number, **params})


def raw(number: int, params: Any) -> None:
    """Write the given text, in which the id replaces $ID."""
    write(params["text"].replace("$ID", str(number)).encode("utf-8", "surrogatepass") + b"\n")


def deep(number: int, params: Any) -> None:
    """Write an answer with nested lists, `depth` levels deep, then the answer."""
    depth = params["depth"]
    write(b'{"id":%d,"result":' % number + b"[" * depth + b"]" * depth + b"}\n")
    answer(number, "after the deep one")


def huge(number: int, params: Any) -> None:
    """Write an answer of the given size in pieces; without its newline if `end` is false."""
    left = params["bytes"]
    write(b'{"id":%d,"result":"' % number)
    chunk = b"x" * 65536
    while left > 0:
        write(chunk[:left])
        left -= len(chunk)
    if params.get("end", True):
        write(b'"}\n')


def huge_noise(number: int, params: Any) -> None:
    """Write a line of the given size that is not a message, then the answer."""
    left = params["bytes"]
    chunk = b"y" * 65536
    while left > 0:
        write(chunk[:left])
        left -= len(chunk)
    write(b"\n")
    answer(number, "after the noise")


def loris(number: int, params: Any) -> None:
    """Write the answer byte by byte (the attack is known as "slow loris")."""
    for byte in json.dumps({"id": number, "result": params}).encode() + b"\n":
        write(bytes([byte]))


def stderr(number: int, params: Any) -> None:
    """Write the given number of bytes to stderr, then the answer."""
    left = params["bytes"]
    chunk = params.get("chunk", "e" * 99 + "\n").encode()
    chunk *= max(1, 65536 // len(chunk))
    while left > 0:
        write(chunk[:left], 2)
        left -= len(chunk)
    write_stderr("the last line of stderr")
    answer(number, "flooded")


def notices(number: int, params: Any) -> None:
    """Write the given number of thousands of notifications, then the answer."""
    block = b'{"method":"progress","params":{"n":1}}\n' * 1000
    for _ in range(params["thousands"]):
        write(block)
    answer(number, "noticed")


def log(number: int, params: Any) -> None:
    write_message({"method": "log", "params": params})
    answer(number, "logged")


def keep(number: int, params: Any) -> None:
    """Do not answer before a request `release`."""
    KEPT.append((number, params))


def release(number: int, params: Any) -> None:
    """Write the answers to `keep`, and then the answer to this call."""
    kept = KEPT[:]
    KEPT.clear()
    for kept_number, kept_params in kept:
        answer(kept_number, kept_params)
    answer(number, len(kept))


def together(number: int, params: Any) -> None:
    """When `of` calls have arrived, write their answers in random order."""
    TOGETHER.append((number, params))
    if len(TOGETHER) == params["of"]:
        import random

        random.shuffle(TOGETHER)
        lines = [json.dumps({"id": id, "result": call["n"]}) for id, call in TOGETHER]
        TOGETHER.clear()
        write("\n".join(lines).encode() + b"\n")


def close_stdout(number: int, params: Any) -> None:
    os.close(1)
    wait_forever()


def close_stdin(number: int, params: Any) -> None:
    os.close(0)
    answer(number, "closed")
    wait_forever()


def close_stdin_silently(number: int, params: Any) -> None:
    os.close(0)
    wait_forever()


def half(number: int, params: Any) -> None:
    """End in the middle of the answer."""
    write(b'{"id":%d,"resu' % number)
    os._exit(params.get("code", 0))


def half_and_live(number: int, params: Any) -> None:
    """Close stdout in the middle of the answer, but do not end."""
    write(b'{"id":%d,"resu' % number)
    os.close(1)
    wait_forever()


def leave(number: int, params: Any) -> None:
    write_stderr("leaving, as I was told")
    os._exit(params["code"])


def killed(number: int, params: Any) -> None:
    write_stderr("killing myself")
    os.kill(os.getpid(), params["signal"])


def segfault(number: int, params: Any) -> None:
    write_stderr("about to read address 0")
    import ctypes

    ctypes.string_at(0)


def deaf(number: int, params: Any) -> None:
    """Answer, and then never read again."""
    answer(number, "deaf from now on")
    wait_forever()


def slowly(number: int, params: Any) -> None:
    """Make each of the next `reads` wait for a file in `folder`, and create another one."""
    folder = params["folder"]
    SLOW.extend((f"{folder}/read-{n}", f"{folder}/done-{n}") for n in range(params["reads"]))
    answer(number, "slow from now on")


def grandchild(number: int, params: Any) -> None:
    """Start a process in the same group that keeps all three pipes open."""
    pid = os.fork()
    if pid == 0:
        wait_forever()
    answer(number, pid)


def pid(number: int, params: Any) -> None:
    answer(number, os.getpid())


def descriptors(number: int, params: Any) -> None:
    # The last is the descriptor with which listdir reads the folder.
    answer(number, sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1])  # noqa: PTH208


def who(number: int, params: Any) -> None:
    answer(number, {"pid": os.getpid(), "group": os.getpgrp(), "session": os.getsid(0)})


def environment(number: int, params: Any) -> None:
    answer(number, dict(os.environ))


def refuse(number: int, params: Any) -> None:
    write_message({"id": number, "error": params["text"]})


METHODS = {
    f.__name__: f
    for f in (
        close_stdin, close_stdin_silently, close_stdout, deaf, deep, descriptors, environment,
        garbage, grandchild, half, half_and_live, huge, huge_noise, keep, killed, leave, log, loris,
        notices, odd_answers, odd_ids, old_id, pid, raw, refuse, release, segfault, slowly, stderr,
        together, twice, unknown_id, who,
    )
}  # fmt: skip

CAPABILITIES = [
    {"name": "echo", "description": "gives back what it is given"},
    {
        "name": "add",
        "description": "wants two numbers",
        "params_schema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
]


# -- start and main loop -----------------------------------------------------------------------


def enter_stage(name: str) -> None:
    """Do what the arguments require at this stage.

    The stages are start, initialize, capabilities and ready.
    """
    if FLAGS.get("hang_at") == name:
        write_stderr(f"hanging at {name}")
        wait_forever()
    if FLAGS.get("die_at") == name:
        write_stderr(f"dying at {name}")
        os._exit(int(FLAGS.get("code", 3)))
    if FLAGS.get("half_at") == name:
        write(b'{"id":')
        os._exit(0)
    if FLAGS.get("close_at") == name:
        os.close(1)
        wait_forever()


def answer_handshake(number: int, method: str) -> None:
    """Answer a request of the handshake: `initialize`, then `capabilities`."""
    enter_stage(method)
    if FLAGS.get("refuse") == method:
        write_message({"id": number, "error": f"no {method} today"})
    elif method == "initialize":
        answer(number)
    else:
        answer(
            number, json.loads(FLAGS["capabilities"]) if "capabilities" in FLAGS else CAPABILITIES
        )
        enter_stage("ready")


def record_pid() -> None:
    """Append the pid to the file `marks`, so that a test can count started processes."""
    if "marks" in FLAGS:
        fd = os.open(FLAGS["marks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        write(b"%d\n" % os.getpid(), fd)
        os.close(fd)


def read() -> bytes:
    """Read from stdin; after `slowly`, wait for the test before and report to it afterwards."""
    if not SLOW:
        return os.read(0, 1 << 20)
    wanted, done = SLOW.pop(0)
    while not os.path.exists(wanted):  # noqa: PTH110 - importing pathlib costs more than the rest
        select.select([], [], [], 0.002)
    data = os.read(0, 1 << 16)
    os.close(os.open(done, os.O_WRONLY | os.O_CREAT))
    return data


def serve() -> None:
    served, buffer = 0, bytearray()
    searched = 0  # the bytes of the buffer that have no newline
    while data := read():
        buffer += data
        while (end := buffer.find(b"\n", searched)) >= 0:
            request = json.loads(buffer[:end])
            del buffer[: end + 1]
            searched = 0
            number, method, params = request["id"], request["method"], request["params"]
            if method in ("initialize", "capabilities"):
                answer_handshake(number, method)
                continue
            if served == int(FLAGS.get("die_after", -1)):
                write_stderr(f"dying after {served} calls")
                os._exit(9)
            served += 1
            if method in METHODS:
                METHODS[method](number, params)
            else:
                answer(number, params)
        searched = len(buffer)


def main() -> None:
    if "stubborn" in FLAGS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record_pid()
    if "banner" in FLAGS:
        write(b"\xef\xbb\xbf\n> ext@1.0.0 start\r\n> node index.js\r\n\r\n")
    if "content_length" in FLAGS:
        # The framing of another protocol, as language servers use it.
        write(b'Content-Length: 15\r\n\r\n{"id":0,"x":1}\n')
        write_stderr("framed")
        wait_forever()
    if "term_file" in FLAGS:

        def on_signal(number: int, frame: object) -> None:
            fd = os.open(FLAGS["term_file"], os.O_WRONLY | os.O_CREAT)
            write(b"told", fd)
            os._exit(0)

        signal.signal(signal.SIGTERM, on_signal)
    enter_stage("start")
    serve()
    if "stubborn" in FLAGS or "ignore_eof" in FLAGS:
        wait_forever()


main()
