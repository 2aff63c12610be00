"""Starts one process: makes the launch plan, spawns it and runs the handshake.

`ProcessStarter` has the settings and functions that all starts of an extension share; a `Start` is
one start. The result of a start is an open session (the host's end of the process) or an
ExthostError. After an error no process is left. A start knows neither the restart policy nor other
processes of the same extension; the supervisor decides when to start one.

The steps of a start are in `Start._spawn_and_run_handshake`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from exthost.errors import ExthostError, HandshakeFailed, PlacementFailed, Refused, SpawnFailed
from exthost.events import ContainmentWeakened, LockMismatch, Spawned
from exthost.extension.isolation import SingleUseSession, check_isolation, is_isolated
from exthost.extension.tool_refresh import ToolRefresh
from exthost.launch.integrity import check_files, check_folders, check_tools, has_code_pin
from exthost.launch.machine_check import is_machine_probed, probe_machine
from exthost.launch.plan import admit, make_state_folder, prepare
from exthost.launch.secret_sources import SecretReading, with_secrets
from exthost.launch.shared_folders import Neighbours, is_writer
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.launch_plan import LaunchPlan
from exthost.model.lock_record import NO_BYTECODE, compare_offer
from exthost.model.offer import NO_OFFER, OfferWarnings
from exthost.model.spec import ValueReference
from exthost.process.child import Child
from exthost.process.child_process import ChildProcess
from exthost.process.own_process import host_environ
from exthost.process.spawn_errors import find_host_error
from exthost.session.handshake import run_handshake, run_initial_steps, start_timeout_error
from exthost.session.session import Session
from exthost.session.trace.secrets import SecretFilter, find_secrets
from exthost.session.trace.traffic import Traffic

if TYPE_CHECKING:
    from exthost.dialects.base import Dialect
    from exthost.dialects.steps import Exchanges
    from exthost.extension.call_queue import CallQueue
    from exthost.extension.network_activity import NetworkActivity
    from exthost.extension.templates import TemplateStarter
    from exthost.launch.admission_record import Admission
    from exthost.launch.plan import Launch
    from exthost.launch.sealed_bytecode import BytecodeCompilation
    from exthost.launch.wasm import Compilation
    from exthost.model.lock_record import LockChange
    from exthost.model.offer import Offer, Tool
    from exthost.model.spec import Limits, Spec
    from exthost.process.template import WarmStart
    from exthost.session.inbound import Handler

_log = logging.getLogger("exthost.extension")

_ASSUMED_DIALECT_HELP = (
    "its entry names no dialect, so {} was assumed: if it speaks another, add dialect = …"
)

# Executes a launch plan for the extension with the given id, on this machine or on another node.
Spawn = Callable[[LaunchPlan, str], ChildProcess | Awaitable[ChildProcess]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChecks:
    """The checks before a start that concern the other extensions of a host.

    find_refusal    returns why the host must not start the extension, or None; called each time the
                    requirements are checked (`admit`)
    find_writable_code  returns the error if a running process may write code of the extension, or
                    None; called before every start
    neighbours      returns the other extensions of the host. Without this function, they are those
                    of the config
    """

    find_refusal: Callable[[], Refused | None] | None = None
    find_writable_code: Callable[[], Refused | None] | None = None
    neighbours: Callable[[], Neighbours] | None = None


NO_CHECKS = StartChecks()
"""The checks of an extension without a host."""


class ProcessStarter:
    """The settings and functions that all starts of one extension share.

    The parameters without a line here are those of `Extension`. The config may *pin* files or
    tools: it has a digest that they must have. It may have a *lock*: a record of the extension as
    it was approved. An *offer* is what an extension announces in its handshake.

    spec             how the extension is configured: its command, variables, limits and so on
    admission        the result of the checks before the start; None until `admit` was called
    argv             the command line of the last start, or of the next one
    tools_digest     the digest of the first offer's tools if they are pinned, else ""
    uses_fallback    whether the usual handshake made a process exit, so that the fallback is used
    templates        starts processes from templates (processes that have imported modules, and are
                     forked); None if that is not configured
    bytecode         the compiled Python files of a locked extension, which it must not run
    last_offer       the offer of the last start that succeeded; empty before the first
    limits           the effective limits of time and size
    network          the connections of its processes through their proxies
    queue            the call queue of the extension
    secret_values    the variables whose values were read from a file, a command or the keyring for
                     the last start
    on_tools_listed  called with the session and the tools of a running process whenever these have
                     changed
    on_new_process   functions of facets (attributes that only extensions of one dialect have); each
                     returns the steps that run after a handshake
    """

    __slots__ = (
        "_checks",
        "_environ",
        "_network",
        "_traffic",
        "_weaknesses",
        "admission",
        "argv",
        "bytecode",
        "check_offer",
        "dialect",
        "handlers",
        "last_offer",
        "limits",
        "on_new_process",
        "on_tools_listed",
        "queue",
        "secret_values",
        "session_handlers",
        "spawn",
        "spec",
        "templates",
        "tools_digest",
        "uses_fallback",
    )

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        queue: CallQueue,
        limits: Limits,
        *,
        handlers: Mapping[str, Handler],
        environ: Mapping[str, str] | None,
        check_offer: Callable[[Offer], None] | None,
        checks: StartChecks = NO_CHECKS,
        session_handlers: Callable[[Session], Mapping[str, Handler]] | None = None,
        spawn: Spawn = Child,
        traffic: Traffic | None = None,
    ) -> None:
        self.spec = spec
        self.dialect = dialect
        self.queue = queue
        self.limits = limits
        self.handlers = handlers
        self.check_offer = check_offer
        self.session_handlers = session_handlers
        self.spawn = spawn
        self._traffic = traffic
        if traffic is not None:
            traffic.add_extension(spec.id, dialect.name, self.secrets)
        self.argv = spec.argv
        self.admission: Admission | None = None
        self.tools_digest = ""
        self.uses_fallback = False
        self.templates = self._make_template_starter()
        self.bytecode = NO_BYTECODE
        self.last_offer = NO_OFFER
        self._network: NetworkActivity | None = None
        self.secret_values: Mapping[str, str] = EMPTY_MAPPING
        self.on_tools_listed: Callable[[Session, tuple[Tool, ...]], None] = lambda _, __: None
        self.on_new_process: tuple[Callable[[], Exchanges], ...] = ()
        self._environ = environ
        self._checks = checks
        self._weaknesses: tuple[tuple[str, str], ...] = ()

    def _make_template_starter(self) -> TemplateStarter | None:
        """Return what starts processes from templates; None if the config does not enable that."""
        if self.spec.start_method != "template" or self.spec.pool.engine is not None:
            return None
        from exthost.extension.templates import TemplateStarter  # imported lazily: few need it

        return TemplateStarter(
            self.spec,
            self.queue.loop,
            self.environ,
            self._reference_names(),
            lambda: self.network,
        )

    @property
    def network(self) -> NetworkActivity:
        """The connections through the proxy of the extension."""
        if self._network is None:
            from exthost.extension.network_activity import NetworkActivity

            self._network = NetworkActivity(self.spec.id, self.queue.bus)
        return self._network

    def environ(self) -> Mapping[str, str]:
        """Return the host's own environment variables."""
        return host_environ() if self._environ is None else self._environ

    def admit(self) -> None:
        """Run the checks before a start. Raises Refused if a check fails or cannot be run."""
        find_refusal = self._checks.find_refusal
        refusal = find_refusal() if find_refusal is not None else None
        if refusal is not None:
            raise refusal
        check_isolation(self.spec)
        is_first = self.admission is None
        try:
            environ, neighbours = self.environ(), self._neighbours()
            self.admission = admit(self.spec, self.dialect, environ, neighbours)
        except ExthostError:
            raise
        except Exception as error:  # a folder that disappears during the check, or a bug in exthost
            _log.exception("%s could not be checked", self.spec.id)
            raise Refused(
                "X0389",
                f"it could not be checked before its start: {error!r}",
                extension=self.spec.id,
                help="restart it; if that does not help, this is a bug here: report it",
            ) from error
        if is_first and self.spec.permissions is not None:
            self._report_overridden_variables()

    def _report_overridden_variables(self) -> None:
        """Log the variables of the config that the sandbox overrides."""
        from exthost.launch.network_grant import (
            OVERRIDE_HELP,
            find_overridden_variables,
            override_warning,
        )

        if names := find_overridden_variables(self.spec):
            _log.warning("[%s] %s; %s", self.spec.id, override_warning(names), OVERRIDE_HELP)

    def _neighbours(self) -> Neighbours | None:
        find_neighbours = self._checks.neighbours
        return find_neighbours() if find_neighbours is not None else None

    def check_code(self) -> None:
        """Raise Refused if a running process may write the code that this start reads."""
        find_writable_code = self._checks.find_writable_code
        if find_writable_code is not None and (refused := find_writable_code()) is not None:
            raise refused

    def report_weaker(self, weaknesses: tuple[tuple[str, str], ...]) -> None:
        """Log and publish the aspects in which the containment is weaker than usual or than
        configured, given as pairs of aspect and reason. An unchanged list is not reported again."""
        if weaknesses != self._weaknesses:
            for aspect, reason in weaknesses:
                _log.warning("[%s] weaker %s: %s", self.spec.id, aspect, reason)
                self.queue.bus.publish(ContainmentWeakened(self.spec.id, aspect, reason))
        self._weaknesses = weaknesses

    def end_next(self) -> None:
        """End the process that was started in advance, because no process is needed soon."""
        if self.templates is not None:
            self.templates.end_next()

    async def close(self) -> None:
        """Release what the starts have shared, when all processes have ended."""
        if self.templates is not None:
            await self.templates.close()

    def traffic(self) -> Traffic:
        """Return the recorder of messages, which the extensions of a host share. For an extension
        without a host it is made here, at the first use."""
        if self._traffic is None:
            self._traffic = Traffic(self.queue.bus)
            self._traffic.add_extension(self.spec.id, self.dialect.name, self.secrets)
            for session in self.queue.live_sessions:
                self._traffic.follow(session)
        return self._traffic

    def follow(self, session: Session) -> None:
        """Let the recorder of messages, if it exists, see the messages of a new session."""
        if self._traffic is not None:
            self._traffic.follow(session)

    def secrets(self) -> Iterator[str]:
        """Yield the secrets that the processes get, and the secrets in the host's variables."""
        spec, host_env = self.spec, self.environ()
        secret_names = [*self._reference_names(), *(setting.secret for setting in spec.settings)]
        yield from find_secrets(host_env, spec.env.values(), spec.config)
        yield from self._injected_secrets()
        try:
            launch = self.prepared()
        except ExthostError:  # it cannot be started now, as when a variable of the host is gone
            yield from find_secrets(spec.env, secret_names, None)
            return
        yield from find_secrets(launch.plan.env or {}, secret_names, launch.context.config)

    def _reference_names(self) -> list[str]:
        """Return the variables whose values the config only refers to."""
        env = self.spec.env
        return [name for name, value in env.items() if isinstance(value, ValueReference)]

    def _injected_secrets(self) -> Iterable[str]:
        """Return the secrets that only the proxy of a process gets."""
        from exthost.launch.header_injection import read_injected

        return read_injected(self.spec, self.secret_values, self.environ()).values()

    def secret_filter(self, launch: Launch) -> SecretFilter | None:
        """Return a filter that hides the secrets that the config gives to a process; None if there
        are none. It is for logs and errors; traces hide those of the host's variables, too."""
        values = {name: launch.plan.env.get(name, "") for name in self.spec.env}
        secrets = list(find_secrets(values, self._reference_names(), None))
        secrets += self._injected_secrets()
        return SecretFilter(secrets) if secrets else None

    def check_tools(self, tools: tuple[Tool, ...]) -> str:
        """Raise Refused if the tools are not the pinned ones. Return their digest, for
        `tools_digest`."""
        return check_tools(self.spec, tools, self.tools_digest)

    def judge_lock(self, changes: list[LockChange]) -> None:
        """Report how the extension differs from its record in the lock, if it does. Raises Refused,
        unless the config requests only a warning."""
        if changes:
            from exthost.launch.locked_code import mismatch_error

            self.report_mismatch(mismatch_error(self.spec, changes), changes[0].key)

    def report_mismatch(self, refused: Refused, key: str) -> None:
        """Publish that the extension differs from its lock. Raise the error, unless the config
        requests only a warning. `key` is the part of the record that differs."""
        is_enforced = self.spec.lock is not None and self.spec.lock.mode == "enforce"
        line = refused.evidence.line
        self.queue.bus.publish(LockMismatch(self.spec.id, key, line, refused.message, is_enforced))
        if is_enforced:
            raise refused
        _log.warning("[%s] %s", self.spec.id, refused.message)

    def hide_bytecode(self, launch: Launch) -> Launch:
        """Return the launch, changed so that Python does not run compiled files which the lock does
        not cover. Return it unchanged if there is no lock."""
        if self.spec.lock is None or self.spec.pool.engine is not None:
            return launch  # the files of a process on another machine are not here
        from exthost.launch.bytecode import hide_bytecode

        plan = hide_bytecode(
            self.spec,
            launch.plan,
            self.environ(),
            self.bytecode,
            launch.state_owner,
        )
        return replace(launch, plan=plan)

    def prepared(self) -> Launch:
        """Return the launch plan of the next start, with its environment and its sandbox."""
        return prepare(
            with_secrets(self.spec, self.secret_values),
            self.dialect,
            self.environ(),
            frozenset(self.handlers),
            self.admission,
            # The code of the other extensions has to be protected only from one that may write.
            self._neighbours() if is_writer(self.spec) else Neighbours(),
        )


