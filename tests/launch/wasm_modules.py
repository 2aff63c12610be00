"""WebAssembly modules for tests, as extensions that read requests from stdin and write replies.

The engine (wasmtime) makes them from WebAssembly's text format, so no compiler is needed. The
replies are constants in the memory of the module.
"""

import json
from typing import Any

import wasmtime

# Instructions that wait for input on stdin, and return at the end of stdin. The numbers are
# addresses in memory: at 0 and 4 the address and size of a buffer, at 8 how many bytes were read.
_READ = """
    (i32.store (i32.const 0) (i32.const 1024)) (i32.store (i32.const 4) (i32.const 60000))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (if (i32.eqz (i32.load (i32.const 8))) (then (return)))
"""

EXIT_7 = "(call $exit (i32.const 7))"
TRAP = "unreachable"  # an instruction that ends the module with an error
# Instructions that allocate 64 KiB at a time until the limit, and then fail.
FILL_MEMORY = """
    (loop $grow (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    unreachable
"""


def module(*replies: Any, then: str = "") -> bytes:
    """Return a module that answers each line on stdin with the next of `replies`, as JSON, and then
    runs the instructions `then`."""
    lines = [json.dumps(reply).encode() + b"\n" for reply in replies]
    # The replies are in the third page of memory, after the buffer for input.
    data, body, offset = "", "", 2 * 65536
    for line in lines:
        escaped = "".join(f"\\{byte:02x}" for byte in line)
        data += f'(data (i32.const {offset}) "{escaped}")\n'
        body += f"""{_READ}
            (i32.store (i32.const 0) (i32.const {offset}))
            (i32.store (i32.const 4) (i32.const {len(line)}))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
        """
        offset += len(line)
    return bytes(
        wasmtime.wat2wasm(f"""
        (module
          (import "wasi_snapshot_preview1" "fd_read"
            (func $read (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_write"
            (func $write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (memory (export "memory") 4)
          {data}
          (func (export "_start") {body} {then}))
        """)
    )


def morphir(*results: Any, then: str = "") -> bytes:
    """Return a module that is an extension of morphir with the tool `get`. It answers the calls
    with `results`, and runs `then` when it was called once more."""
    tools = [{"name": "get", "description": "Get the next result."}]
    values = ({"status": "ready"}, tools, *results)
    replies = [{"id": number, "result": value} for number, value in enumerate(values)]
    return module(*replies, then=(_READ + then) if then else _READ)
