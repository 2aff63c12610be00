"""An extension that runs the Python code of a request, and answers with its result.

The trials of the sandbox use it to do what a hostile extension could do. It speaks morphir: each
line is a JSON object with `id`, `method` and `params`. It imports only the standard library, so
that any Python can run it.
"""

import json
import os
import sys
import traceback

NAMESPACE: dict[str, object] = {}


def explore(code: str, facts: object) -> object:
    """Run code. Return the value of `result`, or the exception as {"raised", "errno", "text"}."""
    NAMESPACE.update(facts=facts, result=None)
    try:
        exec(code, NAMESPACE)
    except BaseException as error:
        return {
            "raised": type(error).__name__,
            "errno": getattr(error, "errno", None),
            "text": traceback.format_exc(),
        }
    return NAMESPACE["result"]


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "jsonrpc" in request:
            sys.exit("this is morphir, which has no jsonrpc member")
        if request["method"] == "explore":
            result = explore(request["params"]["code"], request["params"].get("facts"))
        elif request["method"] == "capabilities":
            result = []
        else:
            result = request.get("params")
        answer = json.dumps({"id": request["id"], "result": result}) + "\n"
        os.write(1, answer.encode())


main()
