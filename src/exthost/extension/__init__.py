"""One extension: the object that users call, and the supervision of its processes.

In reading order:

    extension        the public object: calls, start and stop, status
    internals        `ext.internals`: the parts that a host uses and users do not
    calls            makes calls, checks their arguments, sends them through the queue
    tool_interceptor the interface of what a host runs around each tool call: hooks
    confirmation     a question to a person before a call, and the type of functions that ask it
    callbacks        calls a function of the program, plain or async
    call_factory     makes the method, params, reply handler and time limit of a call; sends nothing
    quarantine       the error of a call of a tool that differs from the lock
    timeouts         the error of a call whose time is over
    stream_calls     calls whose reply is a stream of events
    toolbox, facets  `ext.tools`, and the attributes that only one dialect has (`ext.providers` …)
    misuse           errors for mistakes of callers: a timeout that is not a number, a wrong loop
    network_activity counts connections through the proxies of an extension
    stats            what `ext.stats` shows; counts that a reload keeps

    call_queue       sends calls to processes; calls wait here while no process has room
    process_choice   which process of a pool gets the next call
    read_ahead       whether a pool's processes read calls while they work on others
    deadlines        ends calls at their deadlines
    deadline_timer   the timer that `deadlines` uses: a kernel timer on Linux
    call_outcomes    counts and publishes how calls ended, and wakes their callers

    supervisor       the task that starts and ends processes: `reconcile`
    supervisor_commands
                     start, restart, stop: the commands to the supervisor
    status           the state, the offer (announced tools, hooks, capabilities) and the last error
    recovery         what follows when a process ends by itself or does not get ready
    unavailable      the errors of calls while no process is ready
    processes        the processes that are starting, ready, exiting or dismissed
    templates        the templates from which Python programs are started, and what they import
    isolation        a process for each call
    startup          one start: plan, spawn, handshake
    tool_refresh     requests the tools of a running process again
    idle             when an unused extension ends its processes
    queue_breaker    counts failures for the circuit breaker, and closes the queue when it opens
    restart_tracker  keeps the restart history, and applies the restart policy to it
    parallel_start   starts many extensions, a few per processor core at a time

    policy           pure: the restart policy, pool size and breaker from config, dialect, defaults
    lifecycle        pure: the table of states and events
    restart          pure: the restart policy
    breaker          pure: the state machine of the circuit breaker

When a process ends, its session reports this to the supervisor (`CallQueue.on_session_ended`)
before the calls in flight fail, so a caller who catches the error sees the extension's new state.
"""
