#!/usr/bin/env python3
"""A morphir extension in plain Python: one JSON object a line, in and out. No dependencies.

By hand:  echo '{"id":1,"method":"shout","params":{"text":"hi"}}' | ./text.py
"""

import json
import sys
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: dict[str, Any] = {
    "echo": ("Return its parameters", lambda params: params, {}),
    "shout": ("Upper case", lambda params: {"text": params["text"].upper()}, TEXT),
    "count": ("Count words", lambda params: {"words": len(params["text"].split())}, TEXT),
}


def answer(method: str, params: Any) -> Any:
    if method == "initialize":
        return {"status": "ready"}
    if method == "capabilities":
        return [
            {"name": name, "description": about, "params_schema": schema}
            for name, (about, _, schema) in TOOLS.items()
        ]
    return TOOLS[method][1](params)


for line in sys.stdin:
    request = json.loads(line)
    try:
        reply = {"id": request["id"], "result": answer(request["method"], request.get("params"))}
    except Exception as error:
        reply = {"id": request["id"], "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(reply), flush=True)
