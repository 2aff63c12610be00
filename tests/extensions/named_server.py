"""An MCP server for tests whose name, tools and prompts are arguments.

    named_server.py ANSWER NAME TOOL…

For each TOOL there is a tool and a prompt with this name. Both answer with the text ANSWER. The
server uses the standard library only, and is run with `python -S -E`, so that it starts quickly.
"""

import json
import sys

answer, name, *tools = sys.argv[1:]
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "prompts": {}},
        "serverInfo": {"name": name, "version": "1"},
    },
    "tools/list": {"tools": [{"name": tool, "inputSchema": {"type": "object"}} for tool in tools]},
    "tools/call": {"content": [{"type": "text", "text": answer}]},
    "prompts/list": {"prompts": [{"name": tool} for tool in tools]},
    "prompts/get": {
        "messages": [{"role": "user", "content": {"type": "text", "text": answer}}],
    },
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
