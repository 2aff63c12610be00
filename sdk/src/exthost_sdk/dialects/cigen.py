"""The extension's side of the cigen dialect, the protocol of a generator of CI configurations.

Messages are in protobuf, each after its length. They carry neither an id nor a type: their order
defines what they are. The host sends Hello, then Plan and Generate alternately. The package
protobuf is imported only when an endpoint is made.

The author of an extension writes two handlers, each of which gets the request message:

    @extension.plan           returns a PlanResult, or a list of resources
    @extension.generate       returns a GenerateResult, a list of fragments (parts of files), or a
                              mapping from paths to contents

An exception of a handler becomes a diagnostic of level ERROR, which makes the host fail the
request. Without a handler for `plan`, the plan has one resource for each job of the schema.
"""

from collections.abc import Mapping
from typing import Any

from exthost_sdk.answers import Fragment
from exthost_sdk.endpoints.endpoint import Endpoint, Identity
from exthost_sdk.endpoints.sdk_dialect import SdkDialect
from exthost_sdk.errors import SdkUsageError, describe
from exthost_sdk.serving.server import Server
from exthost_sdk.types.function import Function
from exthost_sdk.wire.framing import PrefixFraming, with_prefix

PROTOCOL = 1


def load_messages() -> Any:
    """Return the module of the generated classes. Raises SdkUsageError if it cannot be imported."""
    try:
        from exthost_sdk.proto import plugin_pb2
    except ImportError as error:
        raise SdkUsageError(
            f"the cigen dialect needs the package protobuf: install exthost-sdk[cigen] ({error})"
        ) from None
    return plugin_pb2


class CigenEndpoint(Endpoint):
    """The extension's side of a cigen connection.

    `run`, of the base class, calls a handler and passes its result to one of the `_encode_…`
    methods. All encoders get the key of the call and the handler, which this dialect does not need.
    """

    name = "cigen"
    supported_kinds = frozenset({"generators"})
    framing = PrefixFraming

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._messages = load_messages()
        self._next_request = "hello"
        self._position = 0  # of the last request: the key of its call, since it has no id

    def receive(self, frame: bytes) -> bytes | None:
        step = self._next_request
        self._next_request = "generate" if step == "plan" else "plan"
        self._position += 1
        if step == "hello":
            return with_prefix(self._encode_info().SerializeToString())
        if step == "plan":
            return self._plan(_parse(self._messages.PlanRequest, frame))
        return self._generate(_parse(self._messages.GenerateRequest, frame))

    def _plan(self, request: Any) -> bytes | None:
        handler = self.registry.plan
        if handler is None:
            return self._encode_plan(None, None, self._plan_all_jobs(request))
        return self.run(
            self._position, handler, request, self._encode_plan, self._encode_plan_failure
        )

    def _generate(self, request: Any) -> bytes | None:
        handler = self.registry.generate
        if handler is None:
            return self._encode_files(None, None, {})
        return self.run(
            self._position, handler, request, self._encode_files, self._encode_generate_failure
        )

    def _encode_info(self) -> Any:
        name = self.identity.name  # such as provider/make, whose capability is provider:make
        default_capabilities = (f"provider:{name.rpartition('/')[2]}",)
        return self._messages.PluginInfo(
            name=name,
            version=self.identity.version,
            protocol=PROTOCOL,
            capabilities=self.identity.capabilities or default_capabilities,
        )

    def _plan_all_jobs(self, request: Any) -> Any:
        kind = self._messages.RESOURCE_TYPE_JOB
        jobs = [self._messages.Resource(id=job.id, type=kind) for job in request.schema.jobs]
        return self._messages.PlanResult(resources=jobs)

    def _encode_plan(self, key: Any, function: Function | None, result: Any) -> bytes:
        if not isinstance(result, self._messages.PlanResult):
            result = self._messages.PlanResult(resources=list(result or ()))
        return with_prefix(result.SerializeToString())

    def _encode_files(self, key: Any, function: Function | None, result: Any) -> bytes:
        if not isinstance(result, self._messages.GenerateResult):
            if isinstance(result, Mapping):
                result = [Fragment(path, text) for path, text in result.items()]
            fragments = [self._encode_fragment(item) for item in result or ()]
            result = self._messages.GenerateResult(fragments=fragments)
        return with_prefix(result.SerializeToString())

    def _encode_fragment(self, fragment: Any) -> Any:
        if not isinstance(fragment, Fragment):  # the author made a message of protobuf
            return fragment
        strategy = f"MERGE_STRATEGY_{fragment.strategy.upper()}"
        return self._messages.Fragment(
            path=fragment.path,
            content=fragment.content,
            strategy=strategy,
            order=fragment.order,
            format=fragment.format,
        )

    def _encode_plan_failure(self, key: Any, function: Function, error: BaseException) -> bytes:
        result = self._messages.PlanResult(diagnostics=[self._encode_diagnostic(error)])
        return with_prefix(result.SerializeToString())

    def _encode_generate_failure(self, key: Any, function: Function, error: BaseException) -> bytes:
        result = self._messages.GenerateResult(diagnostics=[self._encode_diagnostic(error)])
        return with_prefix(result.SerializeToString())

    def _encode_diagnostic(self, error: BaseException) -> Any:
        diagnostic_class = self._messages.Diagnostic
        return diagnostic_class(
            level=diagnostic_class.LEVEL_ERROR,
            title=type(error).__name__,
            message=describe(error),
        )


def _parse(message_class: Any, frame: bytes) -> Any:
    """Return the message in a frame. Raises ValueError if it is not one of this class."""
    try:
        return message_class.FromString(frame)
    except Exception as error:  # protobuf's DecodeError: the module imports nothing of protobuf
        raise ValueError(f"not a {message_class.DESCRIPTOR.name}: {error}") from None


def _recognises(first: bytes, message: Mapping[str, Any] | None) -> bool:
    """Return whether the first bytes of a host belong to this dialect."""
    # A message begins with its length as a 32-bit big-endian number. The first message is shorter
    # than 16 MiB, so the highest byte is 0, with which no text begins.
    return first[:1] == b"\0"


DIALECT = SdkDialect(CigenEndpoint, _recognises, templates=("generator",), extra="cigen")
