"""A morphir extension that runs the Python code of a request, and answers with its result. Trials
use it to do what a hostile extension could do. Standard library only."""

import json
import os
import sys
import traceback

WORLD: dict[str, object] = {}


def explore(code: str, facts: object) -> object:
    """Run code. Return the value of `result`, or the exception as {"raised", "errno", "text"}."""
    WORLD.update(facts=facts, result=None)
    try:
        exec(code, WORLD)
    except BaseException as error:
        return {
            "raised": type(error).__name__,
            "errno": getattr(error, "errno", None),
            "text": traceback.format_exc(),
        }
    return WORLD["result"]


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "jsonrpc" in asked:
            sys.exit("this is morphir, which has no jsonrpc member")
        if asked["method"] == "explore":
            result = explore(asked["params"]["code"], asked["params"].get("facts"))
        elif asked["method"] == "capabilities":
            result = []
        else:
            result = asked.get("params")
        answer = json.dumps({"id": asked["id"], "result": result}) + "\n"
        os.write(1, answer.encode())


main()
