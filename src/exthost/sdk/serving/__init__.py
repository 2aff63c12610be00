"""Running: calls, threads, and the two loops.

- `thread_pool`: worker threads for synchronous handlers that may take long
- `host_requests`: requests of ours that wait for the host's answer
- `call`: one call, from its arguments to its reply
- `server`: the calls of one connection
- `blocking_loop`: read, dispatch, write; for extensions without asynchronous handlers
- `async_loop`: the same on an event loop, for those that have some
"""
