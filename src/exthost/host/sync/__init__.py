"""The blocking API, for programs without an event loop. It has the names of the asynchronous API.

In reading order:

    sync_host              `SyncHost`
    sync_extension         `SyncExtension`
    sync_connection        `sync_connect`: one extension without a host
    sync_attached_host     `sync_attach`: the host of another process
    blocking_call          a call that the caller's thread sends, and whose reply it waits for
    sync_facet_attributes  the facets of the built-in dialects, as typed attributes (generated)
    blocking_view          a blocking form of any object, for facets that have no other
    loop_thread            an event loop in a thread of its own

A facet is the object with the methods that only extensions of one dialect have, such as
`ext.providers`. Methods that only forward to an asynchronous method are created by
`dialects.blocking_methods`.
"""
