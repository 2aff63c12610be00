"""The blocking API: the same names as the asynchronous one, for programs without an event loop.

In reading order:

    sync_host              `SyncHost`
    sync_extension         `SyncExtension`
    sync_connection        `sync_connect`: one extension without a host
    blocking_call          a call whose caller sleeps on a lock
    facet_property         facets, in the blocking form that the package of the dialect names
    sync_facet_attributes  the facets of the built-in dialects, as typed attributes (generated)
    blocking_view          facets of which the package names no blocking form
    loop_thread            an event loop in a thread of its own

Methods with the parameters of an asynchronous original come from `dialects.blocking_methods`.
"""
