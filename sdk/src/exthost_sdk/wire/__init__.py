"""Bytes: the descriptors of the wire, frames, and writing.

- `descriptors`: moves the wire (the connection to the host) to where `print` and child processes do
  not reach it
- `framing`: bytes into frames, and back
- `writer`: writing from several threads, with back-pressure
- `loop_writer`: the same on an event loop
- `parent_exit`: detects the exit of the parent process
"""
