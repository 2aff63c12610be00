"""A morphir extension that starts processes in new sessions and by double forks. They ignore every
signal that can be ignored. Standard library only. Its arguments are how many of each, or none."""

import json
import os
import signal
import sys
from typing import NoReturn

FAMILY = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def linger() -> NoReturn:
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    for fd in range(3):
        os.close(fd)
    while True:
        signal.pause()


def found_family() -> None:
    for _ in range(FAMILY):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                linger()
            linger()


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    found_family()
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["method"] == "capabilities":
            result = []
        elif asked["method"] == "leave":
            os._exit(3)
        else:
            result = asked.get("params")
        print(json.dumps({"id": asked["id"], "result": result}), flush=True)
    while True:  # not even the end of its input
        signal.pause()


main()
