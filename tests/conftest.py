"""Hooks and fixtures for every test: time limits, a check for leaks, and the choice of tests.

After each test there must be no new child (zombies included), no new process with the marker
variable of the tests, no new descriptor and no new thread. Processes and threads that are about to
end have GRACE_SECONDS to do so.

An `async def` test runs on asyncio; with `@pytest.mark.both_loops` it runs once on asyncio and once
on uvloop, for claims that concern the loop. The limit of an `async def` test is shorter than that
of other tests, so that a test that hangs fails with a traceback of the line where it hangs.

`@pytest.mark.more` is for a slow test, or one that needs a toolchain, another project's program or
another user: `make test` leaves it to `make test-more` and prints how many tests it left out.
Skipped tests are listed with their reasons.

`@pytest.mark.sampled` is for a table of rows that each start a process: `make test` runs a quarter
of the rows, another quarter with each commit, and `make test-more` runs the rest. A test on both
loops runs each row on one of the loops, chosen in the same way. The seed of the choice is that of
the randomised fault tests (`faults/trials.py`).
"""

import asyncio
import atexit
import faulthandler
import gc
import inspect
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings

from exthost.dialects.base import Dialect
from exthost.launch.limits import resolve_limits
from exthost.model.spec import Limits, Spec
from tests.extensions.clock import Clock, Uvloop, installed_clock
from tests.extensions.proc import all_pids, our_descriptors, our_processes, our_threads
from tests.faults.trials import COUNTS, SAMPLE_VARIABLE, TrialKey, default_seed, summary
from tests.sampled_rows import unsampled_items
from tests.sandbox.rows import count_by_row

TESTS = Path(__file__).parent

# A test that takes longer than this hangs; on a busy machine a test of a few seconds can take a
# minute. The first limit cancels an `async def` test, the second interrupts any test, and the third
# ends the worker process.
ASYNC_SECONDS = 200
TEST_SECONDS = 540
WORKER_SECONDS = 600

# The least time that an extension in a test has to start and for its handshake, if its config sets
# no other. The defaults of some dialects are 5 and 10 seconds, and on a busy machine the start of a
# program can take longer.
START_SECONDS = 60.0

# How long processes, descriptors and threads that are about to end when the test returns may take.
GRACE_SECONDS = 30.0
# After this time the garbage is collected, which takes long in a process that has run thousands of
# tests.
COLLECT_SECONDS = 0.1

# exthost must not write its state into the home folder of the developer.
_HOME = tempfile.TemporaryDirectory(prefix="exthost-tests-")
os.environ["EXTHOST_HOME"] = _HOME.name
os.environ["XDG_RUNTIME_DIR"] = _HOME.name
atexit.register(_HOME.cleanup)

