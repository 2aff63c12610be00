"""Replays a recorded session (`exthost replay`): as the extension for a host, or as the host for a
program. A recording is a trace: a file with every message that a host and an extension exchanged.

A replay matches each actual message with a recorded one: a reply by the request that it answers,
any other message by its method and order. Ids may differ between the two. Where a secret was hidden
in the recording, any text matches. In reading order:

    script          the messages of one process in a recording
    generated_ids   maps recorded UUIDs to those that a program generates in this session
    comparison      finds the first difference between two messages
    extension_role  without I/O: what the extension sends after each message of the host
    host_role       without I/O: what the host sends, and what it expects to receive
    pipe_replay     runs either role on real pipes
"""
