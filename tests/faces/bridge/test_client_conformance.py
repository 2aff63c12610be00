"""A host with a remote MCP server passes the client scenarios of MCP's official conformance suite.

In a scenario the suite starts a server and runs a client with its URL, here
`conformance_client.py`: a host that reaches the server through the bridge (`exthost bridge`, see
`test_bridge.py`). The suite then checks the requests of the client. `make node` installs it.

A run takes some of the scenarios, which depend on the commit; EXTHOST_TEST_SAMPLE=all takes all.
"""

import asyncio
import os
import random
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

from tests.faults.trials import SAMPLE_VARIABLE, default_seed

TOOLS = Path(os.environ.get("EXTHOST_TEST_TOOLS", sys.prefix))
SUITE = TOOLS / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
NODE = TOOLS / "node/node_modules/node/bin/node"
CLIENT = Path(__file__).with_name("conformance_client.py")
# The limit of one scenario. It only bounds a scenario that hangs.
SUITE_SECONDS = 150

# Those that the client of the package `mcp`, which the bridge uses, passes without exthost.
SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "request-metadata",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "http-standard-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
)
# In every sample, since each needs other code of the bridge: calls, streams, questions, logins.
ALWAYS = ("tools_call", "sse-retry", "elicitation-sep1034-client-defaults", "auth/scope-step-up")
SAMPLE_SIZE = 4  # further scenarios


def sample_scenarios() -> list[str]:
    """Return the scenarios of this run."""
    seed = os.environ.get(SAMPLE_VARIABLE) or default_seed()
    if seed == "all":
        return list(SCENARIOS)
    others = [name for name in SCENARIOS if name not in ALWAYS]
    return [*ALWAYS, *random.Random(seed).sample(others, SAMPLE_SIZE)]


@pytest.mark.more
@pytest.mark.parametrize("scenario", sample_scenarios())
async def test_a_client_scenario_of_the_conformance_suite_passes(scenario: str) -> None:
    missing = [str(tool) for tool in (SUITE, NODE) if not tool.exists()]
    if missing:
        pytest.skip(f"not installed, `make node` installs them: {', '.join(missing)}")
    command = shlex.join([sys.executable, str(CLIENT)])
    with tempfile.TemporaryDirectory() as folder:  # the suite writes its results there
        process = await asyncio.create_subprocess_exec(
            *(str(NODE), str(SUITE), "client", "--scenario", scenario, "--command", command),
            *("--timeout", f"{SUITE_SECONDS * 1000}"),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(SUITE_SECONDS + 20):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
    assert "OVERALL: PASSED" in output.decode(), output.decode()[-4000:]
