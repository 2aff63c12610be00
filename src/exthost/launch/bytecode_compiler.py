"""Compiles the Python modules of a folder, for `sealed_bytecode`.

The interpreter of an extension runs this text in the sandbox of the extension, before its start.
It imports nothing of the folder. It compiles each module that has a compiled file for this
interpreter, and writes a line of JSON, `[folder, name, size]`, and the compiled module. For each
compiled file of the standard library it writes `[folder, name, null]`; the name is empty if it
stands for all compiled files of a folder.
"""

# ruff: noqa: PTH113, PTH120, PTH123, PTH208 - pathlib would take longer than the rest

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from importlib import _bootstrap_external as bootstrap
from typing import Any, BinaryIO

# Folders in that of the standard library which are not a part of it, or which no extension needs.
_LEFT_OUT = frozenset(
    (
        "site-packages",
        "dist-packages",
        "test",
        "tests",
        "idlelib",
        "lib2to3",
        "turtledemo",
        "ensurepip",
    )
)

_END = f".{sys.implementation.cache_tag}.pyc"


def find_compiled(
    root: str, left_out: frozenset[str] = frozenset()
) -> Iterator[tuple[str, list[str], bool]]:
    """Yield each folder with compiled files, the names of these files, and whether there are no
    folders with further modules in it."""
    for folder, folders, _ in os.walk(root):
        folders[:] = [name for name in folders if name not in left_out]
        if "__pycache__" in folders:
            folders.remove("__pycache__")
            names = [name for name in os.listdir(f"{folder}/__pycache__") if name.endswith(_END)]
            yield folder, names, not folders


def main(package: str, output: BinaryIO) -> None:
    """Compile the modules of a folder, and write the result."""
    # The function of Python that makes the content of a .pyc file. It is not public.
    make_file: Any = vars(bootstrap)["_code_to_hash_pyc"]
    for folder, names, _ in find_compiled(package):
        for name in names:
            source = f"{folder}/{name[: -len(_END)]}.py"
            if not os.path.isfile(source):  # reading a pipe would wait for ever
                continue
            try:
                with open(source, "rb") as file:
                    data = file.read()
                code = compile(data, source, "exec", dont_inherit=True)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            # The result is stored for exactly this content of the package. So Python need not check
            # that the source is still the same: the last argument is False.
            content = make_file(code, importlib.util.source_hash(data), False)
            output.write(json.dumps([folder, name, len(content)]).encode() + b"\n" + content)
    for folder, names, is_leaf in find_compiled(os.path.dirname(os.__file__), _LEFT_OUT):
        if not f"{folder}/".startswith(f"{package}/"):
            for name in [""] if is_leaf else names:
                output.write(json.dumps([folder, name, None]).encode() + b"\n")
    output.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.stdout.buffer)
