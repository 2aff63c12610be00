"""Starts Python programs from templates (`start_method = "template"`), to make starts faster.

A template is a Python process that has imported modules, and from which processes are forked. So a
forked process need not import the modules itself. Extensions on the same event loop share a
template if it would be the same for each of them.

The first process of a program is forked from an empty template, and records which modules the
program imports. From then on a template imports these modules, and the program is forked from it.
The names of the modules are kept in the host's state folder (`Learned`).

When a process is ready, the next one is started in advance (`_NextProcess`): it has its namespace
(the view of the system that its sandbox gives it) and its variables, and waits before the first
line of the program.

A start never depends on a template. If the template is not ready yet, has ended, or has imported a
file that was changed since, the program is executed as usual; `StartReport` has the reason.

A start of an extension calls, in this order:

    await starter.prepare(plan)         makes the template if needed, and waits for it
    starter.spawn(plan)                 forks a process; None: execute the program as usual
    starter.on_ready(start, …)          the handshake is done: start the next process in advance
    starter.on_failed(start)            or it failed
"""

import asyncio
import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from exthost.errors import ExthostError
from exthost.extension.network_activity import NetworkActivity
from exthost.launch.template_plan import (
    NoTemplate,
    PythonCommand,
    describe_program,
    find_python_command,
    find_refusal,
    find_secret_names,
    find_secret_readers,
    plan_copy,
    plan_template,
)
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import Spec
from exthost.process.child import Child
from exthost.process.memory_file import memory_file
from exthost.process.private_folders import make_folder
from exthost.process.procfs import inherited_state, shared_bytes
from exthost.process.state_root import state_root
from exthost.process.template import (
    LEARNED_BYTES,
    MAX_NAMES,
    Template,
    TemplateInputs,
    TemplateReport,
    WarmStart,
    find_file,
    pack,
)

_log = logging.getLogger("exthost.extension")

# How long a start waits for a template. Without a template it would import the same modules, and
# that would take as long.
_WAIT_SECONDS = 20.0

# How long a program that records its modules runs before they are read. Many modules are imported
# by the first call.
_LEARN_SECONDS = 1.0

# How long after a process is ready the next one is started in advance, so that this does not delay
# its first calls.
_NEXT_SECONDS = 0.1

# How often a template is made in a row, if each one reports modules that it must not import.
_MAX_ATTEMPTS = 5

# How many bytes a template may write to stderr.
_MAX_STDERR = 2**20

_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MAX_MODULES = 20_000

# How often a template is made again because a file that it has imported was changed. A program that
# changes such files with every start gains nothing from a template.
_MAX_CHANGES = 5

# How many starts from a template fail, without one that succeeds, before the program is always
# executed. The template may be the reason, or something that passes.
_MAX_FAILURES = 2

# The imported files are checked for changes once for each start, and at most this long before it.
_CHECK_SECONDS = 0.5

# How many entries of the folder of a script are compared: a few milliseconds of work.
_MAX_ENTRIES = 10_000

# How long templates may take to end. They take milliseconds, unless their processes are stopped.
_END_SECONDS = 10.0

_FAILED = "its last start from the template failed"
_RETIRED = "a file of its environment has changed: {}"


class StartReport(NamedTuple):
    """How the last process of an extension was started: "template" or "execute", and the reason if
    it was not forked from its template."""

    method: str
    reason: str = ""


@dataclass(slots=True)
class Learned:
    """What is known about a program from its earlier runs.

    modules  the modules that it imported, in their order
    refused  those that a template must not import, each with the reason
    reads    the variables that modules read when they are imported, each with such a module
    """

    modules: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    reads: dict[str, str] = field(default_factory=dict)


class _NextProcess(NamedTuple):
    """A process that was started in advance.

    child     the process
    start     its start, which waits for `WarmStart.go_on`
    template  the template that it was forked from
    origin    what it was made from (`_find_origin`). If this has changed, the process is not used
    """

    child: Child
    start: WarmStart
    template: Template
    origin: tuple[object, ...]


