"""The parts of an extension that its host uses, and users do not: `ext.internals`.

This is not public: names can change in any version. Users call the methods of `Extension`. The
offer of an extension is what it announces: its tools, hooks and capabilities.
"""

from collections.abc import Mapping
from typing import Any

from exthost.dialects.base import Dialect
from exthost.errors import ExthostError
from exthost.extension.call_queue import CallQueue
from exthost.extension.calls import Calls
from exthost.extension.lifecycle import lists_tools
from exthost.extension.startup import ProcessStarter
from exthost.extension.stats import Counts, Totals
from exthost.extension.status import Status
from exthost.extension.supervisor import Supervisor
from exthost.model.spec import Spec
from exthost.model.tool_choice import HiddenTool
from exthost.process.child import Child
from exthost.session.trace.traffic import Traffic


class ExtensionInternals:
    """The internals of one extension. `calls` makes its calls, `queue` sends them, and `totals`
    counts them, also across reloads."""

    __slots__ = (
        "_counts", "_dialect", "_spec", "_starter", "_status", "_supervisor", "calls", "queue",
        "totals",
    )  # fmt: skip

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        queue: CallQueue,
        calls: Calls,
        starter: ProcessStarter,
        status: Status,
        supervisor: Supervisor,
    ) -> None:
        self.queue = queue
        self.calls = calls
        self._spec = spec
        self._dialect = dialect
        self._starter = starter
        self._status = status
        self._supervisor = supervisor
        self._counts = Counts(queue, supervisor)
        self.totals = Totals(self._counts)

    def admit(self) -> None:
        """Run the checks that come before a start (required programs, variables, digests of files),
        and refuse the extension if one fails. Start nothing."""
        self._supervisor.admit()

    def take_over(self, old: "ExtensionInternals | None") -> None:
        """Replace `old` as the extension of this id: publish what differs between the two, and
        continue the counts of `old`, which publishes no further change."""
        if old is not None:
            self.totals = old.totals
            self.totals.add(self._counts)
        self._status.take_over(old._status if old is not None else None)

    def describe_start_method(self) -> dict[str, Any]:
        """Return how the last process was started: "execute" or, from a template, "template"; the
        reason if its template was not used; and the memory that is shared, in bytes."""
        templates = self._starter.templates
        if templates is None:
            return {"configured": "execute", "last": "execute"}
        children = [session.lifetime.child for session in self._supervisor.processes.sessions]
        pids = [pid for child in children if isinstance(child, Child) for pid in child.program_pids]
        return {"configured": "template", **templates.describe(pids)}

    @property
    def missing_network_entries(self) -> Mapping[str, str]:
        """The entries of `permissions.network` that would allow the refused connections, by their
        targets."""
        return self._supervisor.network.missing_entries

    def stop_counting(self) -> None:
        """Keep the last counts of an extension that was closed, if another one replaced it."""
        self.totals.remove(self._counts)

    @property
    def starts_eagerly(self) -> bool:
        """Whether a host starts the extension when the host opens, not at its first use."""
        spec = self._spec
        known = spec.known_offer
        if known is not None and known.defers_start and spec.start is None:
            # An extension with hooks is not deferred: they may have to judge the first call.
            return bool(self._status.offer.hooks) and self._dialect.traits.start == "eager"
        return (spec.start or self._dialect.traits.start) == "eager"

    @property
    def serves(self) -> bool:
        """Whether the host lists the tools: the extension is ready, or a call starts it."""
        return lists_tools(self._status.state)

    @property
    def is_offer_unknown(self) -> bool:
        """Whether the offer becomes known only when the extension is started."""
        return not self._status.tools and self.calls.may_offer_more

    @property
    def hidden_tools(self) -> tuple[HiddenTool, ...]:
        """The tools of the extension that do not exist for the host, and why."""
        return self._status.hidden_tools

    @property
    def is_offer_remembered(self) -> bool:
        """Whether the offer is the one of an earlier host: there was no handshake since."""
        return self._status.is_offer_remembered

    @property
    def may_have_hooks(self) -> bool:
        """Whether the extension must be started to find out if it has hooks."""
        return self.calls.may_have_hooks

    @property
    def lost_process(self) -> tuple[ExthostError, float] | None:
        """If a process of a pool ended by itself or did not get ready while others were ready: its
        error, and when (`time.time()`). None if that has not happened since a restart was last
        requested."""
        return self._status.lost_process

    @property
    def traffic(self) -> Traffic:
        """The recorder of the messages of this extension, or of all extensions of its host."""
        return self._starter.traffic()

    @property
    def protected_paths(self) -> list[tuple[str, ...]]:
        """For each process on this machine, the paths in its writable folders that it cannot
        write."""
        children = [session.lifetime.child for session in self._supervisor.processes.sessions]
        return [child.protected_paths for child in children if not child.node]

    @property
    def node_usage(self) -> tuple[float, int]:
        """The seconds of processor time and the bytes of memory of its processes on other nodes, as
        the nodes have reported them a few seconds ago."""
        children = [session.lifetime.child for session in self._supervisor.processes.sessions]
        usages = [child.node_usage for child in children if child.node]
        return sum(seconds for seconds, _ in usages), sum(memory for _, memory in usages)

    def registered_name(self, tool: str) -> str:
        """Return the name under which a host lists this tool."""
        return self._dialect.registered_name(self._spec.id, tool)

    def try_notify(self, method: str, params: Any = None) -> bool:
        """Send a notification at once, before any later call. Return False if no process is ready,
        or if it has not read more than 32 KiB of what was sent before."""
        return self.calls.try_notify(method, params)

    def not_running_error(self, name: str) -> ExthostError:
        """Return the error that says why `name` (a method or tool) cannot be called now."""
        return self._supervisor.not_running_error(name)
