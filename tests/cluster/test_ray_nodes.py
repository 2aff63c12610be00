"""`RayNodes`, through which the host lists the nodes of a Ray cluster and starts agents on them.

Only a separate process, the driver (`ray_driver.py`), imports Ray. It gets requests as lines of
JSON, and answers with the number of the request. The tests need no Ray: they replace the driver by
one of the programs below, or the module `ray` by another.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.cluster import ray_nodes
from exthost.cluster.local_nodes import package_root
from exthost.cluster.placer import AgentStart, HeldPlace, Node, PlaceRequest
from exthost.cluster.ray_nodes import RayNodes
from exthost.errors import SpawnFailed
from tests.extensions.harness import error_of

# A driver that answers two requests and exits. It writes its variables and requests into a file.
DRIVER = """
import json, os, sys
sys.stdin.readline()  # the runtime environment
print(json.dumps({"number": 0, "result": None}), flush=True)
log = open(__file__ + ".log", "w", buffering=1)
print(json.dumps(dict(os.environ)), file=log)
for n in range(2):
    request = json.loads(sys.stdin.readline())
    print(json.dumps(request), file=log)
    print(json.dumps({"number": request["number"], "result": None}), flush=True)
"""


# A driver that answers no request.
SILENT_DRIVER = """
import json, sys
print(json.dumps({"number": 0, "result": None}), flush=True)
sys.stdin.read()
"""


# A driver that answers each request with Ray's errors.
FAILING_DRIVER = """
import json, sys
sys.stdin.readline()  # the runtime environment
print(json.dumps({"number": 0, "result": None}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    kind = "runtime_env" if request["do"] == "start_agent" else "error"
    print(json.dumps({"number": request["number"], kind: "the reason of Ray"}), flush=True)
"""


# A driver that holds resources on a node "b", which is not in the first list of nodes. LATER is the
# answer to other lists. The numbers of released requests are written into a file.
JOINING_DRIVER = """
import json, sys
sys.stdin.readline()  # the runtime environment
print(json.dumps({"number": 0, "result": None}), flush=True)
log = open(__file__ + ".log", "w", buffering=1)
print("{}", file=log)  # instead of its variables
answers = {"nodes": {"result": []}, "hold": {"result": {"node": "b", "variables": {}}}}
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "release":
        print(request["id"], file=log)
    else:
        print(json.dumps({"number": request["number"], **answers[request["do"]]}), flush=True)
    if request["do"] == "hold":
        answers["nodes"] = LATER
"""


# A driver that Ray does not admit, because it has presented no token.
UNAUTHENTICATED_DRIVER = """
import json, sys
for _ in range(2):  # as Ray does
    print("gcs_client.cc: InvalidAuthToken: token is missing", file=sys.stderr, flush=True)
print(json.dumps({"number": 0, "error": "no cluster"}), flush=True)
"""


def make_nodes(folder: Path, monkeypatch: pytest.MonkeyPatch, driver: str = DRIVER) -> RayNodes:
    """Return a RayNodes that runs this driver, from a package `exthost` in the folder."""
    package = folder / "exthost" / "cluster"
    package.mkdir(parents=True)
    for path in (package.parent / "__init__.py", package / "__init__.py"):
        path.touch()
    (package / "ray_driver.py").write_text(driver)
    monkeypatch.setattr(ray_nodes, "package_root", lambda: str(folder))
    return RayNodes("local")


def read_driver_log(folder: Path) -> list[Any]:
    """Return the variables of the driver, and its requests."""
    (file,) = folder.rglob("*.log")
    return [json.loads(line) for line in file.read_text().splitlines()]


NODE = Node(id="a", name="a")
START = AgentStart(address="127.0.0.1:1", nonce="n")


def test_a_cluster_that_needs_a_token_is_reported_with_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpawnFailed) as caught:
        make_nodes(tmp_path, monkeypatch, UNAUTHENTICATED_DRIVER)
    help = caught.value.help or ""
    assert "RAY_AUTH_MODE=token" in help and help.count("InvalidAuthToken") == 1


async def test_a_start_fails_if_the_driver_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = make_nodes(tmp_path, monkeypatch)
    try:
        await nodes.start_agent(NODE, START)
        assert await nodes._ask({"do": "nodes"}) is None
        nodes._process.wait()
        assert nodes.has_ended
        await nodes.start_agent(NODE, START)
        assert "has ended" in await nodes.wait_agent_ended(NODE, "")
        error = await error_of(nodes.nodes())
        assert error.code == "X0424" and "has ended" in error.message
    finally:
        await nodes.close()


async def test_errors_of_ray_are_reported_with_their_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = make_nodes(tmp_path, monkeypatch, FAILING_DRIVER)
    try:
        error = await error_of(nodes.nodes())
        assert error.code == "X0424" and "the reason of Ray" in error.message
        await nodes.start_agent(NODE, START)
        error = await error_of(nodes.wait_agent_ended(NODE, START.image))
        assert error.code == "X1990" and "the reason of Ray" in error.message
    finally:
        await nodes.close()


async def test_a_request_without_an_answer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_nodes, "_LIST_SECONDS", 0.05)
    nodes = make_nodes(tmp_path, monkeypatch, SILENT_DRIVER)
    try:
        error = await error_of(nodes.nodes())
        assert error.code == "X0424" and "did not answer within 0.05 s" in error.message
    finally:
        await nodes.close()


@pytest.mark.parametrize(
    ("later", "is_held"),
    [({"result": [{"id": "a", "name": "a"}]}, True), ({"error": "the head is gone"}, False)],
)
async def test_a_node_that_joins_and_leaves_while_resources_are_held_there(
    later: dict[str, object], is_held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = JOINING_DRIVER.replace("LATER", repr(later))
    nodes = make_nodes(tmp_path, monkeypatch, driver)
    holding = nodes.hold(PlaceRequest(id=7, preferred=None, resources={"CPU": 1}))
    try:
        if is_held:
            assert (await holding).node.id == "b"
        else:
            assert "the head is gone" in (await error_of(holding)).message
    finally:
        await nodes.close()
    assert read_driver_log(tmp_path)[1:] == ([] if is_held else [7])


async def test_a_request_can_be_cancelled_when_its_answer_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = make_nodes(tmp_path, monkeypatch, SILENT_DRIVER)
    try:
        request = asyncio.ensure_future(nodes.nodes())
        await asyncio.sleep(0)  # the request is sent
        [answer] = nodes._answers.values()
        answer.set_result([])
        # In the iteration in which the answer arrives.
        asyncio.get_running_loop().call_soon(request.cancel)
        await asyncio.wait([request])
        assert request.cancelled()
    finally:
        await nodes.close()


async def test_the_driver_gets_no_variable_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cr3t")
    nodes = make_nodes(tmp_path, monkeypatch)
    try:
        await nodes.start_agent(NODE, START)
        await nodes._agents[NODE.id, ""]
        await nodes.release(HeldPlace(id=7, node=NODE))
        await asyncio.to_thread(nodes._process.wait)
    finally:
        await nodes.close()
    environ, start, release = read_driver_log(tmp_path)
    assert "API_TOKEN" not in environ
    assert start.keys() == {"number", "do", "node", "address", "nonce", "certificates", "image"}
    assert release.keys() == {"number", "do", "id"}


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("raise ModuleNotFoundError('ray')", "not installed: pip install 'exthost[ray]'"),
        (
            (
                "class exceptions: RuntimeEnvSetupError = KeyError\n"
                "def init(**_): raise RuntimeError('Version mismatch: Ray 2.9')"
            ),
            "no cluster at 'here:1': Version mismatch: Ray 2.9",
        ),
        ("import os; os.write(2, b'no memory\\n'); os._exit(3)", "has ended"),
    ],
)
def test_the_reason_why_ray_cannot_be_used_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, message: str
) -> None:
    (tmp_path / "ray.py").write_text(module)
    path = f"{tmp_path}:{package_root()}"
    monkeypatch.setattr(ray_nodes, "package_root", lambda: path)
    with pytest.raises(SpawnFailed) as caught:
        RayNodes("here:1")
    assert caught.value.code == "X0424" and message in caught.value.message


@pytest.mark.parametrize(
    ("address", "reason", "next_step"),
    [
        ("10.0.0.5:6379", "no node of Ray runs on this machine", "ray://HEAD:10001"),
        ("ray://10.0.0.5:10001", "Ray's client is not installed", "pip install 'ray[client]'"),
        ("auto", "Starting Ray client server failed", "GRPC_ENABLE_FORK_SUPPORT=0"),
    ],
)
def test_a_machine_that_cannot_use_an_address_is_reported_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, reason: str, next_step: str
) -> None:
    # A Ray without its client, on a machine without a node, for which the driver does not wait. If
    # it is used nevertheless, it fails as the server of Ray's client sometimes does.
    services = tmp_path / "ray" / "_private" / "services.py"
    services.parent.mkdir(parents=True)
    services.write_text("def find_node_ids(): return set()\n")
    (tmp_path / "ray" / "__init__.py").write_text(
        "import sys\n"
        "sys.modules['grpc'] = None\n"
        "sys.modules['__main__']._NODE_SECONDS = 0\n"
        "class exceptions: RuntimeEnvSetupError = KeyError\n"
        "def init(**_): raise ConnectionAbortedError('Starting Ray client server failed.')\n"
    )
    path = f"{tmp_path}:{package_root()}"
    monkeypatch.setattr(ray_nodes, "package_root", lambda: path)
    with pytest.raises(SpawnFailed) as caught:
        RayNodes(address)
    assert caught.value.code == "X0424" and reason in caught.value.message
    assert next_step in (caught.value.help or "")


async def test_a_forked_copy_gives_up_the_pipes_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = make_nodes(tmp_path, monkeypatch, SILENT_DRIVER)
    given_up: list[int] = []
    monkeypatch.setattr(ray_nodes, "replace_by_null", given_up.extend)
    process = nodes._process
    pipes = (process.stdin, process.stdout, process.stderr)
    try:
        nodes.disown()
        assert given_up == [pipe.fileno() for pipe in pipes if pipe is not None]
        assert len(given_up) == len(pipes)
        assert process.returncode == 0
    finally:
        process.returncode = None
        await nodes.close()


def test_a_driver_ends_with_its_host_while_ray_tries_to_connect(tmp_path: Path) -> None:
    # A module that reports that it connects, and never succeeds.
    (tmp_path / "ray.py").write_text(
        "import threading\n"
        "class exceptions: RuntimeEnvSetupError = KeyError\n"
        "def init(**_): print('connecting', flush=True); threading.Event().wait()\n"
    )
    driver = subprocess.Popen(
        [sys.executable, "-P", "-m", "exthost.cluster.ray_driver", "here:1"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": f"{tmp_path}:{package_root()}"},
    )
    with driver:
        assert driver.stdin is not None and driver.stderr is not None
        driver.stdin.write(b"{}\n")
        driver.stdin.flush()
        assert driver.stderr.readline() == b"connecting\n"
        driver.stdin.close()
        try:
            assert driver.wait(30) == 1
        finally:
            driver.kill()


def test_a_driver_continues_after_an_error_while_ray_is_connected(tmp_path: Path) -> None:
    # A package that connects at once, and then fails to list the nodes.
    client = tmp_path / "ray" / "util" / "client"
    client.mkdir(parents=True)
    (client / "__init__.py").write_text("ray = None\n")
    (client.parent / "__init__.py").touch()
    (tmp_path / "ray" / "_private.py").write_text("state = None\n")
    (tmp_path / "ray" / "__init__.py").write_text(
        "class exceptions: RuntimeEnvSetupError = KeyError\n"
        "def init(**_): pass\n"
        "def remote(**_): return lambda function: function\n"
        "def nodes(): raise OSError('no answer')\n"
        "def shutdown(): pass\n"
    )
    driver = subprocess.Popen(
        [sys.executable, "-P", "-m", "exthost.cluster.ray_driver", "local"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": f"{tmp_path}:{package_root()}"},
    )
    with driver:
        assert driver.stdin is not None and driver.stdout is not None
        try:
            driver.stdin.write(b"{}\n")
            driver.stdin.flush()
            assert json.loads(driver.stdout.readline()) == {"number": 0, "result": None}
            for number in (1, 2):
                driver.stdin.write(b'{"number": %d, "do": "nodes"}\n' % number)
                driver.stdin.flush()
                answer = json.loads(driver.stdout.readline())
                assert answer == {"number": number, "error": "OSError: no answer"}
            driver.stdin.close()
            assert driver.wait(30) == 0
        finally:
            driver.kill()
