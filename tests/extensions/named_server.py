"""An MCP server that reports any name, and has tools of any names. Standard library only; run with
-S -E.

    named_server.py ANSWER NAME TOOL…

Each tool answers with the text ANSWER.
"""

import json
import sys

answer, name, *tools = sys.argv[1:]
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": name, "version": "1"},
    },
    "tools/list": {"tools": [{"name": tool, "inputSchema": {"type": "object"}} for tool in tools]},
    "tools/call": {"content": [{"type": "text", "text": answer}]},
    "ping": {},
}

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    if request["method"] in RESULTS:
        outcome = {"result": RESULTS[request["method"]]}
    else:
        outcome = {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)
