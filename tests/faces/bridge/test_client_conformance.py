"""A host with a remote server passes the client scenarios of the official conformance suite.

SCENARIOS are those that the client of the package `mcp`, which the bridge uses, passes directly.
The suite, which `make node` installs, starts a server and runs `conformance_client.py` with its
URL. Each run has a sample of the scenarios, which depends on the commit; EXTHOST_TEST_SAMPLE=all
runs all of them.
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
SUITE_SECONDS = 150

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
# The ways of the bridge that differ most are in every sample.
ALWAYS = ("tools_call", "sse-retry", "elicitation-sep1034-client-defaults", "auth/scope-step-up")
SAMPLE_SIZE = 4


def sample_scenarios() -> list[str]:
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
