"""An MCP server that does what a test tells it to, by its argument and by its tools.

    mcp_child.py '{"era": "handshake", "heard": FILE, …}'

    era        "handshake" (default), or "stateless", which checks the `_meta` of each request
    discover   "die" or "silent": how the server reacts to server/discover
    pages      "for ever": the list of tools has no end
    banner     text that it prints first
    silent     methods that it never answers
    lies       further entries of the list of tools, which may be invalid
    heard      a file to which it writes every line that it reads

Each method of `Tools` is a tool. The server uses the standard library only, and is run with
`python -S -E`, so that it starts quickly.
"""

import json
import os
import signal
import sys
import time
from typing import Any

BEHAVIOUR: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
STATELESS = BEHAVIOUR.get("era") == "stateless"
PREFIX = "io.modelcontextprotocol/"
SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
RECEIVED: list[Any] = []  # all messages so far
SUBSCRIPTIONS: list[Any] = []  # the ids of open requests `subscriptions/listen`
ADDED_TOOLS: list[str] = []
NEW_NAMES: dict[str, str] = {}  # of tools that were renamed


def send(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def receive() -> Any:
    """Return the next message; exit at the end of stdin."""
    line = sys.stdin.readline()
    if not line:
        for id in SUBSCRIPTIONS:  # as the official package's servers do
            send(id=id, error={"code": -32000, "message": "Connection closed"})
        sys.exit(0)
    if "heard" in BEHAVIOUR:
        # Importing pathlib would make the start slower.
        with open(BEHAVIOUR["heard"], "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(line)
    RECEIVED.append(json.loads(line))
    return RECEIVED[-1]


def text_result(text: Any) -> Any:
    """Return a result with this text, or with this value as JSON."""
    return {"content": [{"type": "text", "text": text if type(text) is str else json.dumps(text)}]}


class Tools:
    """Each method is a tool. It gets the params of tools/call."""

    def echo(self, params: Any, id: Any) -> Any:
        return text_result(params["arguments"])

    def typed(self, params: Any, id: Any) -> Any:
        """Return the argument `as` as structured content, or add the arguments to the result."""
        arguments = params["arguments"]
        return text_result("typed") | (
            {"structuredContent": arguments["as"]} if "as" in arguments else arguments
        )

    def steps(self, params: Any, id: Any) -> Any:
        """Report progress `times` times, and answer unless `end` is false. With `asks` each step
        waits for the answer to a ping, so that the host has received the progress."""
        arguments = params["arguments"]
        token = params["_meta"]["progressToken"]
        for step in range(1, arguments["times"] + 1):
            progress = {"progressToken": token, "progress": step, "total": arguments["times"]}
            send(method="notifications/progress", params=progress | {"message": f"step {step}"})
            if arguments.get("asks"):
                self.ask({"arguments": {"method": "ping"}}, None)
        return text_result("done") if arguments.get("end", True) else None

    def hang(self, params: Any, id: Any) -> Any:
        """Never answer."""
        return None

    def notify(self, params: Any, id: Any) -> Any:
        """Send this notification, before the result."""
        send(**params["arguments"])
        return text_result("notified")

    def flood(self, params: Any, id: Any) -> Any:
        """Send this notification many times, and then the result."""
        message = json.dumps({"jsonrpc": "2.0", **params["arguments"]["what"]}).encode() + b"\n"
        for _ in range(params["arguments"]["times"] // 100):
            os.write(1, message * 100)
        return text_result("flooded")

    def rename(self, params: Any, id: Any) -> Any:
        """Rename a tool before the result is sent, and notify the host. Wait until it has listed
        the tools again."""
        NEW_NAMES["rename"] = "renamed"
        send(method="notifications/tools/list_changed")
        while (message := receive()).get("method") != "tools/list":
            pass
        send(id=message["id"], result=tools(message.get("params") or {}))
        return text_result("done under the old name")

    def heard(self, params: Any, id: Any) -> Any:
        return text_result(RECEIVED)

    def environ(self, params: Any, id: Any) -> Any:
        return text_result(dict(os.environ))

    def change(self, params: Any, id: Any) -> Any:
        """Add tools, with a notification for each."""
        for name in params["arguments"]["add"]:
            ADDED_TOOLS.append(name)
            meta = {"_meta": {f"{PREFIX}subscriptionId": SUBSCRIPTIONS[0]}} if STATELESS else {}
            if not STATELESS or SUBSCRIPTIONS:
                send(method="notifications/tools/list_changed", params=meta)
        return text_result("changed")

    def unlisten(self, params: Any, id: Any) -> Any:
        """Add a tool without a notification, and end or refuse the open subscriptions."""
        ADDED_TOOLS.append(f"untold{len(ADDED_TOOLS)}")
        outcome = {"error": params["arguments"]["no"]} if params["arguments"] else {"result": {}}
        send(id=SUBSCRIPTIONS.pop(), **outcome)
        return text_result("over")

    def ask(self, params: Any, id: Any) -> Any:
        """Send this request to the host, and return its answer. If the call is cancelled first,
        cancel the request."""
        send(id="q-1", **params["arguments"])
        while (answer := receive()).get("id") != "q-1":
            if answer.get("method") == "notifications/cancelled" and id is not None:
                send(method="notifications/cancelled", params={"requestId": "q-1"})
                return None
        return text_result(answer)

    def input(self, params: Any, id: Any) -> Any:
        """Ask the client for input, as the stateless era does it: by the result of the call. The
        call with the answers returns them."""
        if "inputResponses" in params:
            return text_result([params["inputResponses"], params.get("requestState")])
        needed = {"where": params["arguments"]}
        return {"resultType": "input_required", "inputRequests": needed, "requestState": "s"}

    def textual(self, params: Any, id: Any) -> Any:
        """Answer with the id as text."""
        send(id=str(id), result=text_result("textual"))

    def together(self, params: Any, id: Any) -> Any:
        """Wait for a second call, and send a request and both answers as one batch."""
        second = receive()
        request = {"jsonrpc": "2.0", "id": "q-2", "method": "ping"}
        answers = [
            {"jsonrpc": "2.0", "id": call_id, "result": text_result(text)}
            for call_id, text in ((second["id"], "second"), (id, "first"))
        ]
        os.write(1, json.dumps([request, *answers]).encode() + b"\n")

    def die(self, params: Any, id: Any) -> Any:
        os.write(2, b"I cannot go on\n")
        os._exit(7)

    def deaf(self, params: Any, id: Any) -> Any:
        """From now on, ignore the end of stdin and SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        send(id=id, result=text_result(os.getpid()))
        while True:
            time.sleep(60)


def tools(params: Any) -> Any:
    """Return a page of the list of tools: five tools, from the cursor on."""
    names = [name for name in vars(Tools) if not name.startswith("_")] + ADDED_TOOLS
    listed = [
        {"name": NEW_NAMES.get(name, name), "inputSchema": {"type": "object"}} for name in names
    ]
    listed += BEHAVIOUR.get("lies", [])
    for tool in listed:
        if tool.get("name") == "typed":
            tool["outputSchema"] = SCHEMA
    if BEHAVIOUR.get("pages") == "for ever":
        start = int(params.get("cursor", 0))
        return {"tools": listed[:1], "nextCursor": str(start + 1)}
    start = int(params.get("cursor", 0))
    next_page = {"nextCursor": str(start + 5)} if start + 5 < len(listed) else {}
    return {"tools": listed[start : start + 5]} | next_page


def with_progress(answer: Any) -> Any:
    """Report one step of progress first, if the client requested progress."""

    def report(params: Any) -> Any:
        token = (params.get("_meta") or {}).get("progressToken")
        if token is not None:
            progress = {"progressToken": token, "progress": 1, "total": 1}
            send(method="notifications/progress", params=progress)
        return answer(params)

    return report


def page(member: str, item: Any) -> Any:
    """Return a function that answers with a list of two pages, with one item each."""

    def answer(params: Any) -> Any:
        if "cursor" in params:
            return {member: [item | {"name": "second"}]}
        return {member: [item | {"name": "first"}], "nextCursor": "2"}

    return answer


METHODS = {
    "tools/list": tools,
    "resources/list": page("resources", {"uri": "a:b"}),
    "resources/templates/list": page("resourceTemplates", {"uriTemplate": "a:{b}"}),
    "resources/read": with_progress(
        lambda params: {"contents": [{"uri": params["uri"], "text": "read"}]}
    ),
    "resources/subscribe": lambda params: {},
    "resources/unsubscribe": lambda params: {},
    "prompts/list": page("prompts", {}),
    "prompts/get": with_progress(lambda params: {"messages": [params["arguments"]]}),
    "completion/complete": lambda params: {"completion": {"values": [params["argument"]["value"]]}},
    "logging/setLevel": lambda params: {},
    "ping": lambda params: {},
}


def serve(message: Any) -> Any:
    """Return the result, None for no answer, or ("error", code, text)."""
    method, params = message["method"], message.get("params") or {}
    if method in BEHAVIOUR.get("silent", ()):
        return None
    if STATELESS:
        meta = params.get("_meta") or {}
        if meta.get(f"{PREFIX}protocolVersion") != "2026-07-28":
            return "error", -32602, "no envelope"
        if method == "server/discover":
            capabilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        if method == "subscriptions/listen":
            SUBSCRIPTIONS.append(message["id"])
            return None
    elif method == "server/discover":
        if BEHAVIOUR.get("discover") == "die":
            os._exit(3)
        return None if BEHAVIOUR.get("discover") == "silent" else ("error", -32601, "what?")
    elif method == "initialize":
        capabilities = {
            "tools": {"listChanged": True},
            "logging": {},
            "resources": {},
            "prompts": {},
        }
        server_info = {"name": "child", "version": "1"}
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": server_info,
        }
    if method == "tools/call":
        tool = getattr(Tools(), params["name"], None)
        return ("error", -32602, "no such tool") if tool is None else tool(params, message["id"])
    if method not in METHODS:
        return "error", -32601, f"no method {method}"
    return METHODS[method](params)


def main() -> None:
    if "banner" in BEHAVIOUR:
        os.write(1, BEHAVIOUR["banner"].encode())
    while True:
        message = receive()
        if "id" not in message or "method" not in message:
            continue
        answer = serve(message)
        if type(answer) is tuple:
            send(id=message["id"], error={"code": answer[1], "message": answer[2]})
        elif answer is not None:
            send(id=message["id"], result=answer)


if __name__ == "__main__":
    main()
