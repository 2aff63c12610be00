"""Small morphir extensions, for tests that need one with a certain behaviour.

`morphir_program` returns the source. A test runs it with `python -c`, or writes it into a file.
"""

from collections.abc import Sequence
from textwrap import dedent, indent
from typing import Any

_PROGRAM = """\
import json, os, sys
{setup}
for line in sys.stdin:
    request = json.loads(line)
    method, params = request["method"], request.get("params")
    result, error = {{}}, None
    if method == "initialize":
        pass
    elif method == "capabilities":
        result = {tools!r}
    else:
{answer}
    outcome = {{"result": result}} if error is None else {{"error": error}}
    print(json.dumps({{"id": request["id"], **outcome}}), flush=True)
"""


def morphir_program(
    answer: str = "pass", *, tools: Sequence[dict[str, Any]] = (), setup: str = ""
) -> str:
    """Return the source of an extension with these tools, which answers its handshake.

    answer  statements for any other request: they can read `method` and `params`, and set `result`
            or `error`; the result is {} if they set neither
    setup   statements that run once, before the first request
    """
    statements = indent(dedent(answer).strip("\n"), " " * 8)
    return _PROGRAM.format(setup=dedent(setup), tools=list(tools), answer=statements)
