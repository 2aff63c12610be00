"""The help of the error for an extension that was ended by a limit."""

import sys

import pytest

import exthost
from exthost.errors import ExtensionGone

# An extension that answers its handshake, and computes for ever after the request "spin".
PROGRAM = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    while request["method"] == "spin":
        pass
    if "id" in request:
        result = [] if request["method"] == "capabilities" else {}
        print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


async def test_the_help_advises_to_raise_the_limit_that_ended_the_extension() -> None:
    command = [sys.executable, "-S", "-E", "-c", PROGRAM]
    async with exthost.connect(command, dialect="morphir", limits={"cpu": "1s"}) as extension:
        with pytest.raises(ExtensionGone) as caught:
            await extension.call("spin", timeout=100)
    assert "limits.cpu is 1 s" in caught.value.message
    assert caught.value.help == "raise that limit, or make the extension use less"
