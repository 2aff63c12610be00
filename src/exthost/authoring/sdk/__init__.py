"""The SDK: an extension as decorated functions, in any dialect. Users import `exthost.sdk`.

In reading order:

- `extension`: the class `Extension` with its decorators and `run`
- `context`: what a handler can do besides returning a value: progress, log, calls to the host
- `answers`: what handlers of hooks, providers and generators take and return
- `registry`: the registered handlers, as data
- `types`: schemas from annotations, and checked conversion of arguments
- `connection`: runs one connection to a host
- `first_message`: detects which dialect a host speaks, from its first bytes
- `dialects`: the extension's side of each dialect, one module each; `endpoints`: what they share
- `serving`: runs the calls of a connection, in a blocking loop or on an event loop
- `wire`: file descriptors, framing and writing
- `scaffold`: creates a new extension from a template
- `languages`: the templates for programs in other languages than Python
- `testing`: connects an extension to the real host in the author's tests
- `errors`: the exceptions
"""
