"""roder's facets: `ext.inference`, `ext.subagents`, `ext.tasks`.

A facet is an attribute that only extensions of one dialect have. Each method sends one request of
the protocol, generates the ids that the request needs, and returns the reply as a class of `types`.
A service is a part of the extension that its manifest declares, such as an inference engine. A
caller may name a service, and must do so if the manifest has several of the same type. How streams
end and how they are cancelled is defined in `dialect`.
"""

import uuid
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from exthost.dialects.caller import Caller, Stream
from exthost.dialects.roder import messages, types
from exthost.dialects.roder.manifest import RoderManifest
from exthost.errors import ProtocolViolation, UsageError

# The thread id of calls and events that belong to no conversation. It is generated once for each
# process of the host.
HOST_THREAD = str(uuid.uuid4())

T = TypeVar("T", bound=types.Payload)


class _Facet:
    """The base class of the facets. `service` is the type of service that the facet uses."""

    service = ""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def _find_service_id(self, service: str | None) -> str:
        """Return the id of the named service, or of the only one if `service` is None."""
        manifest = self._caller.manifest
        ids = manifest.ids(self.service) if isinstance(manifest, RoderManifest) else ()
        if service is None and len(ids) == 1:
            return str(ids[0])
        if service is not None and service in ids:
            return service
        type_name = self.service.replace("_", " ")
        message = f"it provides no {type_name} {service!r}" if service else f"name one {type_name}"
        raise UsageError(
            "X1340",
            message if ids else f"it provides no {type_name}",
            extension=self._caller.id,
            help=f"its manifest has: {', '.join(ids) or 'none'}",
        )

    async def _call_service(
        self, method: str, key: str, service: str | None, timeout: float | None
    ) -> Any:
        """Send a request whose only param, `key`, is the id of a service. Return the object in the
        reply; {} if the reply is not an object."""
        params = {key: self._find_service_id(service)}
        result = await self._caller.call(method, params, timeout=timeout)
        return result if isinstance(result, dict) else {}

    def _stream(
        self, method: str, params: messages.WireObject, timeout: float | None
    ) -> AbstractAsyncContextManager[Stream]:
        return self._caller.stream(method, params.to_json(), timeout=timeout)

    def _parse(self, payload_class: type[T], value: Any, method: str) -> T:
        """Return a part of the reply to `method` as this class. Raises ProtocolViolation."""
        payload = types.parse_payload(payload_class, value)
        if payload is None:
            raise self._invalid_reply_error(method)
        return payload

    def _parse_list(self, payload_class: type[T], values: Any, method: str) -> list[T]:
        if type(values) is not list:
            raise self._invalid_reply_error(method)
        return [self._parse(payload_class, value, method) for value in values]

    def _invalid_reply_error(self, method: str) -> ProtocolViolation:
        return ProtocolViolation(
            "X0641",
            f"its answer to {method} does not match the protocol",
            extension=self._caller.id,
            help="the dialect's page shows its required members",
        )


class Inference(_Facet):
    """`ext.inference`: lists the models of inference engines and runs turns."""

    service = "inference_engine"

    async def list_models(
        self, engine_id: str | None = None, *, timeout: float | None = None
    ) -> list[types.InferenceModel]:
        """Return the models of an engine."""
        method = messages.METHOD_LIST_MODELS
        result = await self._call_service(method, "engineId", engine_id, timeout)
        return self._parse_list(types.InferenceModel, result.get("models"), method)

    def stream_turn(
        self,
        request: Mapping[str, Any],
        *,
        engine_id: str | None = None,
        thread_id: str | None = None,
        turn_id: str | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """Stream one inference turn, up to Completed or Failed. The protocol has no message that
        cancels a turn; events that arrive after the `async with` block are dropped."""
        params = messages.StreamTurnParams(
            engine_id=self._find_service_id(engine_id),
            stream_id=str(uuid.uuid4()),
            thread_id=thread_id or HOST_THREAD,
            turn_id=turn_id or str(uuid.uuid4()),
            request=request,
        )
        return self._stream(messages.METHOD_STREAM_TURN, params, timeout)


class Subagents(_Facet):
    """`ext.subagents`: lists subagents and dispatches requests to them."""

    service = "subagent_dispatcher"

    async def definitions(
        self, dispatcher_id: str | None = None, *, timeout: float | None = None
    ) -> list[types.Definition]:
        """Return the subagents of a dispatcher."""
        method = messages.METHOD_SUBAGENTS_DEFINITIONS
        result = await self._call_service(method, "dispatcherId", dispatcher_id, timeout)
        return self._parse_list(types.Definition, result.get("definitions"), method)

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
        `timeout_seconds`, or half an hour. Leaving the `async with` block early, or a timeout,
        cancels the dispatch."""
        params = messages.SubagentDispatchParams(
            dispatcher_id=self._find_service_id(dispatcher_id),
            dispatch_id=str(uuid.uuid4()),
            parent_thread_id=parent_thread_id or HOST_THREAD,
            parent_turn_id=parent_turn_id or str(uuid.uuid4()),
            request=request,
        )
        return self._stream(messages.METHOD_SUBAGENTS_DISPATCH, params, timeout)


class Tasks(_Facet):
    """`ext.tasks`: describes and executes tasks."""

    service = "task_executor"

    async def spec(
        self, executor_id: str | None = None, *, timeout: float | None = None
    ) -> types.TaskSpec:
        """Return the task that an executor accepts."""
        method = messages.METHOD_TASKS_SPEC
        result = await self._call_service(method, "executorId", executor_id, timeout)
        return self._parse(types.TaskSpec, result.get("spec"), method)

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
        """Run a task, up to Finished or WorkFailed. It has no time limit unless `timeout` is set.
        Leaving the `async with` block early, or a timeout, cancels the task."""
        params = messages.TaskExecuteParams(
            executor_id=self._find_service_id(executor_id),
            execution_id=str(uuid.uuid4()),
            task_id=task_id or str(uuid.uuid4()),
            thread_id=thread_id,
            turn_id=turn_id,
            workspace_root=workspace_root,
            input=input,
        )
        return self._stream(messages.METHOD_TASKS_EXECUTE, params, timeout)
