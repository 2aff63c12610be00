"""roder's facets: `ext.inference`, `ext.subagents`, `ext.tasks`.

Each method sends one request of the protocol, with the ids that the host provides, and reads the
reply into a value of `types`. A caller names a service, or leaves it out if the manifest has only
one of its kind. The tables in `dialect` say how a stream ends or is cancelled.
"""

import uuid
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from exthost.dialects.caller import Caller, Stream
from exthost.dialects.roder import types
from exthost.dialects.roder.manifest import Manifest
from exthost.errors import ProtocolViolation, UsageError

# The thread of events outside any conversation. It is the same for the life of this host.
HOST_THREAD = str(uuid.uuid4())

T = TypeVar("T", bound=types.Payload)


class _Facet:
    """What the three facets share: they find a service of the manifest."""

    service = ""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def _id(self, service: str | None) -> str:
        manifest = self._caller.manifest
        ids = manifest.ids(self.service) if isinstance(manifest, Manifest) else ()
        if service is None and len(ids) == 1:
            return str(ids[0])
        if service is not None and service in ids:
            return service
        what = self.service.replace("_", " ")
        message = f"it provides no {what} {service!r}" if service else f"say which {what} you mean"
        raise UsageError(
            "X1340",
            message if ids else f"it provides no {what}",
            extension=self._caller.id,
            help=f"its manifest has: {', '.join(ids) or 'none'}",
        )

    async def _ask(self, method: str, key: str, id: str, timeout: float | None) -> Any:
        answer = await self._caller.call(method, {key: id}, timeout=timeout)
        return answer if isinstance(answer, dict) else {}

    def _read(self, kind: type[T], value: Any, method: str) -> T:
        read = types.read(kind, value)
        if read is None:
            raise self._unfit(method)
        return read

    def _each(self, kind: type[T], values: Any, method: str) -> list[T]:
        if type(values) is not list:
            raise self._unfit(method)
        return [self._read(kind, value, method) for value in values]

    def _unfit(self, method: str) -> ProtocolViolation:
        return ProtocolViolation(
            "X0641",
            f"its answer to {method} is not what the protocol says",
            extension=self._caller.id,
            help="the dialect's page shows what it must hold",
        )


class Inference(_Facet):
    """`ext.inference`: models and turns."""

    service = "inference_engine"

    async def list_models(
        self, engine_id: str | None = None, *, timeout: float | None = None
    ) -> list[types.Model]:
        """Return the models of an engine."""
        method = "inference/listModels"
        message = await self._ask(method, "engineId", self._id(engine_id), timeout)
        return self._each(types.Model, message.get("models"), method)

    def stream_turn(
        self,
        request: Mapping[str, Any],
        *,
        engine_id: str | None = None,
        thread_id: str | None = None,
        turn_id: str | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """Stream one turn, up to Completed or Failed. The protocol has no message to cancel a turn:
        events that arrive after the block are dropped."""
        params = {
            "engineId": self._id(engine_id),
            "streamId": str(uuid.uuid4()),
            "threadId": thread_id or HOST_THREAD,
            "turnId": turn_id or str(uuid.uuid4()),
            "request": request,
        }
        return self._caller.stream("inference/streamTurn", params, timeout=timeout)


class Subagents(_Facet):
    """`ext.subagents`: subagents, and how to dispatch to them."""

    service = "subagent_dispatcher"

    async def definitions(
        self, dispatcher_id: str | None = None, *, timeout: float | None = None
    ) -> list[types.Definition]:
        """Return the subagents of a dispatcher."""
        method = "subagents/definitions"
        message = await self._ask(method, "dispatcherId", self._id(dispatcher_id), timeout)
        return self._each(types.Definition, message.get("definitions"), method)

    def dispatch(
        self,
        request: Mapping[str, Any],
        *,
        dispatcher_id: str | None = None,
        parent_thread_id: str | None = None,
        parent_turn_id: str | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """Run a subagent, up to Finished or WorkFailed. The default time limit is the request's
        `timeout_seconds`, or half an hour. The dispatch is cancelled if the block is left or the
        time is over."""
        params = {
            "dispatcherId": self._id(dispatcher_id),
            "dispatchId": str(uuid.uuid4()),
            "parentThreadId": parent_thread_id or HOST_THREAD,
            "parentTurnId": parent_turn_id or str(uuid.uuid4()),
            "request": request,
        }
        return self._caller.stream("subagents/dispatch", params, timeout=timeout)


class Tasks(_Facet):
    """`ext.tasks`: tasks, and how to execute them."""

    service = "task_executor"

    async def spec(
        self, executor_id: str | None = None, *, timeout: float | None = None
    ) -> types.TaskSpec:
        """Return the task that an executor accepts."""
        method = "tasks/spec"
        message = await self._ask(method, "executorId", self._id(executor_id), timeout)
        return self._read(types.TaskSpec, message.get("spec"), method)

    def execute(
        self,
        input: Any,
        *,
        task_id: str | None = None,
        executor_id: str | None = None,
        thread_id: str | None = None,
        turn_id: str | None = None,
        workspace_root: str | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """Run a task, up to Finished or WorkFailed, without a time limit unless `timeout` is set.
        The task is cancelled if the block is left or the time is over."""
        params = {
            "executorId": self._id(executor_id),
            "executionId": str(uuid.uuid4()),
            "taskId": task_id or str(uuid.uuid4()),
            "input": input,
        }
        optional = {"threadId": thread_id, "turnId": turn_id, "workspaceRoot": workspace_root}
        params |= {key: value for key, value in optional.items() if value is not None}
        return self._caller.stream("tasks/execute", params, timeout=timeout)
