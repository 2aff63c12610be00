"""The program that MCP's conformance suite runs as a client: `conformance_client.py URL`.

The suite starts a server at the URL, and checks what the client sends
(`test_client_conformance.py`).

It runs a host whose config has the URL, and calls each tool of the server. In a scenario with a
login, `exthost bridge --login` is run first, and again if a call needs more rights; the "browser"
requests the page of the login, and follows its redirect.
"""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import exthost
from exthost.errors import ExthostError

# The name of the scenario, which the suite sets.
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
# An argument for each type of a JSON Schema; any other type gets a text.
ARGUMENTS = {"integer": 5, "number": 5, "boolean": True, "array": [], "object": {}}
# Requests a page, and follows its redirect.
REQUEST_PAGE = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=20).read()"
BROWSER = shlex.join([sys.executable, "-c", REQUEST_PAGE, "%s"])
LOGIN_SECONDS = 60


def arguments_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of the types that a schema has."""
    properties = schema.get("properties", {})
    return {name: ARGUMENTS.get(value.get("type"), "text") for name, value in properties.items()}


async def accept_defaults(params: dict[str, Any]) -> dict[str, Any]:
    """Answer an elicitation with the defaults of its form."""
    fields = params["requestedSchema"]["properties"]
    content = {name: field["default"] for name, field in fields.items() if "default" in field}
    return {"action": "accept", "content": content}


def log_in(url: str, environ: dict[str, str]) -> None:
    # A scenario may expect that the login is refused.
    subprocess.run(
        [sys.executable, "-m", "exthost", "bridge", url, "--login"],
        stdin=subprocess.DEVNULL,
        env=environ | {"BROWSER": BROWSER},
        timeout=LOGIN_SECONDS,
        check=False,
    )


async def call_tools(url: str, environ: dict[str, str], on_failure: Callable[[], None]) -> None:
    """Call each tool of the server. A call that fails is repeated once, after `on_failure`; the
    server of a scenario may refuse it again."""
    config = {"mcp_servers": {"far": {"url": url, "limits": {"start": "60s", "handshake": "60s"}}}}
    # With a handler, the host tries the handshake era first.
    handlers = {"elicitation/create": accept_defaults} if SCENARIO.startswith("elicit") else {}
    async with exthost.Host.from_config(config, environ=environ, handlers=handlers) as host:
        server = host["far"]
        for name, tool in server.tools.items():
            arguments = arguments_for(tool.input_schema)
            try:
                await server.call_tool(name, arguments)
            except ExthostError:
                on_failure()
                await server.restart()
                with suppress(ExthostError):
                    await server.call_tool(name, arguments)


async def main(url: str) -> None:
    has_login = SCENARIO.startswith("auth/")
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "EXTHOST_HOME": folder}

        def log_in_if_needed() -> None:
            if has_login:
                log_in(url, environ)

        log_in_if_needed()
        await call_tools(url, environ, log_in_if_needed)


asyncio.run(main(sys.argv[1]))
