"""Replays a recorded session: as the extension for a host, or as the host for a program.

An actual message is matched with a recorded one by its meaning, and not by its text: a reply by the
request that it answers, any other message by its method and order. Ids may differ. Where a secret
was hidden in the recording, any text matches. In reading order:

    script          the messages of one process in a recording
    chosen_ids      ids that differ in each session, such as UUIDs
    comparison      finds the first difference between two messages
    extension_role  pure: what the extension sends after each message of the host
    host_role       pure: what the host sends, and what it expects to receive
    pipe_replay     runs either role on real pipes
"""
