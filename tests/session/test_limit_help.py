"""The help of an extension that a limit has ended."""

import sys

import pytest

import exthost
from exthost.errors import ExtensionGone

# Answers its handshake, and computes for ever at any other request.
SPINNING = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    while request["method"] == "spin":
        pass
    if "id" in request:
        result = [] if request["method"] == "capabilities" else {}
        print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


async def test_the_error_for_an_extension_that_a_limit_ended_advises_to_raise_it() -> None:
    command = [sys.executable, "-S", "-E", "-c", SPINNING]
    async with exthost.connect(command, dialect="morphir", limits={"cpu": "1s"}) as extension:
        with pytest.raises(ExtensionGone) as caught:
            await extension.call("spin", timeout=100)
    assert "limits.cpu is 1 s" in caught.value.message
    assert caught.value.help == "raise that limit, or make the extension use less"
