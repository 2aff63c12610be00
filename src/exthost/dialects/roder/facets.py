"""roder's facets: `ext.inference`, `ext.subagents`, `ext.tasks`.

Thin: each method words one request of the page, with the ids that are the host's to give, and
reads the answer into a value of `types`. A service is named, or is the only one of its kind
in the manifest. What a stream's end or its cancelling means is the dialect's table, not theirs.
"""

import uuid
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from exthost.dialects.caller import Caller, Stream
from exthost.dialects.roder import types
from exthost.dialects.roder.manifest import Manifest
from exthost.errors import ProtocolViolation, UsageError

# For what happens outside any conversation: the same for the life of this host.
HOST_THREAD = str(uuid.uuid4())

T = TypeVar("T", bound=types.Payload)


class _Facet:
    """What the three have in common: one service of the manifest, named or the only one."""

    service = ""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def _id(self, said: str | None) -> str:
        manifest = self._caller.manifest
        ids = manifest.ids(self.service) if isinstance(manifest, Manifest) else ()
        if said is None and len(ids) == 1:
            return str(ids[0])
        if said is not None and said in ids:
            return said
        what = self.service.replace("_", " ")
        told = f"it provides no {what} {said!r}" if said else f"say which {what} you mean"
        raise UsageError(
            "X1340",
            told if ids else f"it provides no {what}",
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
        """The models of an engine."""
        method = "inference/listModels"
        told = await self._ask(method, "engineId", self._id(engine_id), timeout)
        return self._each(types.Model, told.get("models"), method)

    def stream_turn(
        self,
        request: Mapping[str, Any],
        *,
        engine_id: str | None = None,
        thread_id: str | None = None,
        turn_id: str | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """One turn, event by event, up to Completed or Failed. Leaving it tells the child nothing:
        there is no such word; what it still sends is dropped."""
        params = {
            "engineId": self._id(engine_id),
            "streamId": str(uuid.uuid4()),
            "threadId": thread_id or HOST_THREAD,
            "turnId": turn_id or str(uuid.uuid4()),
            "request": request,
        }
        return self._caller.stream("inference/streamTurn", params, timeout=timeout)


class Subagents(_Facet):
    """`ext.subagents`: who can be dispatched to, and dispatching."""

    service = "subagent_dispatcher"

    async def definitions(
        self, dispatcher_id: str | None = None, *, timeout: float | None = None
    ) -> list[types.Definition]:
        """The subagents of a dispatcher."""
        method = "subagents/definitions"
        told = await self._ask(method, "dispatcherId", self._id(dispatcher_id), timeout)
        return self._each(types.Definition, told.get("definitions"), method)

    def dispatch(
        self,
        request: Mapping[str, Any],
        *,
        dispatcher_id: str | None = None,
        parent_thread_id: str | None = None,
        parent_turn_id: str | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """Run a subagent, up to Finished or Broken; by default for the request's own
        `timeout_seconds`, or half an hour. Leaving it, or its time being up, cancels it."""
        params = {
            "dispatcherId": self._id(dispatcher_id),
            "dispatchId": str(uuid.uuid4()),
            "parentThreadId": parent_thread_id or HOST_THREAD,
            "parentTurnId": parent_turn_id or str(uuid.uuid4()),
            "request": request,
        }
        return self._caller.stream("subagents/dispatch", params, timeout=timeout)


class Tasks(_Facet):
    """`ext.tasks`: what an executor takes, and executing."""

    service = "task_executor"

    async def spec(
        self, executor_id: str | None = None, *, timeout: float | None = None
    ) -> types.TaskSpec:
        """What an executor takes."""
        method = "tasks/spec"
        told = await self._ask(method, "executorId", self._id(executor_id), timeout)
        return self._read(types.TaskSpec, told.get("spec"), method)

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
        """Run a task, up to Finished or Broken; without a `timeout`, for as long as it takes.
        Leaving it, or its time being up, cancels it."""
        params = {
            "executorId": self._id(executor_id),
            "executionId": str(uuid.uuid4()),
            "taskId": task_id or str(uuid.uuid4()),
            "input": input,
        }
        optional = {"threadId": thread_id, "turnId": turn_id, "workspaceRoot": workspace_root}
        params |= {key: value for key, value in optional.items() if value is not None}
        return self._caller.stream("tasks/execute", params, timeout=timeout)
