"""A language server of a few lines, for the tests: it explains words and finds the word "bug"."""

import json
import os
import sys

documents: dict[str, str] = {}
waiting: set[object] = set()  # the requests that wait until they are cancelled


def send(message: dict[str, object]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def receive() -> dict[str, object]:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if not length:
        sys.exit(0)
    return json.loads(sys.stdin.buffer.read(length))


def word_at(text: str, line: int, character: int) -> str:
    words = text.splitlines()[line]
    start = words.rfind(" ", 0, character) + 1
    return words[start:].split()[0]


def publish(uri: str) -> None:
    found = [
        {"message": "a bug", "range": {"start": {"line": at, "character": line.index("bug")}}}
        for at, line in enumerate(documents[uri].splitlines())
        if "bug" in line
    ]
    send(
        {"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": found}}
    )


def reply(id: object, method: str, params: dict[str, dict[str, object]]) -> None:
    if method == "initialize":
        capabilities = {"hoverProvider": True, "completionProvider": {}}
        send({"id": id, "result": {"capabilities": capabilities, "serverInfo": {"name": "small"}}})
        return
    if method == "shutdown":
        send({"id": id, "result": None})
        return
    if method not in ("textDocument/hover", "textDocument/completion"):
        send({"id": id, "error": {"code": -32601, "message": f"unknown method {method}"}})
        return
    text = documents.get(str(params["textDocument"]["uri"]))
    place = params.get("position", {})
    if text is None:
        send({"id": id, "error": {"code": -32602, "message": "the document is not open"}})
    elif method == "textDocument/hover":
        word = word_at(text, int(place["line"]), int(place["character"]))  # type: ignore[call-overload]
        if word == "crash":
            os._exit(3)
        if word == "wait":
            waiting.add(id)  # until it is cancelled
            return
        send({"id": id, "result": {"contents": {"kind": "plaintext", "value": f"the word {word}"}}})
    else:
        items = [{"label": word} for word in sorted(set(text.split()))]
        send({"id": id, "result": {"items": items}})


def main() -> None:
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params") or {}
        assert isinstance(params, dict)
        if method == "initialized":
            send({"id": "c1", "method": "workspace/configuration", "params": {"items": [{}, {}]}})
        elif method is None:
            answer = json.dumps(message.get("result"))
            send(
                {
                    "method": "window/logMessage",
                    "params": {"type": 3, "message": f"settings {answer}"},
                }
            )
        elif method == "textDocument/didOpen":
            document = params["textDocument"]
            documents[document["uri"]] = document["text"]
            publish(document["uri"])
        elif method == "textDocument/didClose":
            documents.pop(params["textDocument"]["uri"], None)
        elif method == "$/cancelRequest":
            if params["id"] not in waiting:
                continue
            send({"id": params["id"], "error": {"code": -32800, "message": "cancelled"}})
            send({"method": "window/logMessage", "params": {"type": 2, "message": "was cancelled"}})
        elif method == "exit":
            sys.exit(0)
        elif "id" in message:
            reply(message["id"], str(method), params)


main()
