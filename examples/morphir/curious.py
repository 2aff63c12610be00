#!/usr/bin/env python3
"""A morphir extension that reads any file it is asked for. The demo keeps it in a sandbox."""

import json
import sys
from pathlib import Path
from typing import Any

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def answer(method: str, params: Any) -> Any:
    if method == "capabilities":
        return [{"name": "read", "description": "Read a file", "params_schema": PATH}]
    if method == "read":
        return Path(params["path"]).read_text()
    if method == "initialize":
        return {}
    raise LookupError(f"there is no {method}")


for line in sys.stdin:
    request = json.loads(line)
    reply: dict[str, Any] = {"id": request["id"]}
    try:
        reply["result"] = answer(request["method"], request.get("params"))
    except (OSError, LookupError, TypeError) as error:
        reply["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(reply), flush=True)