class _Entry:
    """A template. `ready` is done when the template has imported its modules (True), or has ended
    (False)."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class Templates:
    """The templates of one event loop, which its extensions share."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._entries: dict[TemplateInputs, _Entry] = {}
        # Templates from which no more processes are forked, and which have processes.
        self._retired: set[Template] = set()
        # One future for each process that was killed; it is done when the process is reaped.
        self._ending: set[asyncio.Future[None]] = set()

    def find(self, inputs: TemplateInputs) -> _Entry | None:
        """Return the template for these inputs, which may still be starting; None if there is
        none."""
        entry = self._entries.get(inputs)
        return entry if entry is not None and not entry.template.is_retired else None

    def make(self, plan: LaunchPlan, inputs: TemplateInputs, extension: str) -> _Entry:
        """Start a template. Raises SpawnFailed."""
        entry = self._entries[inputs] = _Entry(Template(plan, inputs, extension))
        template, loop = entry.template, self._loop
        os.set_blocking(template.child.stdout, False)
        os.set_blocking(template.child.stderr, False)
        loop.add_reader(template.child.stdout, self._read, entry)
        stderr = template.child.stderr
        loop.add_reader(stderr, _DiscardedStderr(loop, stderr).read)
        loop.add_reader(template.child.exit_fd, self._on_exit, entry)
        if not template.write():
            loop.add_writer(template.descriptor, self._write, template)
        template.child.start_watchdog(loop.call_soon_threadsafe)
        return entry

    def _write(self, template: Template) -> None:
        """Write the rest of what the template gets at its start."""
        if template.write():
            self._loop.remove_writer(template.descriptor)

    def _read(self, entry: _Entry) -> None:
        """Read output of the template, whose report means that it is ready."""
        template = entry.template
        is_open = template.read()
        if not is_open:
            self._loop.remove_reader(template.child.stdout)
            self.retire(template)
        if not entry.ready.done() and (template.report is not None or not is_open):
            entry.ready.set_result(is_open)

    def _on_exit(self, entry: _Entry) -> None:
        self._loop.remove_reader(entry.template.child.exit_fd)
        self.retire(entry.template)
        if not entry.ready.done():
            entry.ready.set_result(False)

    def retire(self, template: Template) -> None:
        """Fork no more processes from a template. It ends when the last of its processes ends."""
        if not template.is_retired:
            template.is_retired = True
            self._retired.add(template)
        self._forget(template)
        self.end_unused(template)

    def _forget(self, template: Template) -> None:
        entry = self._entries.get(template.inputs)
        if entry is not None and entry.template is template:
            del self._entries[template.inputs]

    def end_unused(self, template: Template) -> None:
        """End a template that no extension and no process uses."""
        if template.starts or (template.users and not template.is_retired):
            return
        if template in self._retired or not template.users:
            self._retired.discard(template)
            self._forget(template)
            self._end(template)

    def _end(self, template: Template) -> None:
        child, loop = template.child, self._loop
        if child.stdout < 0:
            return
        for fd in (child.stdout, child.stderr, child.exit_fd):
            loop.remove_reader(fd)
        loop.remove_writer(template.descriptor)
        template.close()
        self.end_child(child)

    def end_child(self, child: Child) -> None:
        """Kill a process whose output is not needed, and reap it when it has ended."""
        loop = self._loop
        child.close_stdin()
        child.close_outputs()
        child.kill()
        done: asyncio.Future[None] = loop.create_future()
        self._ending.add(done)
        second_kill = loop.call_later(1.0, child.kill)

        def reap() -> None:
            loop.remove_reader(child.exit_fd)
            second_kill.cancel()
            child.reap()
            self._ending.discard(done)
            if not done.done():
                done.set_result(None)

        loop.add_reader(child.exit_fd, reap)

    async def wait_ended(self) -> None:
        """Return when the templates that are ending have ended."""
        deadline = self._loop.time() + _END_SECONDS
        # A template ends after the last of its processes.
        while self._ending and (remaining := deadline - self._loop.time()) > 0:
            await asyncio.wait(self._ending, timeout=remaining)

    def release(self, extension: str, *, keep: Template | None = None) -> None:
        """Forget that an extension uses templates, except `keep`. Templates without users end."""
        current = [entry.template for entry in self._entries.values()]
        for template in (*current, *self._retired):
            if template is not keep:
                template.users.discard(extension)
                self.end_unused(template)


