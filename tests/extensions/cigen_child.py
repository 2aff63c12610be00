"""A plugin of the dialect cigen (protobuf messages) that does what a test tells it to.

Like real plugins it expects a plan request and a generate request in turn. Arguments are fields of
its PluginInfo (`protocol=2`, `capabilities=a:b,c:d`), or `alone`, with which it expects no plan
requests. `schema.variables["do"]` is its command: `plan:VERB` for the plan request, any other value
for the generate request. The result of generate is a fragment with all messages so far, as JSON.
"""

import json
import os
import struct
import sys
from typing import Any

from exthost_sdk.proto import plugin_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict

RECEIVED: list[list[Any]] = []  # the type and the fields of each message
TEN_MIB = 10 * 2**20  # the size limit of a message


def read(size: int) -> bytes:
    """Read exactly this many bytes; exit at the end of stdin."""
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def receive(kind: Any) -> Any:
    """Return the next message, which is of this type."""
    (length,) = struct.unpack(">I", read(4))
    message = kind.FromString(read(length))
    RECEIVED.append([kind.__name__, MessageToDict(message, preserving_proto_field_name=True)])
    return message


def send(message: Any) -> None:
    body = message.SerializeToString()
    write(struct.pack(">I", len(body)) + body)


def diagnostic(level: int, title: str) -> Any:
    return pb.Diagnostic(level=level, title=title)  # type: ignore[arg-type]


def misbehave(verb: str) -> bool:
    """Do something besides answering. Return True if no other answer is needed."""
    if verb == "die":
        os.write(2, b"the plugin broke\n")
        os._exit(3)
    elif verb == "die-inside":
        write(struct.pack(">I", 100) + b"only the beginning")
        os._exit(4)
    elif verb == "hang":
        read(1 << 30)
    elif verb == "garble":
        write(struct.pack(">I", 2) + b"\x0a\xff")
    elif verb == "overrun":
        write(struct.pack(">I", TEN_MIB + 1))
    elif verb == "empty":
        write(bytes(4))
    else:
        return False
    return True


def plan_result(request: Any, verb: str) -> Any:
    result = pb.PlanResult(
        resources=[pb.Resource(id=job.id, type=pb.RESOURCE_TYPE_JOB) for job in request.schema.jobs]
    )
    if verb == "fail":
        result.diagnostics.append(diagnostic(1, "bad plan"))
        result.diagnostics.append(diagnostic(2, "and a warning"))
    return result


def generate_result(verb: str, variables: Any) -> Any:
    result = pb.GenerateResult()
    if verb == "full":
        result.fragments.add(path="full", content="x" * (TEN_MIB - 16))
    elif verb == "fragments":
        ParseDict({"fragments": json.loads(variables["fragments"])}, result)
    else:
        received = json.dumps({"heard": RECEIVED, "pid": os.getpid(), "env": dict(os.environ)})
        result.fragments.add(path="heard.json", content=received)
    return result


def main() -> None:
    flags = dict(word.partition("=")[::2] for word in sys.argv[1:])
    info: dict[str, Any] = {"name": "provider/test", "version": "1.0", "protocol": 1}
    for key, value in flags.items():
        if key in ("capabilities", "conflicts_with"):
            info[key] = value.split(",")
        elif key != "alone":
            info[key] = int(value) if value.isdigit() else value
    receive(pb.Hello)
    send(ParseDict(info, pb.PluginInfo()))
    while True:
        if "alone" not in flags:
            request = receive(pb.PlanRequest)
            stage, _, verb = request.schema.variables["do"].partition(":")
            verb = verb if stage == "plan" else ""
            if not misbehave(verb):
                send(plan_result(request, verb))
        request = receive(pb.GenerateRequest)
        verb = request.schema.variables["do"]
        if not misbehave(verb):
            send(generate_result(verb, request.schema.variables))
        if verb == "twice":
            send(pb.GenerateResult())


if __name__ == "__main__":
    main()
