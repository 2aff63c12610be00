"""An MCP server that follows the commands of a test. Standard library only; run with -S -E.

    mcp_child.py '{"era": "handshake", "heard": FILE, …}'

    era        "handshake" (default), or "stateless", which checks the `_meta` of each request
    discover   "die" or "silent": how the server reacts to server/discover
    pages      "for ever": the list of tools has no end
    banner     text that it prints first
    silent     methods that it never answers
    lies       further entries of the list of tools, which may be invalid
    heard      a file to which it writes every line that it reads

Each method of `Tools` is a tool.
"""

import json
import os
import signal
import sys
import time
from typing import Any

TOLD: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
STATELESS = TOLD.get("era") == "stateless"
PREFIX = "io.modelcontextprotocol/"
SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
HEARD: list[Any] = []
LISTENING: list[Any] = []
EXTRA: list[str] = []
NAMES: dict[str, str] = {}  # new names of tools that were renamed


def send(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def hear() -> Any:
    line = sys.stdin.readline()
    if not line:
        for id in LISTENING:  # as the official package's servers do
            send(id=id, error={"code": -32000, "message": "Connection closed"})
        sys.exit(0)
    if "heard" in TOLD:
        with open(TOLD["heard"], "a", encoding="utf-8") as kept:  # noqa: PTH123 - starts faster
            kept.write(line)
    HEARD.append(json.loads(line))
    return HEARD[-1]


def words(text: Any) -> Any:
    return {"content": [{"type": "text", "text": text if type(text) is str else json.dumps(text)}]}


class Tools:
    """Each method is a tool. It gets the params of tools/call."""

    def echo(self, params: Any, id: Any) -> Any:
        return words(params["arguments"])

    def typed(self, params: Any, id: Any) -> Any:
        given = params["arguments"]
        return words("typed") | ({"structuredContent": given["as"]} if "as" in given else given)

    def steps(self, params: Any, id: Any) -> Any:
        """Report progress `times` times, and answer unless `end` is false. With `asks` each step
        waits for the answer to a ping, so that the host has received the progress."""
        given = params["arguments"]
        token = params["_meta"]["progressToken"]
        for step in range(1, given["times"] + 1):
            about = {"progressToken": token, "progress": step, "total": given["times"]}
            send(method="notifications/progress", params=about | {"message": f"step {step}"})
            if given.get("asks"):
                self.ask({"arguments": {"method": "ping"}}, None)
        return words("done") if given.get("end", True) else None

    def hang(self, params: Any, id: Any) -> Any:
        return None

    def notify(self, params: Any, id: Any) -> Any:
        """Send this notification, before the result."""
        send(**params["arguments"])
        return words("notified")

    def flood(self, params: Any, id: Any) -> Any:
        """Send this notification many times, and then the result."""
        message = json.dumps({"jsonrpc": "2.0", **params["arguments"]["what"]}).encode() + b"\n"
        for _ in range(params["arguments"]["times"] // 100):
            os.write(1, message * 100)
        return words("flooded")

    def rename(self, params: Any, id: Any) -> Any:
        """Rename a tool before the result is sent, and notify the host. Wait until it has listed
        the tools again."""
        NAMES["rename"] = "renamed"
        send(method="notifications/tools/list_changed")
        while (message := hear()).get("method") != "tools/list":
            pass
        send(id=message["id"], result=tools(message.get("params") or {}))
        return words("done under the old name")

    def heard(self, params: Any, id: Any) -> Any:
        return words(HEARD)

    def environ(self, params: Any, id: Any) -> Any:
        return words(dict(os.environ))

    def change(self, params: Any, id: Any) -> Any:
        """Add tools, with a notification for each."""
        for name in params["arguments"]["add"]:
            EXTRA.append(name)
            meta = {"_meta": {f"{PREFIX}subscriptionId": LISTENING[0]}} if STATELESS else {}
            if not STATELESS or LISTENING:
                send(method="notifications/tools/list_changed", params=meta)
        return words("changed")

    def unlisten(self, params: Any, id: Any) -> Any:
        """Add a tool without a notification, and end or refuse the open subscriptions."""
        EXTRA.append(f"untold{len(EXTRA)}")
        over = {"error": params["arguments"]["no"]} if params["arguments"] else {"result": {}}
        send(id=LISTENING.pop(), **over)
        return words("over")

    def ask(self, params: Any, id: Any) -> Any:
        """Send this request to the host, and return its answer."""
        send(id="q-1", **params["arguments"])
        while (answer := hear()).get("id") != "q-1":
            pass
        return words(answer)

    def input(self, params: Any, id: Any) -> Any:
        if "inputResponses" in params:
            return words([params["inputResponses"], params.get("requestState")])
        needed = {"where": params["arguments"]}
        return {"resultType": "input_required", "inputRequests": needed, "requestState": "s"}

    def textual(self, params: Any, id: Any) -> Any:
        """Answer with the id as text."""
        send(id=str(id), result=words("textual"))

    def together(self, params: Any, id: Any) -> Any:
        """Wait for a second call, and send a request and both answers as one batch."""
        second = hear()
        asked = {"jsonrpc": "2.0", "id": "q-2", "method": "ping"}
        answers = [
            {"jsonrpc": "2.0", "id": one, "result": words(text)}
            for one, text in ((second["id"], "second"), (id, "first"))
        ]
        os.write(1, json.dumps([asked, *answers]).encode() + b"\n")

    def die(self, params: Any, id: Any) -> Any:
        os.write(2, b"I cannot go on\n")
        os._exit(7)

    def deaf(self, params: Any, id: Any) -> Any:
        """From now on, ignore the end of stdin and SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        send(id=id, result=words(os.getpid()))
        while True:
            time.sleep(60)


def tools(params: Any) -> Any:
    names = [name for name in vars(Tools) if not name.startswith("_")] + EXTRA
    listed = [{"name": NAMES.get(name, name), "inputSchema": {"type": "object"}} for name in names]
    listed += TOLD.get("lies", [])
    for tool in listed:
        if tool.get("name") == "typed":
            tool["outputSchema"] = SCHEMA
    if TOLD.get("pages") == "for ever":
        at = int(params.get("cursor", 0))
        return {"tools": listed[:1], "nextCursor": str(at + 1)}
    at = int(params.get("cursor", 0))
    more = {"nextCursor": str(at + 5)} if at + 5 < len(listed) else {}
    return {"tools": listed[at : at + 5]} | more


def with_progress(answer: Any) -> Any:
    """Report one step of progress first, if the client requested progress."""

    def report(params: Any) -> Any:
        token = (params.get("_meta") or {}).get("progressToken")
        if token is not None:
            about = {"progressToken": token, "progress": 1, "total": 1}
            send(method="notifications/progress", params=about)
        return answer(params)

    return report


def page(member: str, item: Any) -> Any:
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
    if method in TOLD.get("silent", ()):
        return None
    if STATELESS:
        meta = params.get("_meta") or {}
        if meta.get(f"{PREFIX}protocolVersion") != "2026-07-28":
            return "error", -32602, "no envelope"
        if method == "server/discover":
            has = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
            return {"supportedVersions": ["2026-07-28"], "capabilities": has}
        if method == "subscriptions/listen":
            LISTENING.append(message["id"])
            return None
    elif method == "server/discover":
        if TOLD.get("discover") == "die":
            os._exit(3)
        return None if TOLD.get("discover") == "silent" else ("error", -32601, "what?")
    elif method == "initialize":
        has = {"tools": {"listChanged": True}, "logging": {}, "resources": {}, "prompts": {}}
        about = {"name": "child", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": has, "serverInfo": about}
    if method == "tools/call":
        tool = getattr(Tools(), params["name"], None)
        return ("error", -32602, "no such tool") if tool is None else tool(params, message["id"])
    if method not in METHODS:
        return "error", -32601, f"no method {method}"
    return METHODS[method](params)


def main() -> None:
    if "banner" in TOLD:
        os.write(1, TOLD["banner"].encode())
    while True:
        message = hear()
        if "id" not in message or "method" not in message:
            continue
        answer = serve(message)
        if type(answer) is tuple:
            send(id=message["id"], error={"code": answer[1], "message": answer[2]})
        elif answer is not None:
            send(id=message["id"], result=answer)


if __name__ == "__main__":
    main()
