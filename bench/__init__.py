"""Speed and size of exthost, as ratios to what the same machine does without it.

    python -m bench                the whole table; exit 1 when a "must" is missed
    python -m bench call_tool      rows whose key or name contains this text (or fits a pattern)
    python -m bench --quick        fewer rounds: for a look, not for a verdict
    python -m bench --repeat 3     each row three times, and which are not judged the same
    python -m bench --json >FILE   the same as data; --compare FILE shows what has changed since
    python -m bench.picture        the picture of an earlier run (`make bench-picture`)
    python -m bench --priority     before other programs, on a machine that is shared (needs root)
    python -m bench.profile_call   what one call costs, in microseconds, while you optimise it

Nothing here is imported by the host. A row (`rows.py`) is data and one function; each is measured
in a process of its own (`worker.py`), so that pinning, peak memory, a hang or a crash of one row
cannot touch the next. Inside a row, subject and baseline take turns (`rounds.py`), and the value
is the median of the ratios of the rounds: absolute times differ twofold from run to run, ratios
inside one run do not. A row is judged only if its quartiles are on the same side of the target, and
if other programs used little of the machine; otherwise it is NOISY, which is not a miss.
"""
