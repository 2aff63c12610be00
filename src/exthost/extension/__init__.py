"""One extension: the object that users call, and the supervision of its processes.

In reading order:

    extension        the public object: calls, life, facts
    calls            makes calls, checks their arguments, sends them through the queue
    streaming        calls that answer in events
    toolbox, facets  `ext.tools`, and the attributes that a dialect adds
    after_fork       what a copy of our process must not use
    misuse           errors of callers: a timeout that is no number, another event loop
    stats            what `ext.stats` shows; counts that a reload keeps

    supervisor       the task that starts and ends processes: `reconcile`
    wakeup           what the supervisor's task sleeps on
    commands         start, restart, stop: what the supervisor is told to do
    status           state, offer, tools and cause; publishes their changes
    recovery         what follows when a process ends by itself or does not get ready
    unavailable      the errors of an extension that cannot serve
    processes        the processes that start, serve, exit and leave
    startup          one start: plan, spawn, handshake
    tool_refresh     asks a running process again for its tools
    idle             when an unused extension ends its processes
    pool_growth      when a pool gets one more process
    breaker_gate     counts failures and closes the queue by the breaker
    restart_tracker  reports to the restart policy, and asks it
    parallel_start   starts many extensions at once, as many as there are cores for

    policy           pure: the restart policy, pool size and breaker in force
    lifecycle        pure: the table of states and moves
    restart          pure: the restart policy
    breaker          pure: the circuit breaker

A session reports its end to the supervisor (`CallQueue.on_session_ended`) before its calls fail, so
that whoever catches the error finds the new state.
"""
