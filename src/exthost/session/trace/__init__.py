"""Traces: records of every message between host and extensions, of stderr and of state changes.

Nothing is recorded, and no time is spent, until a listener subscribes. In reading order:

    record         one record, as a value and as data
    secrets        hides secrets in what is recorded
    session_trace  makes records of the messages of one session
    traffic        the listeners of each extension; records the sessions that have one
    trace_format   the file format: a JSON object a line
    trace_file     writes a trace to a file, in a separate thread
    buffer         the last records, bounded, for a reader that may be slow
"""
