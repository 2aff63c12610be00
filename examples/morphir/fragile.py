#!/usr/bin/env python3
"""A morphir extension with a mistake in it: it dies of a division by zero. The demo's patient."""

import json
import sys
from typing import Any

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}

for line in sys.stdin:
    request = json.loads(line)
    method, params = request["method"], request["params"]
    if method == "initialize":
        result: Any = {}
    elif method == "capabilities":
        result = [{"name": "divide", "description": "a / b", "params_schema": NUMBERS}]
    else:
        result = params["a"] / params["b"]
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
