"""`exthost check` finds each fault that `bad_extension.py` can have, and names the broken rule.

`exthost check` runs a program as an extension of a dialect (the protocol that it speaks), and
reports rules that it breaks: faults, and warnings. The rules are in `rules.toml`.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exthost.authoring.check.findings import Report
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.offer_audit import audit_declared_tools, audit_emptiness, audit_stderr
from exthost.authoring.check.pipes import Pipes
from exthost.authoring.check.run import run_checks
from exthost.authoring.check.settings import Settings
from exthost.dialects.conformance import Conformance, Problem
from exthost.dialects.rules import all_rules
from exthost.host.connection import connection_spec
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Spec

BAD = Path(__file__).parent / "bad_extension.py"

# How long a check waits for a reply. It is short because a missing reply takes this long, and long
# enough to find the other faults on a busy machine.
REPLY_SECONDS = 3.0


class Fault(NamedTuple):
    """A fault of the child, the rule that it breaks, and a part of the message."""

    name: str
    dialect: str
    rule: str
    message: str = ""


FAULTS = [
    Fault("dies-at-start", "nexo", "handshake", "exited with 1"),
    Fault("silent", "morphir", "handshake", "was not answered"),
    Fault("refuses", "morphir", "handshake", "refused to initialize: no"),
    Fault("no-list", "morphir", "handshake", "it is not a list"),
    Fault("old-revision", "mcp", "handshake", "1999-01-01"),
    Fault("prints", "morphir", "stdout-noise", "starting up!"),
    Fault("prints", "synaps", "stdout-noise", "starting up!"),
    Fault("python-notation", "nexo", "json", "Python's notation"),
    Fault("pretty", "mcp", "one-line", "part of a message"),
    Fault("latin-1", "morphir", "utf8", "E9"),
    Fault("nan", "nexo", "number", "NaN"),
    Fault("mark", "morphir", "byte-order-mark", "begins with a byte-order mark, EF BB BF"),
    Fault("mark-each", "nexo", "json", "a message begins with a byte-order mark"),
    Fault("utf-16", "mcp", "utf8", "the output is UTF-16, with two bytes for each character"),
    Fault("utf-16", "synaps", "utf8", "the output is UTF-16"),
    Fault("wrong-id", "morphir", "reply-id", "id 100, which no request had"),
    Fault("no-id", "nexo", "reply-id", "has no id"),
    Fault("text-id", "morphir", "reply-id-type", "and its response '0'"),
    Fault("twice", "nexo", "reply-once", "answered a second time"),
    Fault("misspelt", "nexo", "reply-form", "reslt"),
    Fault("result-and-error", "morphir", "reply-form", "both"),
    Fault("method-in-reply", "morphir", "message-form", "a response has a method as well"),
    Fault("method-in-reply", "nexo", "message-form", "a response has a method as well"),
    Fault("only-null-error", "nexo", "reply-form", "no result, and its error is null"),
    Fault("only-results", "morphir", "stdout-noise", "is JSON, but not a message"),
    Fault("asks", "morphir", "message-form", "cannot send requests to the host"),
    Fault("no-token", "mcp", "notification-form", "progressToken is missing"),
    Fault("null-id-notification", "nexo", "notification-form", "tools/progress has a member id"),
    Fault("no-version", "mcp", "version-member", "no jsonrpc"),
    Fault("error-form", "morphir", "error-form", "an object"),
    Fault("error-form", "nexo", "error-form", "E_FAIL"),
    Fault("no-newline", "morphir", "frame", "does not end with a newline"),
    Fault("headers", "mcp", "frame", "it writes Content-Length headers"),
    Fault("in-a-list", "nexo", "json", "a response is inside a list"),
    Fault("length-too-long", "synaps", "frame"),
    Fault("length-too-short", "synaps", "frame"),
    Fault("huge-length", "synaps", "message-size", "1,000,000,000"),
    Fault("one-read-one-message", "morphir", "split-frame", "byte by byte"),
    Fault("first-of-a-read", "nexo", "joined-frames", "1 of 5"),
    Fault("ignores-unknown", "nexo", "unknown-method", "not answered"),
    Fault("dies-of-unknown", "mcp", "unknown-method", "exited with 1"),
    Fault("knows-everything", "morphir", "unknown-method", "as if it existed"),
    Fault("any-tool", "nexo", "unknown-tool", "without an error"),
    Fault("dies-of-arguments", "mcp", "bad-arguments", "exited with 1"),
    Fault("any-arguments", "mcp", "bad-arguments", "without an error"),
    Fault("small-buffer", "nexo", "large-message", "1 MiB"),
    Fault("quits-12", "nexo", "stays-alive", "exited with 0 on its own, during request 13"),
    Fault("dies-of-cancel", "mcp", "cancel", "exited with 1"),
    Fault("no-shutdown", "synaps", "shutdown", "not answered"),
    Fault("ignores-end", "morphir", "end-of-input", "still runs"),
    Fault("ignores-early-end", "nexo", "early-end", "still runs"),
    Fault("bad-status", "morphir", "exit-status", "exited with 3"),
    Fault("ignores-sigterm", "morphir", "signal", "still runs"),
    Fault("orphan", "morphir", "orphans", "still runs: sleep 30"),
    Fault("quiet-orphan", "mcp", "orphans", "still runs: sleep 30"),
    Fault("orphan-of-call", "nexo", "orphans", "after the calls of --call it has exited"),
    Fault("lock", "morphir", "restart", "exited with 1"),
    Fault("forgets", "nexo", "restart", "gone: count"),
    Fault("offers-nothing", "morphir", "offer", "it offers nothing"),
    Fault("same-name", "mcp", "tool-names", "twice"),
    Fault("spaced-name", "nexo", "tool-names", "'a b/c' is not a name"),
    Fault("endless-list", "mcp", "last-page", "comes to the same page again after 2 pages"),
    Fault("unknown-hook", "nexo", "offer", "an unknown hook, which is never called: on_tool"),
    Fault("no-description", "nexo", "tools", "count has no description"),
    Fault("invalid-input-schema", "morphir", "input-schema", "'objekt'"),
    Fault("list-schema", "nexo", "input-schema", "'array'"),
    Fault("invalid-output-schema", "morphir", "output-schema", "'objet'"),
    Fault("result-against-schema", "mcp", "result", "n: "),
    Fault("no-content", "mcp", "result", "content"),
    Fault("slow", "nexo", "speed", "ms"),
    # Results that the host accepts and official clients refuse.
    Fault("no-server-info", "mcp", "handshake", "serverInfo is missing"),
    Fault("no-protocol-version", "mcp", "handshake", "protocolVersion is missing"),
    Fault("no-capabilities", "mcp", "handshake", "capabilities is missing and must be an object"),
    Fault("no-schema", "mcp", "input-schema", "inputSchema of 'count' is missing"),
    Fault("null-schema", "mcp", "input-schema", "inputSchema of 'count' is null"),
    Fault("list-output-schema", "mcp", "output-schema", "'array'"),
    Fault("null-error", "mcp", "error-form", "which is null"),
    Fault("answers-notifications", "mcp", "notification-reply", "answers no request"),
    Fault("result-for-notifications", "mcp", "notification-reply", "answers no request"),
    Fault("unknown-block", "mcp", "result", "type is 'txt'"),
    Fault("no-mime-type", "mcp", "result", "mimeType is missing"),
    Fault("no-base64", "mcp", "result", "not base64: 'hi!'"),
    Fault("text-is-error", "mcp", "result", "isError is 'false'"),
    Fault("only-structured", "mcp", "result", "content is missing"),
]

# One fault of each kind. The others are in `make test-more`, because each needs several processes.
SAMPLE = {"prints", "wrong-id", "length-too-long", "dies-of-unknown", "result-against-schema"}


def spec_with_fault(name: str, dialect: str, folder: Path) -> Spec:
    argv = [sys.executable, "-S", "-E", str(BAD), dialect, name, str(folder / "state")]
    return connection_spec(argv, dialect, {})


async def check(name: str, dialect: str, folder: Path, seconds: float = REPLY_SECONDS) -> Report:
    """Check an extension with this fault; `seconds` is how long a reply may take."""
    settings = Settings(reply_seconds=seconds, calls=(("shout", {"text": "hi"}),))
    return await run_checks(spec_with_fault(name, dialect, folder), os.environ, settings)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            fault,
            id=f"{fault.name}-{fault.dialect}",
            marks=[] if fault.name in SAMPLE else [pytest.mark.more],
        )
        for fault in FAULTS
    ],
)
async def test_a_planted_fault_is_found_and_named(fault: Fault, tmp_path: Path) -> None:
    report = await check(fault.name, fault.dialect, tmp_path)
    findings = {finding.rule.name: finding for finding in report.findings}
    messages = [f"{finding.rule.name}: {finding.message}" for finding in report.findings]
    assert fault.rule in findings, messages
    finding = findings[fault.rule]
    assert any(fault.message in item.message for item in report.findings), finding.message
    assert finding.fix or finding.rule.fix
    assert report.ok is (finding.rule.severity == "warning" and not report.faults)
    assert report.score < 100


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "mcp"])
async def test_without_a_fault_every_check_passes(dialect: str, tmp_path: Path) -> None:
    report = await check("none", dialect, tmp_path, seconds=60)
    # The speed depends on the machine.
    assert [finding.message for finding in report.findings if finding.rule.name != "speed"] == []


@pytest.mark.parametrize(
    ("limit", "status", "reason"),
    [
        (2**20, "passed", "a message of 1,044,480 bytes"),
        (2**13 - 1, "skipped", "max_message is 8,191 bytes"),
    ],
)
async def test_the_large_message_is_within_the_limit_of_messages(
    limit: int, status: str, reason: str, tmp_path: Path
) -> None:
    spec = spec_with_fault("none", "nexo", tmp_path)
    spec = replace(spec, limits=replace(spec.limits, max_message=limit))
    report = await run_checks(spec, os.environ, Settings(reply_seconds=60))
    [outcome] = [item for item in report.outcomes if item.rule.name == "large-message"]
    assert (outcome.status, outcome.reason) == (status, reason)
    assert report.ok


# A program that treats a line over 64 KiB as the end of its input, as a Scanner in Go does.
LIMITED_LINES = """\
import json, sys
while (line := sys.stdin.buffer.readline(65536)).endswith(b"\\n"):
    request = json.loads(line)
    result = {"initialize": {}, "capabilities": []}.get(request["method"])
    reply = {"error": "unknown"} if result is None else {"result": result}
    print(json.dumps({"id": request["id"], **reply}), flush=True)
