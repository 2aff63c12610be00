"""Runs the calls of one connection to a host.

- `thread_pool`: worker threads for synchronous handlers that may take long
- `daemon_executor`: the executor of the event loop, with threads of such a pool
- `host_requests`: requests of the extension that wait for the host's answer
- `call`: one running call, from its arguments to its reply
- `failure_report`: writes the exception of a handler to stderr
- `server`: all running calls of one connection
- `blocking_loop`: reads, dispatches and writes, for extensions without asynchronous handlers
- `async_loop`: the same on an event loop, for extensions with asynchronous handlers
"""
