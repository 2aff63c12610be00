"""One live conversation with one child process of an extension.

`Session.send_call` passes a call to `Conversation.send`, which encodes its request for the child's
stdin. `Conversation.receive` decodes what the child writes, and returns effects (values that say
what is to be done), which the session performs. The call queue (`exthost.extension.call_queue`)
owns the calls. In this package "the child" is that process, and a dialect is the protocol that it
speaks.

In reading order:

    call             one accepted call: its request, its deadline, and the handler of its reply
    replies          handlers of replies: deliver, map, continue a generator, open a stream
    effects          the values that a conversation returns, and that its session performs
    requests         numbers and encodes requests, and keeps those without a reply
    operations       generators of dialects, run step by step
    stream_table     the open streams, and which events belong to which of them
    phase            pure: the phases of a conversation, and the changes between them
    unawaited        pure: which messages serve no call, and what they cost
    conversation     pure, for either end: calls and bytes in, effects out
    failures         why a session ended, as data; errors for broken rules
    session          reads and writes the pipes, performs the effects, ends the process
    effect_performer performs every effect except completed calls
    call_owner       the interface of the call queue that a session uses

    handshake        the first operation, and a clear error when it fails
    internal_calls   requests that the host makes for itself
    inbound          requests of the child to the host
    outbound_hold    holds messages back while the child waits for an answer
    notifications    handles log lines, events, progress reports and changed tools
    subscriptions    requests that stay open for the whole session
    stream_queue     the unread events of one stream, and their limit
    stream           the consumer's end of a stream
    awaitable_call   a call that a task awaits without a future in between
    callback_call    a call whose outcome goes to a function
    blocking_reader  lets a blocking caller read the reply to its own call
    diagnostics      collects stderr, stray output and counts of dropped messages
    output_diagnosis explains what is wrong with the child's first output
    observation      the interface by which an observer sees the messages of a conversation
    trace/           records of every message, while there are listeners
    latch            something that happens once, and that tasks may wait for
    process_lifetime the exit of the process, the end of its pipes, and its shutdown
"""