"""


async def test_a_program_that_ends_at_a_long_line_gets_a_warning_with_a_fix() -> None:
    spec = connection_spec([sys.executable, "-c", LIMITED_LINES], "morphir", {})
    report = await run_checks(spec, os.environ, Settings(reply_seconds=60))
    [outcome] = [item for item in report.outcomes if item.rule.name == "large-message"]
    assert outcome.status == "warning" and "Scanner.Buffer" in outcome.rule.fix
    assert "exited with 0" in outcome.findings[0].message
    assert not report.faults


# The checks of nexo send 1 request of the handshake, 16 for the speed, 5 in one write, the unknown
# method and one more, the unknown tool and one more, missing arguments and one more, a call, and a
# large message.
@pytest.mark.more
@pytest.mark.parametrize("number", [1, 2, 16, 17, 18, 21, 22, 23, 24, 25, 26, 27])
async def test_a_process_that_exits_on_its_own_is_one_finding_at_any_request(
    number: int, tmp_path: Path
) -> None:
    report = await check(f"quits-{number}", "nexo", tmp_path, seconds=60)
    [finding] = report.faults
    assert finding.rule.name == "stays-alive"
    beginning = f"the process exited with 0 on its own, during request {number + 1} ("
    assert finding.message.startswith(beginning)


@pytest.mark.parametrize(
    ("name", "dialect", "fix"),
    [
        ("no-capabilities", "mcp", 'add "capabilities": {"tools": {}} to the result of'),
        ("endless-list", "mcp", "omit nextCursor from the last page"),
        ("offers-nothing", "mcp", "list its features in `capabilities`"),
        ("unknown-hook", "nexo", "the hooks are before_message, "),
    ],
)
async def test_a_mistake_in_the_offer_is_one_finding_with_a_fix(
    name: str, dialect: str, fix: str, tmp_path: Path
) -> None:
    settings = Settings(reply_seconds=60)
    report = await run_checks(spec_with_fault(name, dialect, tmp_path), os.environ, settings)
    [finding] = [item for item in report.findings if item.rule.name != "speed"]
    assert fix in (finding.fix or finding.rule.fix)


async def test_the_finding_of_a_crash_in_a_call_shows_the_beginning_of_stderr(
    tmp_path: Path,
) -> None:
    report = await check("deep-error", "nexo", tmp_path, seconds=60)
    [finding] = [fault for fault in report.faults if fault.rule.name == "unknown-tool"]
    assert finding.stderr[0] == "Error: no such city"
    assert "catch exceptions around each call" in finding.fix


async def test_the_finding_of_an_invalid_result_shows_a_valid_result(
    tmp_path: Path,
) -> None:
    report = await check("no-content", "mcp", tmp_path, seconds=60)
    [finding] = [fault for fault in report.faults if fault.rule.name == "result"]
    assert '{"content": [{"type": "text"' in finding.fix


async def test_the_finding_of_a_failed_handshake_refers_to_the_broken_rule(
    tmp_path: Path,
) -> None:
    report = await check("headers", "morphir", tmp_path, seconds=60)
    handshake, frame = report.faults
    assert handshake.fix == "correct the faults reported below for frame"
    assert frame.rule.name == "frame" and "without headers" in frame.fix


def is_running(pid: int) -> bool:
    """Return whether a process runs. A process that has ended can remain as a zombie."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.more
