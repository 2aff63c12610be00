"""The checks of `exthost check` about the life cycle: how an extension starts, ends, and starts
again.

Each check starts processes with a `Starter` and enters its results in the `Ledger`, by the name of
a rule: a finding if the rule is broken, the time if it was checked, or the reason if it was not.
"""

import time

from exthost.authoring.check import survivors
from exthost.authoring.check.checked_process import CheckedProcess, NoAnswer, describe_error
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.offer_audit import describe_offer_change
from exthost.authoring.check.starter import Starter
from exthost.errors import ExthostError
from exthost.model.messages import Notification, Request
from exthost.model.offer import Offer
from exthost.model.shortened_text import shorten_to
from exthost.model.shutdown_steps import CloseStdin, Say, Write
from exthost.process.exit_status import ExitStatus

# How many characters of a command line are shown.
_MAX_COMMAND = 200


class LifeChecks:
    """The checks of one extension that start and end processes."""

    def __init__(self, starter: Starter, ledger: Ledger, reply_seconds: float) -> None:
        self._starter = starter
        self._ledger = ledger
        self._seconds = reply_seconds

    async def check_shutdown(
        self, process: CheckedProcess, starter: Starter, mark: str = ""
    ) -> list[survivors.Survivor]:
        """End a process of `starter` by the shutdown steps of its dialect, up to the end of its
        input. Return the processes that it has left, if it was started with a mark: a variable that
        its children inherit, by which they are recognised."""
        began = time.perf_counter()
        steps = process.dialect.traits.shutdown_steps
        for step in steps:
            match step:
                case Say(Request() as message, _):
                    try:
                        await process.request(message, self._seconds)
                    except NoAnswer as silence:
                        if await process.pipes.exits_within(0) is None:
                            self._ledger.add_finding("shutdown", str(silence), process)
                    self._ledger.mark_checked("shutdown", time.perf_counter() - began)
                case Say(Notification() as message, _):
                    await _notify(process, message)
                case Write(data):
                    await _write(process, data)
                case CloseStdin(wait):
                    note = f"the host waits {wait:g} s"
                    await self._end_input(process, "end-of-input", note, self._seconds)
        if not any(isinstance(step, Say) for step in steps):
            self._ledger.skip("shutdown", "the dialect has no such request")
        remaining = []
        if mark and await process.pipes.exits_within(0) is not None:
            remaining = await survivors.wait_for_survivors(process.pipes.pid, mark)
        await starter.release(process)
        return remaining

    async def _end_input(
        self, process: CheckedProcess, rule: str, note: str, seconds: float
    ) -> None:
        """Close stdin, and record the rule if the process does not exit within `seconds`. `note` is
        added to the message in parentheses."""
        began = time.perf_counter()
        process.pipes.close_stdin()
        status = await process.pipes.exits_within(seconds)
        took = time.perf_counter() - began
        if status is None:
            reason = f"its stdin ended {seconds:.1f} s ago, and it still runs ({note})"
            self._ledger.add_finding(rule, reason, process)
            self._ledger.mark_checked(rule, took)
            return
        self._ledger.mark_checked(rule, took, f"after {took:.2f} s")
        self._check_status(status, process)
        await process.pipes.output_ends()
        if (problem := process.unfinished_frame()) is not None:
            self._ledger.add_finding("frame", problem.message, process)

    def _check_status(self, status: ExitStatus, process: CheckedProcess) -> None:
        if status.code != 0:
            self._ledger.add_finding("exit-status", f"at the end of its input it {status}", process)
        self._ledger.mark_checked("exit-status")

    async def check_early_end(self) -> None:
        """Start a process, and end its input before the first message."""
        try:
            process = await self._starter.start()
        except ExthostError as error:  # such as a secret that cannot be read any more
            self._ledger.skip("early-end", f"it did not start again: {error.message}")
            return
        # The process reads the end of its input only after it has started.
        seconds = self._seconds + 2 * self._starter.start_seconds
        began = time.perf_counter()
        await self._end_input(process, "early-end", "before the first message", seconds)
        self._starter.all_starts_seconds += time.perf_counter() - began
        await self._starter.release(process)

    async def check_orphans(self, left_by_calls: list[survivors.Survivor]) -> None:
        """End a process by the shutdown steps of its dialect, and look for processes that it has
        left. They are killed. `left_by_calls` were left by a process whose tools were called; they
        are reported if a process whose tools were not called leaves none."""
        await self._check_orphans_of_start()
        if self._ledger.has("orphans"):
            return
        for pid, command in left_by_calls:
            reason = "after the calls of --call it has exited, and a process that it started still"
            fix = "let a tool end the processes that it starts, also when the call fails"
            self._ledger.add_finding(
                "orphans",
                f"{reason} runs: {shorten_to(_MAX_COMMAND, command)} (pid {pid})",
                fix=fix,
            )

    async def _check_orphans_of_start(self) -> None:
        """End a process whose tools were not called, and look for processes that it has left."""
        if not survivors.can_look():
            self._ledger.skip(
                "orphans", "it cannot be seen on this system which processes are left"
            )
            return
        mark = survivors.make_mark()
        starter = self._starter.make_plain(survivors.MARK_NAME, mark)
        began = time.perf_counter()
        try:
            process, _ = await starter.connect()
            if process.launch.plan.wrapper is not None:
                self._ledger.skip("orphans", "its sandbox ends every process with it")
                return
            if not await self._end_gently(process):
                self._ledger.skip("orphans", "it did not exit")
                return
            for pid, command in await survivors.wait_for_survivors(process.pipes.pid, mark):
                reason = "it has exited, and a process that it started still runs"
                command = shorten_to(_MAX_COMMAND, command)
                self._ledger.add_finding("orphans", f"{reason}: {command} (pid {pid})", process)
            self._ledger.mark_checked("orphans", time.perf_counter() - began)
        except (NoAnswer, ExthostError) as error:
            self._ledger.skip("orphans", f"it did not start again: {describe_error(error)}")
        finally:
            if starter.latest is not None:
                survivors.kill_survivors(starter.latest.pipes.pid, mark)
            await starter.release_all()

    async def _end_gently(self, process: CheckedProcess) -> bool:
        """Run the shutdown steps up to the end of the input. Return whether the process exits."""
        for step in process.dialect.traits.shutdown_steps:
            match step:
                case Say(Request() as message, _):
                    try:
                        await process.request(message, self._seconds)
                    except NoAnswer:
                        pass  # the end of the input follows in any case
                case Say(Notification() as message, _):
                    await _notify(process, message)
                case Write(data):
                    await _write(process, data)
        process.pipes.close_stdin()
        return await process.pipes.exits_within(self._seconds) is not None

    async def check_split_messages(self) -> None:
        """Do the handshake with messages that are written in pieces, then kill the process."""
        began = time.perf_counter()
        try:
            process, _ = await self._starter.connect(splits=True)
        except (NoAnswer, ExthostError) as error:
            reason = f"the handshake, written byte by byte, fails: {describe_error(error)}"
            self._ledger.add_finding("split-frame", reason, self._starter.latest)
        else:
            await self._starter.release(process)
        self._ledger.mark_checked("split-frame", time.perf_counter() - began)

    async def check_restart(self, first_offer: Offer) -> None:
        """Start a process after another was killed, compare its offer (the tools that it announced)
        with that of the first process, and end it by SIGTERM."""
        began = time.perf_counter()
        try:
            process, offer = await self._starter.connect()
        except (NoAnswer, ExthostError) as error:
            reason = f"after a kill and a restart, the handshake fails: {describe_error(error)}"
            self._ledger.add_finding("restart", reason, self._starter.latest)
            self._ledger.skip("signal", "it did not start again")
            return
        if change := describe_offer_change(first_offer, offer):
            self._ledger.add_finding("restart", f"killed and started again, {change}", process)
        self._ledger.mark_checked("restart", time.perf_counter() - began)
        began = time.perf_counter()
        process.pipes.terminate()
        if await process.pipes.exits_within(self._seconds) is None:
            reason = f"{self._seconds:g} s after SIGTERM it still runs"
            self._ledger.add_finding("signal", reason, process)
        self._ledger.mark_checked("signal", time.perf_counter() - began)
        await self._starter.release(process)


async def _write(process: CheckedProcess, data: bytes) -> None:
    """Write bytes. It is not an error if the process has already ended."""
    try:
        await process.write(data)
    except NoAnswer:
        pass


async def _notify(process: CheckedProcess, message: Notification) -> None:
    """Send a notification. It is not an error if the process has already ended."""
    try:
        await process.notify(message)
    except NoAnswer:
        pass
