"""Tasks: calls that a server runs in the background (the extension TASKS of the protocol).

A stateless server may reply to `tools/call` with a task in place of a result. The host then asks
for the state of the task (`tasks/get`) until it is over, at the interval that the server names. A
task may request input, which the host's handlers supply (`tasks/update`). If the call is given up,
the task is cancelled (`tasks/cancel`).

The functions that send are generators: they yield a message and are resumed with its reply
(`dialects.steps`).
"""

from typing import Any

from exthost.dialects import steps
from exthost.errors import CallFailed, Evidence, ProtocolViolation
from exthost.model.messages import Failure, Reply, Request

# The name of the extension of the protocol, in the capabilities of client and server.
TASKS = "io.modelcontextprotocol/tasks"

# The requests about a task. Each has a `taskId`.
TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")

# The interval at which the state of a task is requested if the server names none, and the limits
# of an interval that it names.
_POLL_SECONDS, _MIN_POLL_MS, _MAX_POLL_MS = 1.0, 50, 30_000

# The number of characters of a server's value that an error shows.
_EVIDENCE_CHARACTERS = 500


def wait_for_task(method: str, created: dict[str, Any]) -> Any:
    """Wait for the end of a task, and return its result. `created` is the reply to the request
    `method` that created the task."""
    task_id = created.get("taskId")
    if type(task_id) is not str or not task_id:
        raise _invalid_task_error(method, created, "it has no taskId")
    cancellation = Request("tasks/cancel", {"taskId": task_id})
    yield steps.CancelWith(cancellation)
    task = created
    answered: set[str] = set()
    while (status := task.get("status")) in ("working", "input_required"):
        if status == "input_required":
            try:
                yield from _supply_input(method, task_id, task, answered)
            except (CallFailed, ProtocolViolation):
                yield cancellation  # the server would wait for the input until the task expires
                raise
        # Wait for the interval. A server that reports changes of the state by notifications ends
        # the wait earlier, although the host does not subscribe to them.
        yield steps.WaitFor("notifications/tasks", _is_about(task_id), _poll_seconds(task))
        task = steps.result_of((yield Request("tasks/get", {"taskId": task_id})), "tasks/get")
        if type(task) is not dict:
            raise _invalid_task_error("tasks/get", task, "it is not an object")
    if status == "completed":
        return task.get("result")
    if status == "failed":
        raise steps.call_failed_error(_read_error(task.get("error")), method)
    if status == "cancelled":
        raise CallFailed(
            "X0770",
            f"the server cancelled the task of {method}",
            help="the server decided this; see its log for the cause",
        )
    raise _invalid_task_error(method, task, f"its status is {status!r}")


def _supply_input(method: str, task_id: str, task: dict[str, Any], answered: set[str]) -> Any:
    """Answer the requests for input of a task that were not answered before."""
    questions = task.get("inputRequests")
    responses: dict[str, Any] = {}
    for key, question in questions.items() if type(questions) is dict else ():
        if key in answered:
            continue
        answered.add(key)
        if type(question) is not dict or type(question.get("method")) is not str:
            raise _invalid_task_error(method, task, "a request for input has no method")
        response = yield steps.AskHost(question["method"], question.get("params"))
        responses[key] = answer_of(response, method)
    if responses:
        params = {"taskId": task_id, "inputResponses": responses}
        steps.result_of((yield Request("tasks/update", params)), "tasks/update")


def answer_of(response: steps.Received, method: str) -> Any:
    """Return the answer of the host's handler to a request for input. Raises CallFailed if no
    handler answered it."""
    if isinstance(response, Reply):
        return response.result
    assert isinstance(response, Failure), "AskHost is answered with a Reply or a Failure"
    raise CallFailed(
        "X0760",
        f"{method} needs an answer from here that it did not get: {response.message}",
        error_code=response.code,
        error_message=response.message,
        data=response.data,
        help="register a handler for its request: roots, sampling or elicitation",
    )


def _poll_seconds(task: dict[str, Any]) -> float:
    interval = task.get("pollIntervalMs")
    if type(interval) is not int and type(interval) is not float:
        return _POLL_SECONDS
    # The limits come before the division, which raises OverflowError for a huge integer.
    milliseconds: float = min(max(_MIN_POLL_MS, interval), _MAX_POLL_MS)
    return milliseconds / 1000


def _is_about(task_id: str) -> Any:
    """Return a function that returns whether the params of a notification name this task."""
    return lambda params: type(params) is dict and params.get("taskId") == task_id


def _read_error(error: Any) -> Failure:
    fields = error if type(error) is dict else {}
    code, message = fields.get("code"), fields.get("message")
    return Failure(
        None,
        message if type(message) is str else "it gives no reason",
        code if type(code) is int else None,
        fields.get("data"),
    )


def _invalid_task_error(method: str, task: Any, reason: str) -> ProtocolViolation:
    return ProtocolViolation(
        "X0664",
        f"{method} was answered with a task that cannot be read: {reason}",
        help="a task has a taskId and a status: working, input_required, completed, failed or "
        "cancelled",
        evidence=Evidence(bytes=repr(task)[:_EVIDENCE_CHARACTERS]),
    )