async def test_the_check_ends_a_process_that_the_extension_left(tmp_path: Path) -> None:
    report = await check("quiet-orphan", "morphir", tmp_path, seconds=60)
    [finding] = report.faults
    assert finding.rule.name == "orphans"
    pid = int(finding.message.rpartition("(pid ")[2].rstrip(")"))
    assert not is_running(pid)


async def test_the_check_ends_a_process_that_a_call_left(tmp_path: Path) -> None:
    report = await check("orphan-of-call", "mcp", tmp_path, seconds=60)
    [finding] = report.faults
    assert finding.rule.name == "orphans" and "still runs: sleep 31 (pid " in finding.message
    pid = int(finding.message.rpartition("(pid ")[2].rstrip(")"))
    assert not is_running(pid)


async def test_a_child_that_the_extension_ends_is_not_a_fault(tmp_path: Path) -> None:
    report = await check("ends-its-child", "morphir", tmp_path, seconds=60)
    assert [finding.message for finding in report.findings if finding.rule.name != "speed"] == []
    assert "orphans" in {outcome.rule.name for outcome in report.with_status("passed")}


@pytest.mark.more
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "mcp"])
async def test_a_failed_call_is_reported_as_a_failure_of_the_tool(
    dialect: str, tmp_path: Path
) -> None:
    settings = Settings(reply_seconds=60, calls=(("shout", {}),))
    report = await run_checks(spec_with_fault("none", dialect, tmp_path), os.environ, settings)
    outcomes = {outcome.rule.name: outcome for outcome in report.outcomes}
    [finding] = outcomes["tool-failure"].findings
    assert [*report.faults] == [finding]
    assert finding.message.startswith("shout failed: ") and "--call" in finding.rule.fix
    assert outcomes["result"].status == "skipped" and "shout failed" in outcomes["result"].reason


