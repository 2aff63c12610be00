"""A recorded session, played again: as the child for a host, or as the host for a program.

Messages are matched by the part they play and not by their text: a reply by the request that it
answers, any other message by its method, in order. Ids may differ. A secret that was hidden in the
recording matches everything. In reading order:

    script       the messages of one process in a recording
    chosen_ids   ids that one side chooses anew in each session
    comparison   where two messages differ first
    extension_role   pure: what the child says to each message of the host
    host_role    pure: what the host says, and what it expects
    pipe_replay  either part on real pipes
"""
