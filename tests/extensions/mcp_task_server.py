"""A stateless MCP server with tasks, for tests.

A task is a tool call that continues after its reply. The reply has the id of the task, with which
the client asks for its state and result (`tasks/get`), answers its questions (`tasks/update`) or
cancels it (`tasks/cancel`). The tools are those that MCP's conformance suite calls, and two more:
`odd_result` has a result of an unknown type, and `task_states` returns the state of each task.

The server implements the revision 2026-07-28 on stdio with only the standard library.
"""

import itertools
import json
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any

TASKS = "io.modelcontextprotocol/tasks"
PREFIX = "io.modelcontextprotocol/"
MISSING_CAPABILITY, INVALID_PARAMS, METHOD_NOT_FOUND = -32021, -32602, -32601

_numbers = itertools.count(1)
_output = threading.Lock()
# Held while a task is read or changed; notified when input has arrived or it was cancelled.
_changed = threading.Condition()


class RpcError(Exception):
    """The error reply to a request."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data else {})


def now() -> str:
    return datetime.now(UTC).isoformat()


class Task:
    """One task. `outcome` has its result or its error when it has ended."""

    def __init__(self) -> None:
        self.id = f"task-{next(_numbers)}-{time.monotonic_ns()}"
        self.status = "working"
        self.created = self.updated = now()
        self.outcome: dict[str, Any] = {}
        self.questions: dict[str, Any] = {}

    def value(self) -> dict[str, Any]:
        """Return the task as the reply to a tool call."""
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            "ttlMs": 600_000,
            "pollIntervalMs": 50,
        }

    def detailed(self) -> dict[str, Any]:
        """Return the task as the reply to `tasks/get`, with its outcome or its questions."""
        value = self.value() | self.outcome
        if self.status == "input_required":
            value["inputRequests"] = self.questions
        return value

    def move(self, status: str, **outcome: Any) -> None:
        """Change the state, unless the task has ended. The caller holds `_changed`."""
        if self.status not in ("completed", "failed", "cancelled"):
            self.status, self.outcome, self.updated = status, outcome, now()
        _changed.notify_all()

    def ask(self, *messages: str) -> bool:
        """Request input and wait for it. Return False if the task was cancelled."""
        form = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
        with _changed:
            self.questions = {
                f"input-{next(_numbers)}": {
                    "method": "elicitation/create",
                    "params": {"message": message, "requestedSchema": form},
                }
                for message in messages
            }
            self.move("input_required")
            _changed.wait_for(lambda: not self.questions or self.status == "cancelled", 60)
            if self.status == "cancelled":
                return False
            self.move("working")
        return True


tasks: dict[str, Task] = {}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


# -- tools that run as tasks; `task` is None if the client does not support tasks ----------------


def slow_compute(task: Task | None, arguments: dict[str, Any]) -> dict[str, Any]:
    with _changed:
        _changed.wait_for(
            lambda: task is not None and task.status == "cancelled",
            float(arguments.get("seconds", 0)),
        )
    return text(f"computed {arguments.get('label', '')}")


def failing_job(task: Task | None, arguments: dict[str, Any]) -> dict[str, Any]:
    return text("the job failed", isError=True)


def protocol_error_job(task: Task | None, arguments: dict[str, Any]) -> dict[str, Any]:
    raise RpcError(-32603, "the job broke")


def confirm_delete(task: Task | None, arguments: dict[str, Any]) -> dict[str, Any]:
    if task is not None:
        task.ask(f"Delete {arguments.get('filename')}?")
    return text("deleted")


def multi_input(task: Task | None, arguments: dict[str, Any]) -> dict[str, Any]:
    if task is not None:
        task.ask("Your name?", "Are you sure?")
    return text("two answers")


TASK_TOOLS = {
    function.__name__: function
    for function in (slow_compute, failing_job, protocol_error_job, confirm_delete, multi_input)
}
# Tools that refuse a client without tasks.
REQUIRED = {"failing_job", "protocol_error_job", "test_tool_with_task"}


def run_task(task: Task, function: Any, arguments: dict[str, Any]) -> None:
    try:
        result = function(task, arguments)
    except RpcError as error:
        with _changed:
            task.move("failed", error=error.error)
    else:
        with _changed:
            task.move("completed", result=result)


def start_task(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    task = Task()
    tasks[task.id] = task
    threading.Thread(target=run_task, args=(task, function, arguments), daemon=True).start()
    return {**task.value(), "status": "working", "resultType": "task"}


# -- methods -------------------------------------------------------------------------------------


def require_tasks(declared: bool) -> None:
    if not declared:
        needed: Any = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise RpcError(MISSING_CAPABILITY, "the client does not declare tasks", needed)


def call_tool(params: dict[str, Any], has_tasks: bool) -> dict[str, Any]:
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "greet":
        return text(f"Hello, {arguments.get('name', '')}!")
    if name == "odd_result":
        return {"resultType": "hologram", "content": []}
    if name == "task_states":
        return text(" ".join(task.status for task in tasks.values()))
    if name in REQUIRED:
        require_tasks(has_tasks)
    if name == "test_tool_with_task":
        answers = params.get("inputResponses")
        if not answers:
            question = {
                "method": "elicitation/create",
                "params": {
                    "message": "Your name?",
                    "requestedSchema": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}},
                    },
                },
            }
            return {
                "resultType": "input_required",
                "inputRequests": {"user_name": question},
                "requestState": "asked",
            }
        user = answers["user_name"]["content"]["name"]
        return start_task(lambda task, arguments: text(f"Hello, {user}!"), {})
    function = TASK_TOOLS.get(name)
    if function is None:
        raise RpcError(INVALID_PARAMS, f"unknown tool {name}")
    return start_task(function, arguments) if has_tasks else function(None, arguments)


def task_request(method: str, params: dict[str, Any], has_tasks: bool) -> dict[str, Any]:
    require_tasks(has_tasks)
    task = tasks.get(params.get("taskId", ""))
    if task is None:
        raise RpcError(INVALID_PARAMS, "unknown task")
    with _changed:
        if method == "tasks/get":
            return task.detailed()
        if method == "tasks/cancel":
            task.move("cancelled")
        else:
            for key in params.get("inputResponses") or {}:
                task.questions.pop(key, None)
            _changed.notify_all()
    return {}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta") or {}
    capabilities = meta.get(f"{PREFIX}clientCapabilities") or {}
    has_tasks = TASKS in (capabilities.get("extensions") or {})
    if method == "server/discover":
        return {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
        }
    if method == "tools/list":
        names = ["greet", *TASK_TOOLS, "test_tool_with_task", "odd_result", "task_states"]
        schema = {"type": "object"}
        return {
            "tools": [
                {"name": name, "description": f"The tool {name}.", "inputSchema": schema}
                for name in names
            ]
        }
    if method == "tools/call":
        return call_tool(params, has_tasks)
    if method in ("tasks/get", "tasks/update", "tasks/cancel"):
        return task_request(method, params, has_tasks)
    raise RpcError(METHOD_NOT_FOUND, f"unknown method {method}")


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            result = answer(message["method"], message.get("params") or {})
            reply["result"] = {"resultType": "complete", **result}
        except RpcError as error:
            reply["error"] = error.error
        with _output:
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
