"""Bytes: the descriptors of the wire, frames, and writing.

- `descriptors`: the wire on descriptors of its own, out of reach of `print` and of children
- `framing`: bytes into frames, and back
- `writer`: writing from several threads, with back-pressure
- `loop_writer`: the same on an event loop
- `parent_exit`: detects the exit of the parent process
"""
