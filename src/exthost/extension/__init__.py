"""One extension: the object that users call, and the supervision of its processes.

In reading order:

    extension        the public object: calls, life, facts
    calls            makes calls, checks their arguments, sends them through the queue
    call_factory     pure: method, params, reply handler and time limit of a call
    timeouts         the error of a call whose time is over
    stream_calls     calls whose reply is a stream of events
    toolbox, facets  `ext.tools`, and the attributes that a dialect adds
    misuse           errors of callers: a timeout that is not a number, another event loop
    stats            what `ext.stats` shows; counts that a reload keeps

    call_queue       sends calls to processes; calls wait here while no process has room
    call_retry       pure: which calls may be sent twice, and the error of a call
    process_choice   which process of a pool gets the next call
    deadlines        ends calls whose time is up; deadline_timer is the timer below
    call_outcomes    counts and publishes how calls ended, and wakes their callers

    supervisor       the task that starts and ends processes: `reconcile`
    wakeup           the event and timer that wake the supervisor's task
    call_drain       waits for calls under way before a stop
    commands         start, restart, stop: the commands to the supervisor
    status           state, offer, tools and cause; publishes their changes
    recovery         what follows when a process ends by itself or does not get ready
    unavailable      the errors of an extension that cannot serve
    processes        the processes that start, serve, exit and leave
    startup          one start: plan, spawn, handshake
    spawn_turns      one spawn per turn of the loop
    tool_refresh     requests the tools of a running process again
    idle             when an unused extension ends its processes
    pool_growth      when a pool gets one more process
    breaker_gate     counts failures and closes the queue by the breaker
    restart_tracker  reports to the restart policy, and asks it
    parallel_start   starts many extensions, as many at a time as the cores allow

    policy           pure: the restart policy, pool size and breaker in force
    lifecycle        pure: the table of states and moves
    restart          pure: the restart policy
    breaker          pure: the circuit breaker

A session reports its end to the supervisor (`CallQueue.on_session_ended`) before its calls fail, so
that a caller who catches the error sees the new state.
"""