# No deadline for examples: it depends on the machine, and the limits above find a hang.
# Each run has other examples, so that fewer of them are enough here; `make fuzz` has no limit.
settings.register_profile(
    "tests", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

# libuv creates a pipe for signals with its first loop and keeps it: that is not a leak of a test.
uvloop.new_event_loop().close()

# A process in the background of a shell ignores Ctrl-C, and a process under nohup ignores SIGHUP.
# Programs that a test starts would inherit that, and tests of these signals would never end.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


# -- slow machines ---------------------------------------------------------------------------


def _resolve_patiently(spec: Spec, dialect: Dialect) -> Limits:
    """Return the limits of an extension, with START_SECONDS in place of shorter defaults."""
    limits = resolve_limits(spec, dialect)
    longer = Limits(
        start=max(limits.start or 0, START_SECONDS),
        handshake=max(limits.handshake or 0, START_SECONDS),
    )
    chosen = spec.limits.over(longer)
    return replace(limits, start=chosen.start, handshake=chosen.handshake)


@pytest.fixture(autouse=True, scope="session")
def time_to_start() -> Iterator[None]:
    """Give every extension that a test runs in its own process the time to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("exthost.extension.extension.resolve_limits", _resolve_patiently)
        yield


# -- asynchronous tests ----------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "both_loops: run on asyncio's loop and on uvloop's")
    config.addinivalue_line("markers", "trial: a trial of SECURITY.md, counted in the summary")
    config.addinivalue_line("markers", "more: `make test` leaves it to `make test-more`")
    config.addinivalue_line("markers", "sampled: `make test` runs a quarter of its rows")
    # Workers are started later and inherit this variable: all workers run the same sample.
    os.environ.setdefault(SAMPLE_VARIABLE, default_seed())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("both_loops") is not None:
        metafunc.fixturenames.append("loop_kind")
        metafunc.parametrize("loop_kind", ["asyncio", "uvloop"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on its loop, with a time limit. Leave others to pytest (None)."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    parameters = inspect.signature(test).parameters
    clock = pyfuncitem.funcargs.get("clock")
    arguments = {name: pyfuncitem.funcargs[name] for name in parameters}

    async def run_with_timeout() -> None:
        # The limit counts the loop's time, so a test that moves the clock would exceed it.
        async with asyncio.timeout(None if isinstance(clock, Clock) else ASYNC_SECONDS):
            await test(**arguments)

    parameters_of_row = pyfuncitem.callspec.params if hasattr(pyfuncitem, "callspec") else {}
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if parameters_of_row.get("loop_kind") == "uvloop":
        loop_factory = partial(Uvloop, clock) if isinstance(clock, Clock) else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run_with_timeout())
    return True


@pytest.fixture
def clock() -> Iterator[Clock]:
    """A clock that the test moves; the loop and the code under test read it."""
    with installed_clock() as clock:
        yield clock


# -- bounded time ----------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Print the traceback of a test that cannot be interrupted, and end its worker process."""
    faulthandler.dump_traceback_later(WORKER_SECONDS, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Interrupt a test that hangs, but not its fixtures or the reports of pytest."""

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"this test took longer than {TEST_SECONDS} s")

    previous_handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, TEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)


# -- leaks -----------------------------------------------------------------------------------


def _new_entries(before: dict[Any, str], after: dict[Any, str]) -> dict[Any, str]:
    """Return the entries of `after` that are new or have changed."""
    return {key: value for key, value in after.items() if before.get(key) != value}


def _leaks_since(before: tuple[frozenset[int], dict[int, str], dict[int, str]]) -> list[str]:
    """Describe the processes, descriptors and threads that did not exist before."""
    pids, descriptors, threads = before
    processes = our_processes(but=pids)
    new_descriptors = _new_entries(descriptors, our_descriptors())
    new_threads = _new_entries(threads, our_threads())
    return [
        *(f"process {pid} ({description})" for pid, description in processes.items()),
        *(f"descriptor {fd} ({target})" for fd, target in new_descriptors.items()),
        *(f"thread {name!r}" for name in new_threads.values()),
    ]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fail the test that leaves a process, a descriptor or a thread."""
    before = frozenset(all_pids()), our_descriptors(), our_threads()
    yield
    ended_at = time.monotonic()
    while leaks := _leaks_since(before):
        seconds = time.monotonic() - ended_at
        if seconds > COLLECT_SECONDS:
            gc.collect()  # objects that were dropped without being closed close themselves now
        if seconds > GRACE_SECONDS:
            pytest.fail("this test left behind: " + "; ".join(leaks))
        time.sleep(0.01)


# -- collection ------------------------------------------------------------------------------

# The number of tests that `-m "not more"` left out, by file.
LEFT_OUT: Counter[str] = Counter()


@pytest.hookimpl(tryfirst=True)  # before pytest deselects tests by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _refuse_duplicates(items)
    for item in unsampled_items(items, os.environ[SAMPLE_VARIABLE]):
        item.add_marker(pytest.mark.more)


def _refuse_duplicates(items: list[pytest.Item]) -> None:
    """Fail if a test is collected twice, for example because another file imports it."""
    first_nodeids: dict[tuple[object, str], str] = {}
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        parameters = item.callspec.id if hasattr(item, "callspec") else ""
        code = getattr(inspect.unwrap(item.function), "__code__", None)
        if code is None or not Path(code.co_filename).is_relative_to(TESTS):
            continue  # a test function that a library has made
        key = (code, f"{item.originalname} {parameters}")
        if first_nodeids.setdefault(key, item.nodeid) != item.nodeid:
            raise pytest.UsageError(f"{item.nodeid} is {first_nodeids[key]}, collected again")


def pytest_collection_finish() -> None:
    """Exclude the thousands of collected tests from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("more") is not None:
            LEFT_OUT[item.nodeid.partition("::")[0]] += 1


# -- summary ---------------------------------------------------------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the counts of a worker to the process that adds them up."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["trials"] = [[*key, times] for key, times in COUNTS.items()]
        session.config.workeroutput["left out"] = dict(LEFT_OUT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the counts of a worker that has ended."""
    output = getattr(node, "workeroutput", {})
    for family, dialect, outcome, times in output.get("trials", ()):
        COUNTS[TrialKey(family, dialect, outcome)] += times
    LEFT_OUT.update(Counter(output.get("left out", {})) - LEFT_OUT)  # each worker collects all


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many attacks on the sandbox and fault tests ran, and which tests did not run."""
    for line in [
        *sandbox_lines(terminalreporter),
        *summary(),
        *missing_lines(terminalreporter),
        *left_out_lines(),
    ]:
        terminalreporter.write_line(line)


def sandbox_lines(terminalreporter: Any) -> list[str]:
    """Return two lines about the attacks on the sandbox (`sandbox/test_trials.py`), if any ran."""
    # The number of attacks by user and outcome: each is made by root and by an ordinary user.
    counts: dict[str, Counter[str]] = {"root": Counter(), "user": Counter()}
    passed_names: list[str] = []
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            nodeid = str(getattr(report, "nodeid", ""))
            for user in counts:
                _, is_trial, name = nodeid.partition(f"test_trials.py::test_trial[{user}-")
                if is_trial:
                    counts[user][outcome] += 1
                    if outcome == "passed":
                        passed_names.append(name.removesuffix("]"))
    if not any(map(Counter.total, counts.values())):
        return []
    parts = []
    for user, outcomes in counts.items():
        parts.append(f"{user} {outcomes['passed']} passed")
        if outcomes["failed"]:
            parts.append(f"{outcomes['failed']} FAILED")
    skipped = sum(outcomes["skipped"] for outcomes in counts.values())
    return [
        f"sandbox trials: {', '.join(parts)}, {skipped} skipped",
        f"sandbox trials by row: {count_by_row(passed_names)}",
    ]


def missing_lines(terminalreporter: Any) -> list[str]:
    """Return a line for each reason why tests were skipped, such as a missing program."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        if isinstance(report.longrepr, tuple):
            reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
    return [f"missing here: {reason} ({times} skipped)" for reason, times in reasons.items()]


def left_out_lines() -> list[str]:
    """Return a line with the numbers of the tests that are left to `make test-more`."""
    if not LEFT_OUT:
        return []
    files = ", ".join(f"{name} {times}" for name, times in sorted(LEFT_OUT.items()))
    return [f"left to make test-more: {LEFT_OUT.total()} tests ({files})"]
