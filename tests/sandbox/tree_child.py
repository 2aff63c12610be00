"""An extension for trials of the sandbox that starts processes which are hard to end.

They are in new sessions or double forks, and ignore all signals that can be ignored. The argument
is the number of each kind. The extension speaks morphir, in which each line is a request in JSON,
and imports only the standard library.
"""

import json
import os
import signal
import sys
from typing import NoReturn

PROCESS_COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def linger() -> NoReturn:
    """Ignore all signals, close stdin, stdout and stderr, and wait for ever."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    for fd in range(3):
        os.close(fd)
    while True:
        signal.pause()


def start_processes() -> None:
    """Start PROCESS_COUNT processes in new sessions, each with a child in another session."""
    for _ in range(PROCESS_COUNT):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                linger()
            linger()


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    start_processes()
    for line in sys.stdin:
        request = json.loads(line)
        if request["method"] == "capabilities":
            result = []
        elif request["method"] == "leave":
            os._exit(3)
        else:
            result = request.get("params")
        print(json.dumps({"id": request["id"], "result": result}), flush=True)
    while True:  # it also ignores the end of stdin
        signal.pause()


main()
