"""`exthost check` of extensions whose dialect is in an installed package.

A dialect is the protocol that an extension speaks. The code of such a package may raise errors,
which are not faults of the extension. A Conformance says how messages of a dialect are checked; if
the package has none, it is inferred from a request. The toy dialects are in `tests/toys`. The last
tests are about the memory that the check offers to an extension, and about names of tools.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from exthost.authoring.check import host_memory
from exthost.authoring.check.findings import Report
from exthost.authoring.check.host_memory import HostMemory
from exthost.authoring.check.offer_audit import audit_offer
from exthost.authoring.check.run import run_checks
from exthost.authoring.check.settings import Settings
from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.dialects.conformance import Conformance, infer_conformance
from exthost.dialects.find import find_dialect
from exthost.dialects.package import DialectPackage
from exthost.errors import ConfigError
from exthost.model.messages import Failure, Reply, Request
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Spec
from tests.toys import byorder, stepper

BYORDER_CHILD = Path(byorder.__file__).parent / "byorder_child.py"


# An extension of the toy dialect `stepper`: JSON-RPC in lines, and a tool that needs an argument.
PROGRAM = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "initialize":
        reply = {"result": {"name": "toy", "tools": ["look"]}}
    else:
        reply = {"error": {"code": -32601, "message": "unknown"}}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)
"""
STEPPER = [sys.executable, "-S", "-E", "-c", PROGRAM]


def install(monkeypatch: pytest.MonkeyPatch, dialect: Dialect, **fields: Any) -> None:
    """Let `find` return this dialect as that of an installed package."""
    package = DialectPackage(name=dialect.name, dialect=dialect, **fields)
    find_other_package = find.find_package

    def find_package(name: str) -> DialectPackage:
        return package if name == dialect.name else find_other_package(name)

    monkeypatch.setattr(find, "find_package", find_package)


async def check(argv: list[str], dialect: str) -> Report:
    spec = Spec(id="toy", argv=tuple(argv), dialect=dialect)
    return await run_checks(spec, os.environ, Settings(reply_seconds=60))


def raise_key_error(*_: object) -> Any:
    raise KeyError("path")


@pytest.mark.more
async def test_a_dialect_that_raises_for_any_call_causes_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operations = MappingProxyType({**stepper.DIALECT.operations, "call_tool": raise_key_error})
    install(monkeypatch, replace(stepper.DIALECT, operations=operations))
    report = await check(STEPPER, "stepper")
    assert not report.faults, report.faults
    statuses = {outcome.rule.name: outcome.status for outcome in report.outcomes}
    assert statuses["unknown-tool"] == statuses["bad-arguments"] == "skipped"


@pytest.mark.more
async def test_messages_that_are_not_json_are_not_checked_as_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, byorder.DIALECT)
    report = await check([sys.executable, "-S", "-E", str(BYORDER_CHILD)], "byorder")
    assert not {"utf8", "json", "byte-order-mark"} & {f.rule.name for f in report.findings}
    assert report.ok, report.faults


async def test_a_handshake_that_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def handshake(_: object) -> Any:
        yield Request("initialize", {})
        raise KeyError("tools")

    install(monkeypatch, replace(stepper.DIALECT, handshake=handshake))
    report = await check(STEPPER, "stepper")
    [finding] = [item for item in report.faults if item.rule.name == "handshake"]
    assert "KeyError('tools')" in finding.message and "its dialect" in finding.fix


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b'{"jsonrpc": "2.0", "id": 1, "method": "x"}', Conformance()),
        (b'{"id": 1, "method": "x"}', Conformance(pings=(), has_version=False, error_form="")),
        (
            b"\x94\x00\x01\xa1x\x90",
            Conformance(pings=(), is_json=False, has_version=False, error_form=""),
        ),
    ],
)
def test_the_form_of_a_request_shows_how_messages_are_checked(
    request_bytes: bytes, expected: Conformance
) -> None:
    assert infer_conformance(request_bytes) == expected


def test_a_conformance_of_another_type_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, stepper.DIALECT, conformance="tests.toys.stepper:CHILD")
    with pytest.raises(ConfigError, match="not a Conformance"):
        find.find_conformance_of(stepper.DIALECT)


def test_a_check_remembers_what_the_extension_stores() -> None:
    memory, dialect = HostMemory(), find_dialect("synaps")
    spec = Spec(id="notes", argv=("notes",), dialect="synaps")

    def ask(method: str, **params: Any) -> Any:
        reply = memory.answer(Request(method, params, 1), spec, dialect)
        return reply.result if isinstance(reply, Reply) else reply

    assert ask("memory.append", namespace="notes", content="Milk", tags=["shop.a"])["ok"]
    ask("memory.append", namespace="notes", content="Ink")
    records = ask("memory.query", namespace="notes")["records"]
    assert [record["content"] for record in records] == ["Ink", "Milk"]
    [record] = ask("memory.query", namespace="notes", content_contains="milk")["records"]
    assert record["tags"] == ["shop.a"]
    assert ask("memory.query", namespace="notes", tag_prefix="x")["records"] == []
    assert ask("config.get", key="unit") == {"value": None}
    ask("config.set", key="unit", value="kg")
    assert ask("config.get", key="unit") == {"value": "kg"}
    assert isinstance(ask("memory.append", namespace="another", content="x"), Failure)
    assert isinstance(ask("no.such.method"), Failure)


def test_the_memory_of_a_check_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "_MAX_STORED_CHARACTERS", 1000)
    memory, dialect = HostMemory(), find_dialect("synaps")
    spec = Spec(id="notes", argv=("notes",), dialect="synaps")
    half = "x" * 500
    requests = [
        Request("memory.append", {"namespace": "notes", "content": half}, 1),
        Request("config.set", {"key": "text", "value": half}, 2),
        Request("memory.append", {"namespace": "notes", "content": half}, 3),
    ]
    first, *others = (memory.answer(request, spec, dialect) for request in requests)
    assert isinstance(first, Reply)
    for refused in others:
        assert isinstance(refused, Failure) and refused.message == "its store is full"


def test_the_tools_of_an_offer_need_usable_names() -> None:
    names = ["get_weather", "git.log", "a:b/c-1", "", "a b/c", "ü", "x" * 129]
    tools = tuple(Tool(name, "It does something.", None) for name in names)
    problems = audit_offer(Offer(tools=tools))
    assert {problem.rule for problem in problems} == {"tool-names"}
    assert [problem.message.split(" is ")[0] for problem in problems] == [
        repr(name) for name in names[3:]
    ]