@pytest.mark.more  # waits for a missing reply
async def test_a_call_that_blocks_causes_no_other_fault(tmp_path: Path) -> None:
    calls: tuple[tuple[str, Any], ...] = (("none", {}), ("shout", {"text": "hi"}), ("count", {}))
    settings = Settings(reply_seconds=REPLY_SECONDS, calls=calls)
    report = await run_checks(
        spec_with_fault("blocks-in-call", "nexo", tmp_path), os.environ, settings
    )
    assert {finding.rule.name for finding in report.faults} == {"result"}
    unknown, silent = report.faults
    assert "there is no tool none" in unknown.message and "shout, count" in unknown.fix
    assert "not answered" in silent.message and "--reply-timeout" in silent.fix
    assert silent.exchange[0].startswith("> ") and '"shout"' in silent.exchange[0]


# An exception of a task, in the exception group of its task group.
RAISES_A_GROUP = """
try:
    raise ConnectionError("no route to db")
except ConnectionError as error:
    raise ExceptionGroup("unhandled errors in a TaskGroup", [error])
"""


@pytest.mark.parametrize(
    ("args", "message", "fix"),
    [
        (["nosuch.py"], "there is no file ", "by hand"),
        (["-c", "import nosuch"], "the module nosuch is not installed", "by hand"),
        (["-c", "1/0"], "it failed with ZeroDivisionError", "by hand"),
        (["-c", ""], "the process exited with 0", "ext.run()"),
        (["-c", RAISES_A_GROUP], "it failed with ConnectionError: no route to db", "by hand"),
        (
            ["-c", "raise SystemExit('ENOTFOUND db.local')"],
            "the process exited",
            "the network: see",
        ),
        (["-c", "raise SystemExit('API_KEY is not set')"], "API_KEY is not set: ", "by hand"),
    ],
)
async def test_the_finding_of_a_handshake_without_an_answer_names_the_cause(
    args: list[str], message: str, fix: str
) -> None:
    spec = connection_spec([sys.executable, "-S", "-E", *args], "morphir", {})
    report = await run_checks(spec, os.environ, Settings(reply_seconds=60))
    [finding] = report.faults
    assert finding.rule.name == "handshake"
    assert finding.message.startswith(message) and fix in finding.fix
    assert report.score == 0  # almost no rule was checked


