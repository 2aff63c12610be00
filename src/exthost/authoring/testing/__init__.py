"""Tools for testing a host: an extension that misbehaves on request, and a pipe with faults.

In reading order:

    peers            finds the adapter (`HostilePeer`) of each dialect for the hostile extension
    hostile          the hostile extension, a program that misbehaves on request in any dialect
    behaviours       the ways in which it can misbehave, a function each
    fault_proxy      a program that records a conversation and plays it back with one wrong byte
    vectors          test vectors (bytes or scripts, and what they mean, in TOML) and their checks
    vector_notation  how a test vector writes down a message
    scripted_child   a program that plays the extension's side of a test vector's script

The host does not import this package. The programs run without site-packages, apart from modules
that a dialect itself needs.
"""
