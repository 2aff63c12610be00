"""An extension of the dialect morphir that writes to stderr at its start and at its end, for tests.

At its start it writes a greeting to stderr. At SIGUSR1 it writes a last line and exits with 3. At
the end of stdin it writes a line, creates the file in its argument, if any, and exits. Standard
library only; run with -S -E.
"""

import json
import os
import signal
import sys


def die(*_: object) -> None:
    os.write(2, b"Traceback: my last words\n")
    os._exit(3)


signal.signal(signal.SIGUSR1, die)
os.write(2, b"hello from %d\n" % os.getpid())
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result: object = [] if message["method"] == "capabilities" else {}
        print(json.dumps({"id": message["id"], "result": result}), flush=True)
os.write(2, b"goodbye\n")
if len(sys.argv) > 1:
    os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b"drained")