async def test_a_silent_program_is_not_reported_as_exited() -> None:
    """The check ends the process after the time limit, so its exit is not reported."""
    program = "import sys\nfor line in sys.stdin: pass"
    spec = connection_spec([sys.executable, "-S", "-E", "-c", program], "morphir", {})
    [finding] = (await run_checks(spec, os.environ, Settings(reply_seconds=0.1))).faults
    assert finding.message == "initialize was not answered in 0.3 s"
    assert "does it flush stdout" in finding.fix


@pytest.mark.parametrize(
    ("stderr", "message", "fix"),
    [
        (
            ("Error: getaddrinfo ENOTFOUND db.local",),
            "initialize was",
            "the network: see its stderr",
        ),
        (("Server running on stdio",), "initialize was", "see its stderr; if it does not name the"),
        (
            ("Traceback (most recent call last):", '  File "a.py"', "KeyError: 1", "INFO waiting"),
            "it failed with KeyError: 1; ",
            "by hand",
        ),
    ],
)
async def test_the_advice_for_a_program_that_hangs_points_to_its_stderr(
    stderr: tuple[str, ...], message: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pipes, "stderr", stderr)  # however soon the check ends the program
    program = "import sys\nfor line in sys.stdin: pass"
    spec = connection_spec([sys.executable, "-S", "-E", "-c", program], "morphir", {})
    [finding] = (await run_checks(spec, os.environ, Settings(reply_seconds=0.1))).faults
    assert finding.message.startswith(message) and fix in finding.fix


def test_several_lines_of_noise_are_one_finding() -> None:
    ledger = Ledger(Conformance())
    ledger.add_problems([Problem("stdout-noise", line) for line in ("a", "b", "a", "b", "c")])
    outcomes = {outcome.rule.name: outcome for outcome in ledger.outcomes("")}
    [finding] = outcomes["stdout-noise"].findings
    assert finding.message == "a (and 2 more such lines)"


def test_handlers_that_the_sdk_does_not_offer_are_a_warning() -> None:
    lines = ["starting", "exthost.sdk: cigen has no tools, so not offered: shout"]
    assert [(problem.rule, problem.message) for problem in audit_stderr(lines)] == [
        ("offer", lines[1])
    ]


@pytest.mark.parametrize(
    ("offer", "is_empty"),
    [
        (Offer(), True),
        (Offer(capabilities=("logging", "tools")), True),
        (Offer(capabilities=("resources", "tools")), False),
        (Offer(hooks=("before_tool_call",)), False),
    ],
)
def test_an_extension_that_offers_nothing_is_reported(offer: Offer, is_empty: bool) -> None:
    assert bool(audit_emptiness(offer)) is is_empty


def test_tools_that_only_the_manifest_or_only_the_handshake_names_are_a_warning() -> None:
    offer = Offer(tools=(Tool("both"), Tool("new")))
    problems = audit_declared_tools((Tool("both"), Tool("old")), offer)
    assert [(problem.rule, problem.message) for problem in problems] == [
        ("tools", "tools in its manifest and not in its handshake: old; write the manifest again"),
        ("tools", "tools in its handshake and not in its manifest: new; write the manifest again"),
    ]
    assert audit_declared_tools(offer.tools, offer) == []


def test_every_rule_is_broken_by_a_fault() -> None:
    rules = {rule.name for rule in all_rules(Conformance())}
    # `tests/faces/cli` tests the first three of these rules. A failed tool breaks no rule of a
    # dialect, and has a test above.
    rules_without_a_fault = {"manifest", "start", "time", "tool-failure"}
    assert rules - {item.rule for item in FAULTS} == rules_without_a_fault
