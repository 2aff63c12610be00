"""The help of a call that timed out says what is true of the stray output before it."""

import sys

import pytest

import exthost
from exthost.errors import CallTimeout

# Writes as many stray lines as each request says, then answers it; it never answers "hang".
STRAYING = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or request["method"] == "hang":
        continue
    if request["method"] == "stray":
        print("stray\\n" * request["params"]["lines"], end="")
    result = [] if request["method"] == "capabilities" else {}
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        (3, "its answer may be among the 3 stray lines on stdout: the log has them"),
        (300, "among the 300 stray lines on stdout, or behind them and still unread"),
    ],
)
async def test_a_call_behind_stray_output_is_told_what_the_log_has(lines: int, advice: str) -> None:
    command = [sys.executable, "-S", "-E", "-c", STRAYING]
    async with exthost.connect(command, dialect="morphir") as extension:
        await extension.call("stray", {"lines": lines})
        with pytest.raises(CallTimeout) as caught:
            await extension.call("hang", timeout=0.1)
    assert advice in caught.value.help
    assert ("the log has the first 100" in caught.value.help) == (lines > 100)
