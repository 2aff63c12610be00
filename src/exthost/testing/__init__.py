"""Tools for testing a host: an extension that misbehaves on request, and a pipe with faults.

In reading order:

    peers            the hostile peer of each dialect, as its package describes it
    hostile          the hostile extension, a program
    behaviours       what the hostile extension can do, a function each
    fault_proxy      records a conversation, and plays it back with a fault at any byte
    vector_notation  what a dialect says and means, as data
    vectors          plays vectors, without a process or with one
    scripted_child   the child that plays a vector

The host does not import this package. What runs as a child needs no site-packages, apart from those
that a dialect itself needs.
"""
