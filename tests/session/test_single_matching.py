"""Only the conversation matches replies to requests; no other module implements this again.

`Conversation` is the class for the messages on one connection, in every dialect (protocol). A codec
decodes messages, and the steps of an operation are the requests of a call that needs several.

The tests search the source for three signs of such code: a module makes a codec, runs the steps of
an operation, or finds a request in a table by the id of a message. Modules that may do so are
listed with the reason.
"""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

Search = Callable[[ast.AST], Iterator[int]]

SOURCE = Path(__file__).parents[2] / "src" / "exthost"

CONVERSATION = {
    "session/conversation.py": "the conversation",
    "session/requests.py": "the part of the conversation that keeps the requests",
    "session/operations.py": "the part of the conversation that runs operations",
}

MAY_MAKE_CODECS = {
    "session/trace/session_trace.py": "decodes what the host sends, to show it as the other end",
    "session/output_diagnosis.py": "finds the fault in output that the conversation rejected",
    "authoring/testing/vectors/read_vector.py": "tests a codec by itself",
    "authoring/testing/hostile.py": "breaks the rules of conversations on purpose",
}
MAY_RUN_STEPS: dict[str, str] = {}
MAY_FIND_BY_ID = {
    "session/subscriptions.py": "sends a request again whose end the conversation has reported",
    "session/trace/session_trace.py": "names the method in the record of a reply",
    "authoring/replay/host_role.py": "answers with the id that a request of the program has now",
    "authoring/replay/extension_role.py": "answers with the id that a request of the host has now",
}
OTHER_PROTOCOLS = {
    "host/control": "the protocol of the control socket, which is not a dialect",
    "cluster": "the protocol between a host and its nodes, which is not a dialect",
    "faces/gateway": "the gateway is a server, and the mcp package matches its requests",
}

STEP_CLASSES = {"AskHost", "GetOffer", "RetireProcess", "TryRequest", "WaitFor"}


def find_codecs(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that make a codec: `dialect.codec(…)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="codec"), args=[_, *_], lineno=line):
                yield line


def find_steps(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that distinguish the steps of an operation, by a pattern or `isinstance`."""
    for node in ast.walk(tree):
        names: list[ast.expr] = []
        if isinstance(node, ast.MatchClass):
            names = [node.cls]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
        ):
            names = [name for name in ast.walk(node.args[1]) if isinstance(name, ast.expr)]
        last_parts = (getattr(name, "attr", None) or getattr(name, "id", None) for name in names)
        if any(part in STEP_CLASSES for part in last_parts):
            yield names[0].lineno


def handles_messages(tree: ast.AST) -> bool:
    """Return whether a module imports the classes of messages or calls."""
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(
        module.endswith((".messages", "session.call", "session.effects")) for module in imported
    )


def find_lookups_by_id(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that find something by the id of a message: `table.pop(reply.id)`, or `get`,
    or `table[reply.id]`. In a module without messages, an id is that of an extension."""
    if not handles_messages(tree):
        return
    for node in ast.walk(tree):
        keys: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("pop", "get") and node.args:
                keys = [node.args[0]]
        elif isinstance(node, ast.Subscript):
            keys = [node.slice]
        for key in keys:
            if isinstance(key, ast.Tuple):
                keys.extend(key.elts)
            is_id = isinstance(key, ast.Attribute) and key.attr == "id"
            if is_id or (isinstance(key, ast.Name) and key.id == "id"):
                yield key.lineno


@cache
def parse_modules() -> dict[str, ast.AST]:
    """Return the syntax tree of each module, without the dialects and OTHER_PROTOCOLS."""
    names = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, path in names.items()
        if not name.startswith(("dialects/", *OTHER_PROTOCOLS))
    }


@pytest.mark.parametrize(
    ("search", "permitted"),
    [
        (find_codecs, MAY_MAKE_CODECS),
        (find_steps, MAY_RUN_STEPS),
        (find_lookups_by_id, MAY_FIND_BY_ID),
    ],
)
def test_only_the_conversation_matches_replies_to_requests(
    search: Search, permitted: dict[str, str]
) -> None:
    lines_by_module = {name: list(search(tree)) for name, tree in parse_modules().items()}
    matching = {name for name, lines in lines_by_module.items() if lines}
    unlisted = matching - permitted.keys() - CONVERSATION.keys()
    unexpected = {name: lines_by_module[name] for name in unlisted}
    assert not unexpected, f"these modules match replies, and no reason is listed: {unexpected}"
    assert matching & CONVERSATION.keys(), "the search finds nothing in the conversation itself"
    unneeded = permitted.keys() - matching
    assert not unneeded, f"these entries are not needed: {unneeded}"


IMPORT_OF_MESSAGES = "from exthost.model.messages import Reply\n"


@pytest.mark.parametrize(
    ("search", "code"),
    [
        (find_codecs, "self._codec = dialect.codec(Role.HOST)"),
        (find_codecs, "self.codec = dialect.codec(role)"),
        (find_steps, "match step:\n    case TryRequest(request, limit): pass"),
        (find_steps, "while isinstance(step, GetOffer | RetireProcess): pass"),
        (find_steps, "if isinstance(step, WaitFor): pass"),
        (find_steps, "if isinstance(step, steps.WaitFor): pass"),
        (find_lookups_by_id, IMPORT_OF_MESSAGES + "future = self._waiting.pop(incoming.id, None)"),
        (find_lookups_by_id, IMPORT_OF_MESSAGES + "method = self._methods.get(actual.id, '')"),
        (
            find_lookups_by_id,
            IMPORT_OF_MESSAGES
            + "if self._conversation.pending.pop(call.id, None) is not call: pass",
        ),
        (find_lookups_by_id, IMPORT_OF_MESSAGES + "return self._waiting[request.id]"),
    ],
)
def test_each_search_finds_code_that_matches_replies(search: Search, code: str) -> None:
    """These lines are from earlier modules that matched replies."""
    assert list(search(ast.parse(code)))