_templates: "WeakKeyDictionary[asyncio.AbstractEventLoop, Templates]" = WeakKeyDictionary()


class _DiscardedStderr:
    """Reads what a template writes to stderr: warnings of modules, which a start without a template
    would write as well. After _MAX_STDERR bytes nothing more is read, and the template waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop = loop
        self._fd = fd
        self._remaining = _MAX_STDERR

    def read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return
        self._remaining -= len(data)
        if not data or self._remaining < 0:
            self._loop.remove_reader(self._fd)


class TemplateStarter:
    """Starts the processes of one extension from templates. `last` reports on the last start."""

    def __init__(
        self,
        spec: Spec,
        loop: asyncio.AbstractEventLoop,
        environ: Callable[[], Mapping[str, str]],
        references: Collection[str],
        network: Callable[[], NetworkActivity],
    ) -> None:
        """`environ` returns the host's environment variables. `references` are the variables of the
        extension whose values the config only refers to. `network` returns the observer of its
        proxies."""
        self._network = network
        self._references = references
        self._refusal = find_refusal(spec)
        self._extension = spec.id
        self._loop = loop
        self._environ = environ
        self._templates = _templates.setdefault(loop, Templates(loop))
        self._learned: Learned | None = None
        self._file = ""  # the path of the file from which `_learned` was read
        # The descriptor of the file in which a running program records its modules, or -1; and
        # whether the program is ready. Before, it has not imported all its modules.
        self._record_fd = -1
        self._is_recorded = False
        self._failures = 0  # starts from a template that have failed since the last good one
        self._skips_template = False  # whether the next start, but only that, uses no template
        self._reason = ""  # why the last start that failed was not forked from its template
        self._change_count = 0  # how often the template had to be made again
        self._last_template: Template | None = None  # the template of the last start
        self._checked_at = -math.inf  # when the imported files were last checked for changes
        self._building: asyncio.Task[None] | None = None  # makes a template
        self._learn_timer: asyncio.TimerHandle | None = None  # will call `_learn`
        self._preparing: asyncio.TimerHandle | None = None  # will call `_start_next`
        self._next: _NextProcess | None = None
        self.last = StartReport("execute", "it has not been started")

    def is_prepared(self) -> bool:
        """Return whether the template of the last start can be used again."""
        template = self._last_template
        if template is None or template.is_retired:
            return False
        if self._record_fd >= 0 or self._building is not None:
            return False
        self._checked_at = self._loop.time()
        return not template.find_changed_file()

    @property
    def _is_usable(self) -> bool:
        """Whether templates have not failed too often for this program."""
        return self._failures < _MAX_FAILURES and self._change_count <= _MAX_CHANGES

    async def prepare(self, plan: LaunchPlan) -> None:
        """Make the template for a start if needed, and wait until it is ready."""
        try:
            command = self._find_command(plan)
            self._load_learned(plan, command)
            if self._skips_template or not self._is_usable:
                return
            self._take_recorded()
            entry = self._find_entry(plan, command)
            if entry is not None and entry.template.report is not None:
                self._checked_at = self._loop.time()
                if not entry.template.find_changed_file():
                    return
                self._templates.retire(entry.template)
                self._change_count += 1
                entry = None
            if entry is None and self._building is None:
                self._building = self._loop.create_task(self._build(plan, command))
            if self._building is not None:
                await asyncio.wait([self._building], timeout=_WAIT_SECONDS)
        except (NoTemplate, ExthostError, OSError):
            return  # `spawn` reports it

    def spawn(self, plan: LaunchPlan) -> tuple[Child, WarmStart] | None:
        """Return a process that is forked from the template, and its start. Return None if the
        program must be executed as usual; `last` then has the reason. Raises SpawnFailed."""
        try:
            command = self._find_command(plan)
            template = self._find_usable_template(plan, command)
            if (prepared := self._take_next(template, plan, command)) is not None:
                return prepared.child, prepared.start
            start = self._make_start(template, plan, command)
        except NoTemplate as error:
            self.end_next()  # it was forked from a template that is not used any more
            self._set_report(StartReport("execute", str(error)))
            return None
        except (ExthostError, OSError) as error:
            self.end_next()
            self._set_report(StartReport("execute", f"its template could not be made: {error}"))
            return None
        return Child(plan, self._extension, start=start), start

    def _find_command(self, plan: LaunchPlan) -> PythonCommand:
        """Return the Python command of a plan. Raises NoTemplate if it cannot use a template."""
        if self._refusal:
            raise NoTemplate(self._refusal)
        return find_python_command(plan)

    def _find_usable_template(self, plan: LaunchPlan, command: PythonCommand) -> Template:
        """Return the template of a start. Raises NoTemplate."""
        if self._skips_template:
            self._skips_template = False
            reason = self._reason or "no process of its template has joined its sandbox"
            raise NoTemplate(reason)
        if self._failures >= _MAX_FAILURES:
            raise NoTemplate(_FAILED)
        if self._change_count > _MAX_CHANGES:
            raise NoTemplate("the files of its environment change again and again")
        self._load_learned(plan, command)
        entry = self._find_entry(plan, command)
        if entry is None or entry.template.report is None:
            self._last_template = None
            self._plan_template(plan, command)  # raises NoTemplate if there cannot be one
            raise NoTemplate("its template is being made")
        template = entry.template
        if (proxy := template.child.network_proxy) is not None and proxy.pid is None:
            self._templates.retire(template)
            raise NoTemplate("the proxy of its template has ended")
        was_just_checked = self._loop.time() - self._checked_at < _CHECK_SECONDS
        if not was_just_checked and (changed := template.find_changed_file()):
            self._templates.retire(template)
            self._change_count += 1
            raise NoTemplate(_RETIRED.format(changed))
        if template is self._last_template:
            self._change_count = 0  # two starts without a change between them
        self._last_template = template
        template.users.add(self._extension)
        return template

    def _make_start(
        self, template: Template, plan: LaunchPlan, command: PythonCommand, *, waits: bool = False
    ) -> WarmStart:
        """Return a start from a template. `waits` is whether it is made in advance."""
        assert self._learned is not None
        # As long as no modules are known, one process records them.
        records = not waits and not self._learned.modules and self._record_fd < 0
        if records:
            self._record_fd = memory_file("exthost-modules", b"", LEARNED_BYTES)
        wrapper = plan.wrapper
        start = template.start(
            describe_program(plan, command),
            self._record_fd if records else -1,
            partial(plan_copy, wrapper) if wrapper is not None and wrapper.is_strict else None,
            waits=waits,
        )
        start.on_close = partial(self._on_ended, template, records=records)
        return start

    def _on_ended(self, template: Template, *, records: bool) -> None:
        """Handle the end of a process. If it was to record its modules but did not get ready, the
        next one records them."""
        if records:
            self._take_recorded()
            self._end_recording()
        self._templates.end_unused(template)

    # -- the next process ----------------------------------------------------------------------

    def _start_next(self, template: Template, plan: LaunchPlan, child: Child) -> None:
        """Start the next process in advance. It shares its memory with the template until it writes
        to it, which copies a page. To save time later, it copies at once those pages that the ready
        process `child` has copied."""
        self._preparing = None
        if template.is_retired or plan.group is not None:  # a cgroup would stay without a program
            return
        prepared = self._next
        if (
            prepared is not None
            and prepared.template is template
            and prepared.child.poll_exit() is None
        ):
            return
        self.end_next()
        # If `child` has ended, its pids may belong to other processes now.
        template.look_at_pages(child.program_pids if child.poll_exit() is None else ())
        try:
            command = self._find_command(plan)
            origin = _find_origin(plan, command)
            start = self._make_start(template, plan, command, waits=True)
            child = Child(plan, self._extension, start=start)
        except (NoTemplate, ExthostError, OSError):
            return  # the next start reports it
        # The watchdog is for the process that waits, too: code that the template has imported may
        # run in it when it is forked.
        child.start_watchdog(self._loop.call_soon_threadsafe)
        self._next = _NextProcess(child, start, template, origin)

    def _take_next(
        self, template: Template, plan: LaunchPlan, command: PythonCommand
    ) -> _NextProcess | None:
        """Let the process that was started in advance run the program, and return it. Return None
        if there is none, or if it differs from a process that would be started now."""
        prepared = self._next
        if prepared is None or not prepared.start.is_waiting:
            return None
        origin: tuple[object, ...] = ()
        with suppress(NoTemplate):
            origin = _find_origin(plan, command)
        if (
            prepared.template is template
            and prepared.origin == origin
            and prepared.child.poll_exit() is None
            and prepared.start.go_on()
        ):
            self._next = None
            return prepared
        self.end_next()
        return None

    def end_next(self) -> None:
        """End the process that was started in advance. The next one is started in advance when
        another process has become ready."""
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None
        prepared, self._next = self._next, None
        if prepared is not None:
            self._templates.end_child(prepared.child)

    def on_ready(self, start: WarmStart | None, plan: LaunchPlan, child: Child) -> None:
        """Handle that a process is ready. `start` is None if it was not forked."""
        if start is None:
            return
        template = start.template
        was_forked, reason = start.outcome()
        self._set_report(StartReport("template" if was_forked else "execute", reason))
        if was_forked:
            self._failures = 0
        has_modules = template is not None and template.inputs.modules
        if start.records:
            # The end of an earlier process may have closed the file.
            self._is_recorded = self._record_fd >= 0
            if self._learn_timer is None:
                self._learn_timer = self._loop.call_later(_LEARN_SECONDS, self._learn, plan)
        elif was_forked and template is not None and has_modules and not self._preparing:
            # The first call writes to many pages of memory, so the first time wait longer before
            # looking at which pages were copied.
            seconds = _NEXT_SECONDS if template.copied_pages else _LEARN_SECONDS
            start_next = partial(self._start_next, template, plan, child)
            self._preparing = self._loop.call_later(seconds, start_next)

    def on_failed(self, start: WarmStart | None) -> None:
        """Handle that a process did not become ready. If it was forked from a template with
        modules, the next one is started without it, because it may be the reason."""
        if start is None:
            self._failures = 0  # the template is not the reason
            return
        was_forked, self._reason = start.outcome()
        if was_forked and start.has_modules:
            self._failures += 1
            self._skips_template, self._reason = True, _FAILED

    def on_lost(self) -> None:
        """Handle that no process of the template has joined the sandbox of a start. The next start
        is made without a template."""
        if self._last_template is not None:
            self._templates.retire(self._last_template)
            self._last_template = None
        self._change_count += 1
        self._skips_template = True

    def _set_report(self, report: StartReport) -> None:
        if report != self.last and report.method == "execute":
            _log.warning("[%s] started without its template: %s", self._extension, report.reason)
        self.last = report

    # -- what a program imports ----------------------------------------------------------------

    def _load_learned(self, plan: LaunchPlan, command: PythonCommand) -> None:
        """Set `_learned` to what is known about the program. Its file is read once. The name of the
        file is a digest of the program and its interpreter."""
        script = command.target if command.is_module else os.path.realpath(command.target)
        identity = (os.path.realpath(command.interpreter), command.interpreter, *command.options)
        text = json.dumps([identity, command.is_module, script, plan.cwd], ensure_ascii=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        file = str(Path(state_root(self._environ()), "templates", f"{digest}.json"))
        if self._learned is not None and file == self._file:
            return
        self._file = file
        self._learned = Learned()
        try:
            value = json.loads(Path(file).read_bytes())
            self._learned = Learned(
                _valid_modules(value["modules"]),
                {str(name): str(reason) for name, reason in value["refused"].items()},
                {str(name): str(module) for name, module in value["reads"].items()},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # it is learnt again

    def _save_learned(self) -> None:
        """Write what is known about the program to its file."""
        learned = self._learned
        assert learned is not None
        value = {"modules": learned.modules, "refused": learned.refused, "reads": learned.reads}
        path = Path(self._file)
        try:
            make_folder(path.parent)
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(value))
            temporary.replace(path)  # so that another host never reads half of a file
        except OSError as error:
            _log.info("[%s] its modules could not be recorded: %s", self._extension, error)

    def _take_recorded(self) -> None:
        """Read the modules that a program has recorded, if it has been ready."""
        if not self._is_recorded or self._learned is None:
            return
        text = os.pread(self._record_fd, LEARNED_BYTES, 0).partition(b"\0")[0]
        modules = _valid_modules(text.decode("utf-8", "replace").split())
        if modules:
            self._end_recording()
            self._learned.modules = modules
            self._save_learned()

    def _end_recording(self) -> None:
        """Close the file with the recorded modules, if there is one."""
        self._is_recorded = False
        if self._record_fd >= 0:
            os.close(self._record_fd)
            self._record_fd = -1

    def _learn(self, plan: LaunchPlan) -> None:
        """Make a template with the modules that a program has recorded."""
        if self._learn_timer is not None:
            self._learn_timer.cancel()
            self._learn_timer = None
        self._take_recorded()
        try:
            command = find_python_command(plan)
        except NoTemplate:  # the interpreter is gone
            return
        if self._building is None or self._building.done():
            self._building = self._loop.create_task(self._build(plan, command))

    # -- templates -----------------------------------------------------------------------------

    def _plan_template(
        self, plan: LaunchPlan, command: PythonCommand
    ) -> tuple[LaunchPlan, TemplateInputs]:
        """Return the plan of the template for this program, and what it is made from. Raises
        NoTemplate."""
        learned = self._learned
        assert learned is not None
        secrets = find_secret_names(plan.env, self._references)
        secret_readers = find_secret_readers(secrets, learned.modules, learned.reads)
        return plan_template(
            plan,
            command,
            owner=self,
            modules=learned.modules,
            refused={*learned.refused, *secret_readers},
            reads=learned.reads,
            secrets=secrets,
        )

    def _find_entry(self, plan: LaunchPlan, command: PythonCommand) -> _Entry | None:
        """Return the template for this program, if there is one. Raises NoTemplate."""
        _, inputs = self._plan_template(plan, command)
        return self._templates.find(inputs)

    async def _build(self, plan: LaunchPlan, command: PythonCommand) -> None:
        """Make the template of a program. A template reports which modules must not be imported in
        it (`faults`). Then make it again without these, until it reports no more."""
        self._last_template = None
        learned = self._learned
        assert learned is not None
        self.end_next()
        try:
            for _ in range(_MAX_ATTEMPTS):
                template_plan, inputs = self._plan_template(plan, command)
                entry = self._templates.find(inputs)
                if entry is None:
                    entry = self._templates.make(template_plan, inputs, self._extension)
                    if (proxy := entry.template.child.network_proxy) is not None:
                        proxy.watch(self._loop, self._network())
                entry.template.users.add(self._extension)
                await asyncio.wait([entry.ready], timeout=_WAIT_SECONDS)
                report = entry.template.report
                if report is None:
                    self._templates.retire(entry.template)
                    return
                if _has_too_many_names(learned, report):  # each template reports new names
                    self._templates.retire(entry.template)
                    self._change_count = _MAX_CHANGES + 1  # so that no more templates are made
                    return
                if _add_report(learned, report):
                    self._save_learned()
                _, needed_inputs = self._plan_template(plan, command)
                if needed_inputs == inputs:  # the report has changed nothing
                    self._templates.release(self._extension, keep=entry.template)
                    for name, reason in report.faults.items():
                        _log.info(
                            "[%s] %s is not in its template: %s", self._extension, name, reason
                        )
                    return
                self._templates.retire(entry.template)
        except (NoTemplate, ExthostError, OSError) as error:
            _log.info("[%s] its template could not be made: %s", self._extension, error)
        finally:
            self._building = None

    def describe(self, pids: Iterable[int]) -> dict[str, Any]:
        """Return the state for `status`: how the last process was started, and the memory that its
        processes share with their template and with each other, in bytes."""
        learned = self._learned or Learned()
        described: dict[str, Any] = {"last": self.last.method}
        if self.last.reason:
            described["reason"] = self.last.reason
        if self.last.method == "template":
            described["shared_memory"] = sum(map(shared_bytes, pids))
            described["modules"] = len(learned.modules)
        if learned.refused:
            described["refused"] = dict(learned.refused)
        return described

    async def close(self) -> None:
        """Release the templates of the extension, whose processes have ended."""
        if self._learn_timer is not None:
            self._learn_timer.cancel()
        if self._building is not None:
            self._building.cancel()
            await asyncio.wait([self._building])
        self._take_recorded()
        self._end_recording()
        self.end_next()
        self._templates.release(self._extension)
        await self._templates.wait_ended()


def _has_too_many_names(learned: Learned, report: TemplateReport) -> bool:
    """Return whether more would be known of a program with this report than may be kept."""
    refused, reads = {**learned.refused, **report.faults}, {**learned.reads, **report.reads}
    return len(refused) > MAX_NAMES or len(reads) > MAX_NAMES


def _add_report(learned: Learned, report: TemplateReport) -> bool:
    """Add what a template has reported to what is known of its program. Return whether a name is
    new."""
    known_count = len(learned.refused) + len(learned.reads)
    learned.refused |= dict(report.faults)
    for name, module in report.reads.items():
        learned.reads.setdefault(name, module)
    return len(learned.refused) + len(learned.reads) != known_count


def _valid_modules(names: Iterable[Any]) -> tuple[str, ...]:
    """Return the names of modules. A running extension wrote them, so they are checked."""
    valid = dict.fromkeys(
        name
        for name in names
        if isinstance(name, str) and len(name) < 200 and _MODULE_NAME.fullmatch(name)
    )
    valid.pop("__main__", None)
    return tuple(valid)[:_MAX_MODULES]


def _find_origin(plan: LaunchPlan, command: PythonCommand) -> tuple[object, ...]:
    """Return what a process gets from its plan and from the host when it is started, to compare it
    with a later start. The variables, which may be secrets, are only in a digest."""
    fields = describe_program(plan, command)
    packed = pack(part for name in fields for part in (name.encode(), fields[name]))
    cwd = plan.cwd or os.getcwd()  # noqa: PTH109 - pathlib takes longer, as below
    script = os.path.realpath(os.path.join(cwd, command.target))  # noqa: PTH118
    return (
        replace(plan, env=EMPTY_MAPPING),
        hashlib.sha256(packed).digest(),
        find_file(cwd),
        _list_importable(cwd if command.is_module else os.path.dirname(script)),  # noqa: PTH120
        inherited_state(),
    )


def _list_importable(folder: str) -> frozenset[str]:
    """Return the entries of a folder that can be imported. The folder comes first in the search
    path of the program, so a new entry may hide a module that the template has imported. Raises
    NoTemplate if there are too many entries: the extension may write there, and the host would
    wait."""
    names = []
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == _MAX_ENTRIES:
                raise NoTemplate(f"{folder} has too many files")
            if "." not in entry.name or entry.name.endswith((".py", ".pyc", ".so")):
                names.append(entry.name)
    return frozenset(names)
