"""cigen: length-prefixed protobuf, by position: Hello, then Plan and Generate in turn.

Needs the `protobuf` package, and the messages that exthost has generated from the .proto; both are
imported when this dialect is spoken. A handler takes the request message. It returns the result
message, or for `generate` fragments, or a mapping of paths to contents. An exception is a
diagnostic of level ERROR, which is how a plugin says no.

Without a handler for `plan`, the plan has a resource for each job of the schema.
"""

from collections.abc import Mapping
from typing import Any

from exthost.sdk.answers import Fragment
from exthost.sdk.dialects.endpoint import Endpoint, Identity
from exthost.sdk.errors import UsageError, describe
from exthost.sdk.serving.server import Server
from exthost.sdk.types.function import Function
from exthost.sdk.wire.framing import PrefixFraming, with_prefix

PROTOCOL = 1


def load_messages() -> Any:
    """Return the module of the generated messages. Raises UsageError if it cannot be imported."""
    try:
        from exthost.dialects.cigen.proto import plugin_pb2
    except ImportError as error:
        raise UsageError(
            f"the cigen dialect needs the package protobuf: pip install protobuf ({error})"
        ) from None
    return plugin_pb2


class CigenEndpoint(Endpoint):
    """The plugin's end of a cigen connection."""

    name = "cigen"
    offers = frozenset({"generators"})
    framing = PrefixFraming

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._messages = load_messages()
        self._next = "hello"
        self._position = 0

    def receive(self, frame: bytes) -> bytes | None:
        step, self._position = self._next, self._position + 1
        self._next = "generate" if step == "plan" else "plan"
        if step == "hello":
            return with_prefix(self._info().SerializeToString())
        if step == "plan":
            request = self._messages.PlanRequest.FromString(frame)
            if self.registry.plan is None:
                return self._planned(0, None, self._jobs(request))
            function, reply, failure = self.registry.plan, self._planned, self._plan_failed
        else:
            request = self._messages.GenerateRequest.FromString(frame)
            if self.registry.generate is None:
                return self._generated(0, None, {})
            function, reply, failure = (
                self.registry.generate,
                self._generated,
                self._generation_failed,
            )
        return self.run(self._position, function, request, reply, failure)

    def _info(self) -> Any:
        name = self.identity.name
        own = (f"provider:{name.rpartition('/')[2]}",)
        return self._messages.PluginInfo(
            name=name,
            version=self.identity.version,
            protocol=PROTOCOL,
            capabilities=self.identity.capabilities or own,
        )

    def _jobs(self, request: Any) -> Any:
        kind = self._messages.RESOURCE_TYPE_JOB
        jobs = [self._messages.Resource(id=job.id, type=kind) for job in request.schema.jobs]
        return self._messages.PlanResult(resources=jobs)

    def _planned(self, key: Any, function: Function | None, result: Any) -> bytes:
        if not isinstance(result, self._messages.PlanResult):
            result = self._messages.PlanResult(resources=list(result or ()))
        return with_prefix(result.SerializeToString())

    def _generated(self, key: Any, function: Function | None, result: Any) -> bytes:
        if not isinstance(result, self._messages.GenerateResult):
            if isinstance(result, Mapping):
                result = [Fragment(path, text) for path, text in result.items()]
            fragments = [self._fragment(item) for item in result or ()]
            result = self._messages.GenerateResult(fragments=fragments)
        return with_prefix(result.SerializeToString())

    def _fragment(self, fragment: Any) -> Any:
        if not isinstance(fragment, Fragment):
            return fragment
        strategy = f"MERGE_STRATEGY_{fragment.strategy.upper()}"
        return self._messages.Fragment(
            path=fragment.path,
            content=fragment.content,
            strategy=strategy,
            order=fragment.order,
            format=fragment.format,
        )

    def _plan_failed(self, key: Any, function: Function, error: BaseException) -> bytes:
        result = self._messages.PlanResult(diagnostics=[self._diagnostic(error)])
        return with_prefix(result.SerializeToString())

    def _generation_failed(self, key: Any, function: Function, error: BaseException) -> bytes:
        result = self._messages.GenerateResult(diagnostics=[self._diagnostic(error)])
        return with_prefix(result.SerializeToString())

    def _diagnostic(self, error: BaseException) -> Any:
        kind = self._messages.Diagnostic
        return kind(level=kind.LEVEL_ERROR, title=type(error).__name__, message=describe(error))


ENDPOINT = CigenEndpoint
