"""`isolation = "call"`: each call has a process that never saw another call.

A start for each call would be slow, so processes must be forked from a template: a process that has
imported the modules of the program already. Where no template can be used, the setting is refused.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import Refused
from exthost.extension.extension import Extension
from tests.extensions.harness import SHORT_SHUTDOWN

# Answers each call with a random name of the process, and the number of calls that it has seen.
COUNTER = """
import json, os, sys
seen, name = 0, os.urandom(8).hex()
for line in sys.stdin:
    request = json.loads(line)
    result = []
    if request["method"] == "count":
        seen += 1
        result = [name, seen]
    os.write(1, json.dumps({"id": request["id"], "result": result}).encode() + b"\\n")
"""


NO_TEMPLATE = "X1925"


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the program COUNTER. No test uses the modules that another one has recorded."""
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))
    script = tmp_path / "counter.py"
    script.write_text(COUNTER)
    return str(script)


@asynccontextmanager
async def isolated(script: str, **settings: Any) -> AsyncIterator[Extension]:
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-E", script]}
    spec = spec_from_mapping({"name": "counter", "source": source, "isolation": "call", **settings})
    extension = Extension(spec, SHORT_SHUTDOWN)
    try:
        yield await extension.start()
    finally:
        await extension.close()


@pytest.mark.more
@pytest.mark.parametrize(
    "settings",
    [
        {"start_method": "template"},
        {"start_method": "execute"},
        {"start_method": "template", "permissions": {}},
    ],
)
@pytest.mark.parametrize("pool", [{"min": 1, "max": 1}, {"min": 2, "max": 4}])
async def test_each_call_has_a_process_of_its_own(
    counter: str, settings: dict[str, Any], pool: dict[str, int]
) -> None:
    async with isolated(counter, pool=pool, **settings) as extension:
        replies = [await extension.call("count") for _ in range(4)]
        replies += await asyncio.gather(*(extension.call("count") for _ in range(8)))
        assert extension.stats.crashes == 0
        assert extension.state == "ready"
    assert [seen for _, seen in replies] == [1] * 12
    assert len({name for name, _ in replies}) == 12


async def test_isolation_without_a_template_is_refused(counter: str) -> None:
    with pytest.raises(Refused, match="whole start") as caught:
        async with isolated(counter):
            pass
    assert caught.value.code == NO_TEMPLATE


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"permissions": {}, "sandbox": "landlock"}, "no namespaces"),
        ({"sha256": "0" * 64}, "pinned"),
        ({"permissions": {"max_memory": "64MiB"}}, "max_memory"),
    ],
)
async def test_isolation_is_refused_if_the_template_cannot_be_used(
    counter: str, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused, match=reason) as caught:
        async with isolated(counter, start_method="template", **settings):
            pass
    assert caught.value.code == NO_TEMPLATE
