"""The extension of the toy dialect `documents`, a test protocol like that of a language server.

After each opened document it sends a notification with the number of its problems: how often the
text has the word "wrong". For a text with the word "silence" it sends none. It imports only the
standard library, and is run with -S -E.
"""

import json
import os
import sys
from typing import Any

DOCUMENTS: dict[str, str] = {}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def send_problems(name: str) -> None:
    text = DOCUMENTS[name]
    # A notification about another document, which the host must not take for the right one.
    send(method="problems", params={"name": f"not {name}", "problems": ["another's"]})
    if "silence" not in text:
        send(method="problems", params={"name": name, "problems": text.split().count("wrong")})


for line in sys.stdin:
    message = json.loads(line)
    method, params, id = message["method"], message.get("params"), message.get("id")
    if method == "open":
        DOCUMENTS[params["name"]] = params["text"]
        send_problems(params["name"])
    elif method == "initialize":
        send(id=id, result={"name": "documents", "tools": []})
    elif method == "documents":
        send(id=id, result=sorted(DOCUMENTS))
    elif method == "die":
        os._exit(3)
    elif id is not None:
        send(id=id, error={"code": 7, "message": f"no {method}"})
