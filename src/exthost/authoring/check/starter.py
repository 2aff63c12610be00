"""Starts processes of the extension under check, and ends each of them.

`exthost check` needs several processes, because some checks end the process or need a fresh one:

    process, offer = await starter.connect()       start a process and do the handshake
    await starter.release(process)                 end it, and record the problems that it found
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from exthost.authoring.check.checked_process import AnswerTimeout, CheckedProcess, NoAnswer
from exthost.authoring.check.host_memory import HostMemory
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.settings import REPLY_SECONDS
from exthost.dialects.base import Dialect
from exthost.dialects.conformance import Conformance
from exthost.errors import ExthostError
from exthost.launch.admission_record import Admission
from exthost.launch.header_injection import read_injected
from exthost.launch.limits import resolve_limits
from exthost.launch.machine_check import is_machine_probed, probe_machine
from exthost.launch.plan import Launch, admit, make_state_folder, prepare
from exthost.launch.secret_sources import SecretReading, with_secrets
from exthost.model.offer import Offer
from exthost.model.spec import HostEnvRef, Spec, ValueReference
from exthost.session.trace.secrets import find_secrets

# This variable makes Python flush every write. A program that never flushes would pass the check in
# a shell that sets the variable, and hang in hosts that do not set it.
_UNBUFFERED = "PYTHONUNBUFFERED"

# If the time limit of replies is shorter than the default, a request of the handshake may take this
# many times that limit, because the program also has to start.
_START_FACTOR = 3

# A handshake that takes longer is announced.
_ANNOUNCED_SECONDS = 3.0


class Starter:
    """Starts processes as the host does: with the same program, variables, folder and sandbox.

    PYTHONUNBUFFERED is passed on only if the extension's own settings name it.
    """

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        conformance: Conformance,
        environ: Mapping[str, str],
        ledger: Ledger,
        reply_seconds: float,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        """`announce` is called with a line for a person if the first handshake takes long."""
        self.spec = spec
        self.dialect = dialect
        self.ledger = ledger
        self._conformance = conformance
        self._reply_seconds = reply_seconds
        self._environ = _buffered(environ, spec)
        # `resolve_limits` always sets this limit; 0.0 is only for the type checker.
        limit = resolve_limits(spec, dialect).handshake or 0.0
        # The host's own limit, unless the time limit of replies is shorter than the default.
        is_short = reply_seconds < REPLY_SECONDS
        self._handshake_seconds = min(limit, _START_FACTOR * reply_seconds) if is_short else limit
        self._announce = announce
        self._uses_fallback = False
        self._host_memory = HostMemory()
        self._processes: list[CheckedProcess] = []
        self._admission: Admission | None = None
        self.latest: CheckedProcess | None = None  # the process that was started last
        self.start_seconds = 0.0  # the duration of the slowest start, handshake included
        self.all_starts_seconds = 0.0  # the sum of the durations of all starts
        self.has_connected = False  # whether a handshake has succeeded

    def make_plain(self, name: str, value: str) -> "Starter":
        """Return a starter of the same extension without a PID namespace, and with one more
        variable. The kernel ends a namespace with the program, so that nothing can be left."""
        spec = replace(self.spec, lifetime="plain", env={**self.spec.env, name: value})
        starter = Starter(
            spec, self.dialect, self._conformance, self._environ, self.ledger, self._reply_seconds
        )
        starter._uses_fallback = self._uses_fallback
        starter._host_memory = self._host_memory
        starter._announce = self._announce
        return starter

    def add_starts(self, other: "Starter") -> None:
        """Add the times of another starter's starts, and what it has found out: whether a handshake
        succeeds, and by which handshake."""
        self._uses_fallback |= other._uses_fallback
        self._announce = other._announce
        self.start_seconds = max(self.start_seconds, other.start_seconds)
        self.all_starts_seconds += other.all_starts_seconds
        self.has_connected |= other.has_connected

    async def start(self) -> CheckedProcess:
        """Start a process, without a handshake. Raises ExthostError."""
        if not is_machine_probed(self.spec):
            await asyncio.to_thread(probe_machine, self.spec)
        if self._admission is None:
            self._admission = admit(self.spec, self.dialect, self._environ)
        secrets = SecretReading(self.spec, self._environ)
        if secrets.is_needed:
            await asyncio.to_thread(secrets.run)
        spec = with_secrets(self.spec, secrets.values)
        launch = prepare(spec, self.dialect, self._environ, admission=self._admission)
        self._hide_secrets(launch, secrets.values)
        process = CheckedProcess(
            make_state_folder(launch),
            self.spec,
            self.dialect,
            self._conformance,
            self._host_memory,
        )
        self._processes.append(process)
        self.latest = process
        return process

    def _hide_secrets(self, launch: Launch, values: Mapping[str, str]) -> None:
        """Hide the secrets that a process gets in the report. `values` are those of its variables
        that were read from files, commands or the keyring."""
        spec = self.spec
        names = [name for name, value in spec.env.items() if isinstance(value, ValueReference)]
        names += [setting.secret for setting in spec.settings]
        self.ledger.hide_secrets(find_secrets(launch.plan.env, names, launch.context.config))
        # Those that only the proxy of the process gets.
        self.ledger.hide_secrets(read_injected(spec, values, self._environ).values())

    async def connect(self, *, splits: bool = False) -> tuple[CheckedProcess, Offer]:
        """Start a process and do the handshake. Raises NoAnswer or ExthostError.

        With `splits`, every message is written in small pieces.
        """
        process = await self.start()
        process.splits = splits
        try:
            return process, await self._run_handshake(process)
        except NoAnswer:
            if self.dialect.fallback is None or self._uses_fallback or process.is_alive:
                raise
        # The process ended at the first request. The dialect has an older handshake to try.
        await self.release(process)
        self._uses_fallback = True
        process = await self.start()
        process.splits = splits
        return process, await self._run_handshake(process)

    async def _run_handshake(self, process: CheckedProcess) -> Offer:
        """Run the handshake, and record how long the start took."""
        fallback = self.dialect.fallback if self._uses_fallback else None
        steps = (fallback or self.dialect.handshake)(process.launch.context)
        began = time.perf_counter()
        timer = asyncio.get_running_loop().call_later(
            _ANNOUNCED_SECONDS, self._announce_wait, process
        )
        try:
            offer = await process.run_handshake(steps, self._handshake_seconds)
            self.start_seconds = max(self.start_seconds, time.perf_counter() - began)
            self.has_connected = True
            return offer
        except (NoAnswer, ExthostError) as error:
            if isinstance(error, AnswerTimeout) and process.is_alive and not process.has_written:
                await process.find_unflushed_output()
            if (problem := process.unfinished_frame()) is not None:
                process.problems.append((problem, process.byte_log.format_last()))
            raise
        finally:
            timer.cancel()
            self.all_starts_seconds += time.perf_counter() - began

    def _announce_wait(self, process: CheckedProcess) -> None:
        """Announce what the handshake waits for, unless an earlier one took long, too."""
        if self._announce is None or not process.is_alive:
            return
        self._announce(
            f"waiting for the handshake of {self.spec.id}: "
            f"{describe_wait(has_read=process.has_read, has_written=process.has_written)} "
            f"(for at most {self._handshake_seconds:g} s; "
            f"a --reply-timeout below {REPLY_SECONDS:g}s shortens it)"
        )
        self._announce = None

    async def release(self, process: CheckedProcess) -> None:
        """End a process, and record the problems of its messages."""
        if process in self._processes:
            # Removed only then: if this is cancelled, `release_all` kills it.
            await process.kill()
            self._processes.remove(process)
        self.ledger.add_message_problems(process)

    async def release_all(self) -> None:
        """End every process."""
        for process in list(self._processes):
            await self.release(process)


def describe_wait(*, has_read: bool, has_written: bool) -> str:
    """Return a phrase that says what a process in a handshake has done so far."""
    if has_written:
        return "it has written something, but not the whole answer"
    if has_read:
        return (
            "it has read the request and written nothing; does it flush stdout after each message?"
        )
    return "it has not read the request yet; it may still be starting"


def _buffered(environ: Mapping[str, str], spec: Spec) -> Mapping[str, str]:
    """Return the variables without PYTHONUNBUFFERED, unless the extension refers to it."""
    references = [value for value in spec.env.values() if isinstance(value, HostEnvRef)]
    if _UNBUFFERED not in environ or _UNBUFFERED in references:
        return environ
    return {name: value for name, value in environ.items() if name != _UNBUFFERED}
