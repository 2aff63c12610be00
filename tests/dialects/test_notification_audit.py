"""The audit of notifications by `exthost check`: which of them get a warning, in each dialect.

The host ignores a notification that it cannot use, so its author would not notice the mistake. A
dialect is the protocol that the extension speaks. Here the host has sent one request, with id 7.
"""

import json
from typing import Any

import pytest

from exthost.dialects.find import find_conformance
from exthost.dialects.message_audit import MessageAudit
from exthost.model.messages import Notification

PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"


def audit(dialect: str, method: str, params: Any) -> list[tuple[str, str]]:
    """Return the message and the fix of each problem of a notification."""
    conformance = find_conformance(dialect)
    messages = MessageAudit(conformance)
    messages.add_request(7, "tools/call")
    version = {"jsonrpc": "2.0"} if conformance.has_version else {}
    fields = {**version, "method": method} | ({} if params is None else {"params": params})
    problems = messages.check_frame(json.dumps(fields).encode(), Notification(method, params))
    assert {problem.rule for problem in problems} <= {"notification-form"}
    return [(problem.message, problem.fix) for problem in problems]


@pytest.mark.parametrize(
    ("dialect", "method", "params", "message"),
    [
        ("mcp", PROGRESS, {"progress": 1}, "progressToken is missing"),
        ("mcp", PROGRESS, {"progressToken": 8, "progress": 1}, "is 8, which no request had"),
        ("mcp", PROGRESS, {"progressToken": "7", "progress": 1}, "is '7', which no request had"),
        ("mcp", PROGRESS, {"progressToken": 7, "progress": "1"}, "progress is '1' and must be a"),
        ("mcp", PROGRESS, {"progressToken": 7, "progress": 1, "total": None}, "total is null"),
        ("mcp", PROGRESS, {"progressToken": 7, "progress": 1, "message": 1}, "message is 1"),
        ("mcp", MESSAGE, {"level": "warn", "data": "hi"}, "'warn' and must be a level of MCP"),
        ("mcp", MESSAGE, {"level": [], "data": "hi"}, "[] and must be a level of MCP"),
        ("mcp", MESSAGE, {"level": "info", "message": "hi"}, "the value to log, is missing"),
        ("mcp", MESSAGE, {"level": "info", "data": 1, "logger": None}, "logger is null"),
        ("mcp", MESSAGE, ["hi"], "params is ['hi'] and must be an object"),
        ("mcp", "notifications/cancelled", {"id": 7}, "requestId is missing"),
        ("mcp", "notifications/resources/updated", {}, "uri is missing"),
        ("mcp", "notifications/tool/list_changed", {}, "is not a notification of MCP"),
        ("mcp", "progress", {"progress": 1}, "progress is not a notification of MCP"),
        ("morphir", "log", {"text": "hi"}, "a log notification without a message"),
        ("nexo", "tools/progress", {"id": 7}, "tools/progress: its params cannot be read"),
        ("nexo", "tools/progress", {"progress": 1}, "has the id None, which no request had"),
        ("roder", "extension/event", {}, "extension/event: its params cannot be read"),
        ("synaps", "widget.dismiss", {}, "widget.dismiss: its params cannot be read"),
    ],
)
def test_a_notification_that_cannot_be_used_is_a_warning(
    dialect: str, method: str, params: Any, message: str
) -> None:
    [(problem_message, _)] = audit(dialect, method, params)
    assert message in problem_message


@pytest.mark.parametrize(
    ("dialect", "method", "params"),
    [
        ("mcp", PROGRESS, {"progressToken": 7, "progress": 0.5, "total": 1, "message": "half"}),
        ("mcp", MESSAGE, {"level": "notice", "data": None, "logger": "x"}),
        ("mcp", "notifications/tools/list_changed", None),
        ("mcp", "notifications/cancelled", {"requestId": "a"}),
        ("mcp", "notifications/vendor/event", {"any": "thing"}),
        ("morphir", "log", {"message": "hi"}),
        ("morphir", "tick", 1),
        ("nexo", "tools/progress", {"id": 7, "progress": 1}),
        ("synaps", "widget.dismiss", {"id": "w"}),
    ],
)
def test_a_notification_of_the_dialect_is_not_a_problem(
    dialect: str, method: str, params: Any
) -> None:
    assert audit(dialect, method, params) == []


def test_the_fix_has_the_valid_levels_and_the_correct_name() -> None:
    [(_, fix)] = audit("mcp", MESSAGE, {"level": "warn", "data": "hi"})
    assert fix.startswith("the levels are debug, info, notice, warning, ")
    [(_, fix)] = audit("mcp", "notifications/tool/list_changed", {})
    assert fix == "the notification is called notifications/tools/list_changed"