# How many nodes (other machines) are tried for one start if they are lost during the handshake.
_MAX_NODES = 3


def _node_lost_error(session: Session, extension: str) -> PlacementFailed:
    """Return the error if the node of a process was lost during its handshake."""
    child = session.lifetime.child
    status = child.poll_exit()
    reason = status.lost if status is not None else ""
    return PlacementFailed(
        "X0423",
        f"node {child.node} was lost while the process started: {reason}",
        extension=extension,
        help="check the node; the process is started elsewhere",
    )


# The lock of `spawn_turn`, by event loop.
_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def is_spawn_turn_free(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether no other extension of this loop is about to spawn a process."""
    lock = _locks.get(loop)
    return lock is None or not lock.locked()


@asynccontextmanager
async def spawn_turn(loop: asyncio.AbstractEventLoop) -> AsyncIterator[None]:
    """Wait for the turn to spawn a process in this loop, and keep it for the length of the block.

    A spawn blocks the loop's thread for some milliseconds. Hundreds of extensions that start at the
    same time would block the loop for seconds, and with it all calls. So there is one spawn in each
    iteration of the loop, and other callbacks run between two. A single start does not wait.
    """
    lock = _locks.get(loop)
    if lock is None:
        lock = _locks[loop] = asyncio.Lock()
    await lock.acquire()
    try:
        yield
    finally:
        # The lock is released in the next iteration of the loop. Otherwise the next start would run
        # in this one.
        loop.call_soon(lock.release)


class Start:
    """One start of a process, as a task.

    session       the session with the process; None until the process was spawned
    offer         the result of the handshake; empty until then
    seconds       how long the handshake took
    tool_refresh  requests the tools again when they have changed; set with `session`
    replaces      whether the process replaces the ready ones
    has_made_room whether the process that it replaces was dismissed already
    was_killed    whether `kill` ended the process, so that its exit does not cause a fallback
    """

    def __init__(
        self,
        starter: ProcessStarter,
        first_id: int | None,
        *,
        replaces: bool,
        on_done: Callable[[Start], None],
    ) -> None:
        """`first_id` is the id of the first request; None means the dialect's first id. `on_done`
        is called with this object when the start has succeeded or failed."""
        self._starter = starter
        self.session: Session | None = None
        self._launch: Launch | None = None
        self.offer = NO_OFFER
        self.replaces = replaces
        self.has_made_room = False
        self.seconds = 0.0
        self.was_killed = False
        self._lost_template = False
        self._task = starter.queue.loop.create_task(self._run(first_id))
        self._task.add_done_callback(lambda _: on_done(self))

    def result(self) -> Session:
        """Return the open session, or raise the error of the start."""
        return self._task.result()

    async def cancel(self) -> None:
        """Cancel the start, and return when its process is gone."""
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        if not self._task.cancelled() and self._task.exception() is None:
            await self._task.result().close()

    async def _run(self, first_id: int | None) -> Session:
        starter = self._starter
        limit = starter.limits.start
        try:
            async with asyncio.timeout(limit) as self._timeout:
                return await self._start_process(first_id)
        except ExthostError:  # first, because CallTimeout is a TimeoutError
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # It comes from the code that spawns the process, or from the dialect.
            raise self._unexpected_error(error) from error
        except TimeoutError:
            if self.session is not None:  # the process was spawned
                assert limit is not None
                late = self._with_advice(start_timeout_error(self.session, limit))
                self.session.diagnostics.hide_in_error(late)
                raise late from None
            raise HandshakeFailed(
                "X0507",
                f"it was not ready within {limit:g} s",
                extension=starter.spec.id,
                help="raise limits.start if it is merely slow to start",
            ) from None
        except Exception as error:  # such as an exception in a dialect's code
            if (host_error := find_host_error(error, starter.spec)) is not None:
                raise host_error from error
            raise self._unexpected_error(error) from error

    def _unexpected_error(self, error: BaseException) -> SpawnFailed:
        """Log an exception that is not an error of the extension, and return the error for it."""
        extension = self._starter.spec.id
        _log.exception("%s could not be started", extension)
        return SpawnFailed(
            "X0406",
            f"it could not be started: {error!r}",
            extension=extension,
            help="if its configuration is right, this is a bug here: report it",
        )

    async def _start_process(self, first_id: int | None) -> Session:
        """Start the process; start it once more with the fallback handshake, if the usual one has
        made it exit."""
        starter = self._starter
        may_fall_back = starter.dialect.fallback is not None and not starter.uses_fallback
        try:
            return await self._start_again_if_lost(first_id)
        except HandshakeFailed as error:
            # The fallback is for programs that exit because they have read the usual handshake.
            did_exit = error.process_ended and error.has_read and not self.was_killed
            if not may_fall_back or not did_exit:
                raise
        starter.uses_fallback = True
        try:
            return await self._start_again_if_lost(first_id)
        except BaseException:
            starter.uses_fallback = False
            raise

    async def _start_again_if_lost(self, first_id: int | None) -> Session:
        """Start the process. A template (a process that forks a process for each start) may fail to
        provide one that joins the sandbox; then start the process again without the template."""
        try:
            return await self._start_on_any_node(first_id)
        except HandshakeFailed:
            if not self._lost_template:
                raise
        self._lost_template = False
        return await self._start_on_any_node(first_id)

    async def _start_on_any_node(self, first_id: int | None) -> Session:
        """Start the process. If it runs on another machine (a node) that is lost during the
        handshake, start the process again: the node is then avoided."""
        for attempt in range(1, _MAX_NODES + 1):
            try:
                return await self._spawn_and_run_handshake(first_id)
            except HandshakeFailed as error:
                session = self.session
                is_node_lost = session is not None and session.diagnostics.is_lost
                if not error.process_ended or not is_node_lost or self.was_killed:
                    raise
                assert session is not None
                lost = _node_lost_error(session, self._starter.spec.id)
                if attempt == _MAX_NODES:
                    raise lost from None
                _log.warning("[%s] %s; another node is tried", lost.extension, lost.message)
        raise AssertionError

    def _with_advice(self, error: HandshakeFailed) -> HandshakeFailed:
        """Return the error, with help that names the sandbox or a missing environment variable if
        that is the likely cause."""
        launch = self._launch
        if launch is not None:
            stderr, policy = error.evidence.stderr, self._starter.spec.permissions
            is_silent = self.session is not None and not self.session.first_output
            from exthost.launch.advice import (
                find_hidden_module,
                find_missing,
                suggest_memory,
                suggest_network,
                suggest_variable,
            )
            from exthost.launch.grant_advice import suggest_grant

            error.help = (
                suggest_memory(policy.max_memory if policy is not None else None, stderr)
                or suggest_grant(launch.plan.wrapper, stderr)
                or suggest_variable(launch.environment, stderr, launch.enforced)
                or find_hidden_module(launch.plan, launch.environment, stderr)
                or find_missing(stderr, launch.plan.argv, launch.plan.cwd)
                or self._with_assumption(
                    suggest_network(
                        launch.enforced,
                        error.help,
                        stderr,
                        is_silent=is_silent,
                        ended=error.process_ended,
                        argv=launch.plan.argv,
                    )
                )
            )
        return error

    def _with_assumption(self, help: str) -> str:
        """Return the help. If the config names no dialect, the help first says which one was
        assumed."""
        starter = self._starter
        if not starter.spec.is_dialect_assumed:
            return help
        return f"{_ASSUMED_DIALECT_HELP.format(starter.dialect.name)}; {help}"

    async def _run_in_thread(self, work: Compilation | BytecodeCompilation | SecretReading) -> None:
        """Compile a WebAssembly module, or the modules of a locked extension, or read its secrets.
        The time limit of the start begins afterwards."""
        self._timeout.reschedule(None)
        running = asyncio.ensure_future(asyncio.to_thread(work.run))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            work.stop()
            await asyncio.wait([running])
            raise
        self._restart_time_limit()

    async def _prepare_template(self, templates: TemplateStarter) -> None:
        """Make the template of the program. The time limit of the start begins afterwards."""
        if templates.is_prepared():
            return
        self._timeout.reschedule(None)
        launch = make_state_folder(self._starter.prepared())  # the template has it in its sandbox
        await templates.prepare(self._starter.hide_bytecode(launch).plan)
        self._restart_time_limit()

    def _restart_time_limit(self) -> None:
        if (seconds := self._starter.limits.start) is not None:
            self._timeout.reschedule(self._starter.queue.loop.time() + seconds)

    async def _wait_for_node(self, spawned: Awaitable[ChildProcess]) -> ChildProcess:
        """Wait for a process on another node. The time limit of the start begins when the process
        runs; a setting of the cluster limits the time to find a node."""
        self._timeout.reschedule(None)
        child = await spawned
        self._restart_time_limit()
        return child

    async def _compare_with_lock(self) -> LaunchPlan:
        """Compare what would be started with the lock. Return its plan. Raises Refused."""
        from exthost.launch.locked_code import check_small_start, check_start
        from exthost.launch.tree_snapshot import NotSmall

        starter = self._starter
        plan = starter.prepared().plan
        arguments = starter.spec, plan, starter.environ()
        try:
            try:
                # A thread costs more than the comparison of few files. But many extensions that
                # start at the same time must not block the loop.
                if not is_spawn_turn_free(starter.queue.loop):
                    raise NotSmall
                checked = check_small_start(*arguments)
            except NotSmall:
                checked = await asyncio.to_thread(check_start, *arguments)
        except Refused as refused:
            starter.report_mismatch(refused, "package")
        else:
            starter.bytecode = checked.bytecode
            starter.judge_lock(checked.changes)
        return plan

    async def _spawn_and_run_handshake(self, first_id: int | None) -> Session:
        """Do one start: check and prepare it, spawn the process, open its session, and run the
        handshake."""
        starter, queue = self._starter, self._starter.queue
        await self._check_and_prepare()
        # The block must not wait for anything: what it checks has to be true at the spawn.
        async with spawn_turn(queue.loop):
            launch, spawned, forked_start = self._spawn()
        child = await self._wait_for_node(spawned) if isinstance(spawned, Awaitable) else spawned
        child.start_watchdog(queue.loop.call_soon_threadsafe)
        if child.network_proxy is not None:
            child.network_proxy.watch(queue.loop, starter.network)
        self._publish_spawned(child, launch)
        session = self.session = self._open_session(child, launch, first_id)
        self.tool_refresh = ToolRefresh(session, starter.check_tools, starter.on_tools_listed)
        session.on_stale_offer = self.tool_refresh.request
        handshake_began_at = queue.loop.time()
        try:
            tools_digest = await self._run_handshake(session, launch)
            if starter.templates is not None and isinstance(child, Child):
                starter.templates.on_ready(forked_start, launch.plan, child)
        except BaseException as error:
            await self._end_failed(session, error, forked_start)
            raise
        starter.tools_digest = tools_digest
        starter.last_offer = self.offer
        self.seconds = queue.loop.time() - handshake_began_at
        return session

    @property
    def _is_local(self) -> bool:
        """Whether the process runs on this machine. The files of another machine are not here, so
        they cannot be checked."""
        return self._starter.spec.pool.engine is None

    async def _check_and_prepare(self) -> None:
        """Do what comes before the spawn and may take long: probe the machine, compare the files
        with pins and lock, read secrets, compile, and make the template. Raises Refused."""
        starter = self._starter
        spec = starter.spec
        if not is_machine_probed(spec):
            await asyncio.to_thread(probe_machine, spec)
        # Pins and lock are checked before each start, because files may have changed.
        if self._is_local and has_code_pin(spec):
            plan = starter.prepared().plan
            await asyncio.to_thread(check_folders, spec, plan, starter.environ())
        has_waited = False
        if spec.lock is not None:
            plan = await self._compare_with_lock()
            if self._is_local and not starter.bytecode.is_small:
                from exthost.launch.sealed_bytecode import BytecodeCompilation

                compilation = BytecodeCompilation(spec, plan, starter.environ(), starter.bytecode)
                if compilation.is_needed:
                    await self._run_in_thread(compilation)
                    has_waited = True
        secrets = SecretReading(spec, starter.environ())
        if secrets.is_needed:
            starter.check_code()  # the host itself runs the command of a secret
            await self._run_in_thread(secrets)
            starter.secret_values = secrets.values
            has_waited = True
        if spec.source == "wasm":
            from exthost.launch.wasm import Compilation

            await self._run_in_thread(Compilation(spec, starter.environ()))
            has_waited = True
        if has_waited and spec.lock is not None:
            await self._compare_with_lock()  # its files may have changed meanwhile
        if starter.templates is not None:
            await self._prepare_template(starter.templates)

    def _spawn(self) -> tuple[Launch, ChildProcess | Awaitable[ChildProcess], WarmStart | None]:
        """Spawn the process. Return its launch, the process, and its start from a template; None if
        it was not forked from one. A process on another node is awaited."""
        starter = self._starter
        starter.check_code()
        launch = self._launch = starter.hide_bytecode(make_state_folder(starter.prepared()))
        starter.report_weaker(launch.weaker)
        if self._is_local:
            check_files(starter.spec, launch.plan)
        starter.argv = launch.plan.argv
        forked = starter.templates.spawn(launch.plan) if starter.templates is not None else None
        if forked is not None:
            child, start = forked
            return launch, child, start
        return launch, starter.spawn(launch.plan, starter.spec.id), None

    def _publish_spawned(self, child: ChildProcess, launch: Launch) -> None:
        starter = self._starter
        bus = starter.queue.bus
        if Spawned in bus.listeners:
            # The system may have refused the planned cgroup: what is enforced is then less.
            lacks_cgroup = launch.plan.group is not None and not child.has_cgroup
            enforced = (starter.prepared() if lacks_cgroup else launch).enforced
            argv = launch.plan.argv
            bus.publish(Spawned(starter.spec.id, child.pid, argv, enforced, child.node))

    def _open_session(self, child: ChildProcess, launch: Launch, first_id: int | None) -> Session:
        """Return a new session with the process."""
        starter = self._starter
        handlers = starter.handlers if starter.session_handlers is None else dict(starter.handlers)
        make_session = SingleUseSession if is_isolated(starter.spec) else Session
        session = make_session(
            child,
            starter.dialect,
            starter.queue,
            starter.limits,
            first_id=first_id,
            handlers=handlers,
            wire_id=starter.spec.wire_id,
            stop_seconds=starter.spec.limits.stop,
        )
        if (wrapper := launch.plan.wrapper) is not None and wrapper.is_strict:
            # The plan itself is not kept: its variables may be secrets, and are many.
            from exthost.launch.advice import suggest_grant_to_tool

            advise = partial(suggest_grant_to_tool, wrapper, launch.enforced)
            session.diagnostics.suggest_grant = advise
        if (secret_filter := starter.secret_filter(launch)) is not None:
            session.diagnostics.use_secret_filter(secret_filter)
            if launch.plan.network is not None:
                starter.network.hide_secrets = secret_filter.text
        starter.follow(session)
        if starter.session_handlers is not None and isinstance(handlers, dict):
            # The session already has this dict. Its handlers must be complete before the loop reads
            # any byte, because the first message may be a request.
            handlers |= {**starter.session_handlers(session), **starter.handlers}
        return session

    async def _run_handshake(self, session: Session, launch: Launch) -> str:
        """Run the handshake, check what the extension announces, and run the first requests of its
        facets. Return the digest of its tools if they are pinned, else ""."""
        starter = self._starter
        context = replace(launch.context, last_offer=starter.last_offer)
        offer = await run_handshake(session, context, fallback=starter.uses_fallback)
        reported = OfferWarnings(offer.warnings).report()
        warnings = tuple(map(session.diagnostics.hide_secrets, reported))
        self.offer = replace(offer, warnings=warnings)
        tools_digest = starter.check_tools(self.offer.tools)
        if (lock := starter.spec.lock) is not None:
            starter.judge_lock(compare_offer(lock.record, self.offer))
        if starter.check_offer is not None:
            starter.check_offer(self.offer)
        for steps in starter.on_new_process:
            await run_initial_steps(session, steps())
        session.forget_first_output()  # it is only evidence for a handshake that fails
        return tools_digest

    async def _end_failed(
        self, session: Session, error: BaseException, forked_start: WarmStart | None
    ) -> None:
        """End a process that did not get ready, and add advice to its error."""
        templates = self._starter.templates
        child = session.lifetime.child
        # A start that was cancelled, but not by its time limit, says nothing about its template.
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if templates is not None and (self._timeout.expired() or not is_cancelled):
            templates.on_failed(forked_start)
        await session.kill_and_wait()
        if templates is not None and isinstance(child, Child) and child.lost_template:
            self._lost_template = True
            templates.on_lost()
        if isinstance(error, HandshakeFailed):
            self._with_advice(error)
            session.diagnostics.hide_in_error(error)
