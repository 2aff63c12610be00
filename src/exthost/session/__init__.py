"""One live conversation with one child process.

A call goes down through `Session.start` and `Conversation.send` to the child's stdin. What the
child writes comes back through `Conversation.receive` as effects, which the session performs. The
call queue (`exthost.extension.call_queue`) owns the calls.

In reading order:

    call             one accepted call: request, deadline, and who handles its reply
    replies          what becomes of a reply: deliver, map, continue a generator, open a stream
    effects          what a conversation asks its session to do
    requests         the requests that wait for replies: numbered, encoded, remembered
    operations       generators of dialects, run step by step
    stream_table     the open streams, and which events are theirs
    phase            pure: the phases of a conversation, and their moves
    conversation     pure: calls and bytes in, effects out
    failures         why a session ended, as data; errors of a child or a consumer
    session          the driver: reads, writes, performs, ends
    effect_performer performs every effect except completed calls
    call_owner       what a session needs of the call queue

    handshake        the first operation, and a clear error when it fails
    internal_calls   requests that the host makes for itself
    inbound          requests of the child to the host
    outbound_hold    messages held back while the child waits for an answer
    notifications    log lines, events, progress, a changed offer
    subscriptions    requests that stay open
    stream_queue     the events of one stream, and how many there may be
    stream           the consumer's end of a stream
    awaitable_call   a call that a task awaits without a future in between
    callback_call    a call whose outcome goes to a function
    diagnostics      stderr, stray output, what was dropped: the evidence of errors
    observation      shows the messages of a conversation to an observer, while there is one
    process_lifetime exit, end of output, shutdown
"""
