"""The traffic of extensions, as records: every message of either direction, and what else happened.

Nothing is recorded, and no time is spent, until somebody listens. In reading order:

    record         one record, as a value and as data
    secrets        hides secrets in what is recorded
    session_trace  makes records of the messages of one session
    traffic        who listens to which extension; follows their processes
    trace_format   the file format: a JSON object a line
    trace_file     writes a trace to a file, by a thread of its own
    buffer         the last records, bounded, for a reader that may be slow
"""
