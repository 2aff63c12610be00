"""A morphir extension (JSON lines) that reports what a program can see of its own process.

Tests compare the reports of a program that was started in the usual way with those of one that was
started in a faster way: a program must not see a difference.

It uses only the standard library, with as few imports as possible, so that the method `modules`,
which lists the imported modules, shows what the start of the process has imported. The modules in
the variable LOOKS_IMPORTS are imported before the first request.
"""

# ruff: noqa: PTH109, PTH123 - pathlib would be one more module

import os
import sys


def look() -> dict[str, object]:
    """Return what does not differ between two processes that were started alike."""
    import json
    import resource
    import signal

    main = sys.modules["__main__"]
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    with open("/proc/self/cmdline", "rb") as file:
        cmdline = file.read().decode()
    with open("/proc/self/environ", "rb") as file:
        environ = sorted(file.read().decode().split("\0"))
    umask = os.umask(0)
    os.umask(umask)
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "flags": str(sys.flags),
        "xoptions": dict(sys._xoptions),
        "warnoptions": sys.warnoptions,
        "executable": sys.executable,
        "prefix": [sys.prefix, sys.base_prefix],
        "main": [
            main.__name__,
            main.__file__,
            main.__spec__ and main.__spec__.name,
            main.__package__,
            main.__cached__,
        ],
        "main names": sorted(name for name in vars(main) if name.startswith("__")),
        "loader": type(main.__loader__).__name__,
        "environ": dict(os.environ),
        "proc environ": environ,
        "cmdline": cmdline,
        "cwd": os.getcwd(),
        "umask": umask,
        "limits": [resource.getrlimit(kind) for kind in range(16)],
        "leads its session": os.getsid(0) == os.getpid() == os.getpgrp(),
        "parent": os.getppid(),
        "signals": [str(signal.getsignal(number)) for number in range(1, 32)],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "descriptors": [fd for fd in range(64) if is_open(fd)],
        "streams": [
            [stream.encoding, stream.errors, stream.line_buffering, stream.name]
            for stream in (sys.stdin, sys.stdout, sys.stderr)
        ],
        "encoding": [sys.getfilesystemencoding(), sys.getdefaultencoding()],
        "recursion": sys.getrecursionlimit(),
        "hooks": [len(sys.meta_path), len(sys.path_hooks)],
        "rights": {
            name: status.get(name)
            for name in (
                *("Name", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd"),
                *("CapAmb", "NoNewPrivs", "Seccomp", "Threads", "Umask"),
            )
        },
        "dumps": json.dumps([1]),
    }


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def numbers() -> dict[str, object]:
    """Return values that differ in each process."""
    import random
    import tempfile
    import uuid

    return {
        "random": random.random(),
        "uuid": uuid.uuid4().hex,
        "name": next(tempfile._get_candidate_names()),  # type: ignore[attr-defined]
        "hash": hash("a text"),
        "urandom": os.urandom(8).hex(),
    }


def main() -> None:
    import importlib
    import json

    for name in os.environ.get("LOOKS_IMPORTS", "").split():
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        method, result = request["method"], request.get("params")
        if method == "look":
            result = look()
        elif method == "numbers":
            result = numbers()
        elif method == "modules":
            result = sorted(sys.modules)
        elif method == "read":
            module = importlib.import_module(result["module"])
            result = getattr(module, result["name"])
        elif method == "capabilities":
            result = []
        os.write(1, json.dumps({"id": request["id"], "result": result}).encode() + b"\n")


if __name__ == "__main__":
    main()
