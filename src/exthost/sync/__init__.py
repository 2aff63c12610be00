"""The blocking API: the same names as the asynchronous one, for programs without an event loop.

In reading order:

    sync_host        `SyncHost`
    sync_extension   `SyncExtension`
    sync_connection  `sync_connect`: one extension without a host
    blocking_call    a call whose caller sleeps on a lock
    forwarded        methods that run on the loop's thread, with the parameters of the original
    facets           facets of the built-in dialects; a module for those of each dialect
    blocking_view    facets of other dialects
    loop_thread      an event loop in a thread of its own
"""
