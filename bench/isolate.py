"""Runs a row in its own process, with a time limit, and cleans up after it.

Processes that a row leaves running are adopted (Linux), killed after a short grace, reaped and
reported. Only descendants of this process are touched.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

from bench import worker
from bench.cores import children_of
from bench.row import Outcome, Row, Setting, Verdict, judge

PR_SET_CHILD_SUBREAPER = 36
# A child needs microseconds to end at end of input; a busy machine needs more.
LEFTOVER_S = 3.0
POLL_S = 0.01


def adopt_orphans() -> None:
    """Become the parent of the processes that a worker leaves behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(killing: bool) -> tuple[int, bool]:
    """Reap ended processes; return how many were killed and whether any are left."""
    killed = 0
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return killed, False
        if ended is None:
            break
    if killing:
        # Direct children are not reaped yet, so their pids cannot be reused.
        for pid in children_of(os.getpid()):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed, True


def sweep() -> int:
    """End every process that a row has left; return how many had to be killed."""
    patience = time.monotonic() + LEFTOVER_S
    killed, left = _reap(killing=False)
    while left:
        time.sleep(POLL_S)
        more, left = _reap(killing=time.monotonic() > patience)
        killed += more
    return killed


def _measure(row: Row, setting: Setting) -> Outcome:
    words = [sys.executable, "-m", "bench.worker", row.key, worker.setting_to_text(setting)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=row.limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        err = process.communicate()[1]
        return Outcome(row, Verdict.FAILED, reason=f"{err}\nnot done after {row.limit_s:g} s")
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    lines = out.splitlines()
    if process.returncode != 0 or not lines:
        return Outcome(row, Verdict.FAILED, reason=f"{err}\nended with status {process.returncode}")
    report = json.loads(lines[-1])
    if "not_built" in report:
        return Outcome(row, Verdict.NOT_BUILT, reason=report["not_built"])
    if "not_here" in report:
        return Outcome(row, Verdict.SKIPPED, reason=report["not_here"])
    if "failed" in report:
        return Outcome(row, Verdict.FAILED, reason=report["failed"])
    reading = worker.reading_from(report["reading"])
    return Outcome(row, judge(row, reading), reading)


def measure(row: Row, setting: Setting) -> Outcome:
    """Return the outcome of a row. A failure in the row is an outcome, and is not raised."""
    try:
        outcome = _measure(row, setting)
    finally:
        killed = sweep()
    if killed:
        outcome = replace(
            outcome, reason=f"{outcome.reason}\nleft {killed} processes running".strip()
        )
    return outcome
