"""How the program of an extension gets to the nodes of a Ray cluster by Ray's own means, and the
devices that Ray assigns to its processes.

On a node, Ray runs an agent of exthost, and the agent starts the processes of the extension. Ray
can send a folder to the node (`working_dir` of its runtime environment), or run the agent in a
container with an image. The fixture `ray` is a cluster of three nodes on this machine.
"""

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import Extension
from tests.cluster.ray_loss import PLACE_SECONDS, RayCluster, ancestors_of
from tests.cluster.test_placement import entry
from tests.extensions.harness import error_of, hostile_command, wait_until
from tests.extensions.proc import descendants_of, environment_of, read_process

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: exthost[ray]"
    ),
]

IMAGE = "registry.example.org/text:1"

# A program with the part of podman's command line that Ray uses. It starts the command of the
# container as a process of this machine, and when that process ends, it kills all others of the
# container, as podman does. It records its arguments, and knows only the image IMAGE.
PODMAN = f"""#!{sys.executable}
import os, signal, subprocess, sys
from pathlib import Path

arguments = sys.argv[2:]
with Path(__file__).with_suffix(".log").open("a") as log:
    print(arguments, file=log)
environ, volumes, command = dict(os.environ), [], []
while arguments and arguments[0].startswith("-"):
    option = arguments.pop(0)
    if option == "-v":
        volumes.append(arguments.pop(0).split(":"))
    elif option == "--env":
        name, _, value = arguments.pop(0).partition("=")
        environ[name] = value
    elif option == "--entrypoint":
        command.append(arguments.pop(0))
if arguments.pop(0) != {IMAGE!r}:
    sys.exit("Error: no such image")
command += [text.replace("/shared", volumes[0][0]) for text in arguments]
command[0] = {sys.executable!r}
mark = f"CONTAINER={{os.getpid()}}"
environ["CONTAINER"] = str(os.getpid())
status = subprocess.run(command, env=environ).returncode
for folder in Path("/proc").glob("[0-9]*"):
    try:
        if mark.encode() in (folder / "environ").read_bytes().split(b"\\0"):
            os.kill(int(folder.name), signal.SIGKILL)
    except OSError:
        pass  # it has ended, or belongs to another user
sys.exit(status)
"""


@pytest.fixture
def podman(ray: RayCluster) -> Iterator[Path]:
    """Install PODMAN on the nodes, and yield the file in which it records its arguments."""
    program = ray.programs / "podman"
    program.write_text(PODMAN)
    program.chmod(0o755)
    yield program.with_suffix(".log")
    program.unlink()


def cluster_section(ray: RayCluster, **settings: Any) -> dict[str, Any]:
    """Return the section `[cluster]` of a config with these settings."""
    # The times are longer than the defaults, because the machine may be busy.
    times = {"place": f"{PLACE_SECONDS:g}s", "silence": "30s"}
    return {"address": ray.address, **times, **settings}


@asynccontextmanager
async def pool_of(
    ray: RayCluster, cluster: Mapping[str, Any], pool: Mapping[str, Any], **settings: Any
) -> AsyncIterator[Extension]:
    """Yield an extension on the cluster, which is started by its first call. At the end, check that
    nothing is left on the nodes."""
    pool = {"engine": "ray", "resources": {"CPU": 1}, **pool}
    config = {"extensions": [entry(pool=pool, **settings)], "cluster": cluster}
    async with exthost.Host.from_config(config) as host:
        yield host["a"]
    await asyncio.to_thread(asyncio.run, wait_until(ray.is_empty))


async def test_ray_sends_the_working_dir_and_the_variables_of_a_runtime_env(
    ray: RayCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "programs" / "text"
    folder.mkdir(parents=True)
    *command, program = hostile_command()
    copy = shutil.copy(program, folder)
    source = {"type": "process", "command": command[0], "args": [*command[1:], copy]}
    runtime_env = {
        "working_dir": str(folder.parent),
        "env_vars": {"MODEL": "of Ray", "LANGUAGE": "of Ray"},
    }
    env = {"LANGUAGE": "of the config"}
    cluster = cluster_section(ray, runtime_env=runtime_env)
    pool = {"files": "runtime-env"}
    async with pool_of(ray, cluster, pool, source=source, env=env) as extension:
        variables = await extension.call("environment")
        assert (variables["MODEL"], variables["LANGUAGE"]) == ("of Ray", "of the config")
        process = read_process(extension.stats.pid or 0)
        assert process is not None
        path = process.command.split()[-1]
        assert path.endswith("/text/hostile.py") and ray.has_file(path)


@pytest.mark.parametrize(
    ("runtime_env", "reason"),
    [
        ({"working_dir": "/no/such/folder"}, "/no/such/folder"),
        ({"env_vars": {"A": 1}}, "must be of type Dict[str, str]"),
        ({"conda": "no-such-environment"}, "conda"),  # found by the node
    ],
)
async def test_a_runtime_env_that_ray_refuses_is_reported_with_the_reason(
    ray: RayCluster, runtime_env: dict[str, Any], reason: str
) -> None:
    async with pool_of(ray, cluster_section(ray, runtime_env=runtime_env), {}) as extension:
        error = await error_of(extension.call("echo", 1))
        assert error.code == "X1990" and reason in error.message, error


async def test_an_extension_with_an_image_has_an_agent_in_a_container_that_lasts(
    ray: RayCluster, podman: Path
) -> None:
    other_pool = {"engine": "ray", "resources": {"CPU": 0.5}, "spread": False}
    pool = {**other_pool, "image": IMAGE}
    config = {
        "extensions": [entry(pool=pool), {**entry(pool=other_pool), "name": "b"}],
        "cluster": cluster_section(ray),
    }
    async with exthost.Host.from_config(config) as host:
        extension = host["a"]
        assert await host["b"].call("echo", 1) == await extension.call("echo", 1) == 1
        agents = ray.agents()
        assert sorted(map(is_in_container, agents)) == [False, True]
        await extension.restart()  # the agent in the container starts the new process, too
        assert await extension.call("echo", 2) == 2
        assert ray.agents() == agents and extension.stats.crashes == 0
    await asyncio.to_thread(asyncio.run, wait_until(ray.is_empty))
    assert IMAGE in await asyncio.to_thread(podman.read_text)


def is_in_container(pid: int) -> bool:
    """Return whether PODMAN has started this process, and the container cannot end before it,
    because the worker of Ray is its parent and waits for it."""
    commands = (process.command for id in ancestors_of(pid) if (process := read_process(id)))
    return any("/programs/podman run " in command for command in commands)


async def test_an_image_that_cannot_be_run_is_reported_with_the_reason(
    ray: RayCluster, podman: Path
) -> None:
    async with pool_of(
        ray, cluster_section(ray), {"image": "registry.example.org/missing"}
    ) as extension:
        error = await error_of(extension.call("echo", 1))
        assert error.code == "X1990" and "no such image" in error.message, error


async def test_each_process_has_the_gpus_of_its_own_bundle(ray: RayCluster) -> None:
    # As many processes as GPUs on one node, so that all GPUs of that node are used.
    pool = {"min": 2, "max": 2, "resources": {"GPU": 1}, "spread": False}
    async with pool_of(ray, cluster_section(ray), pool) as extension:
        await extension.start()
        await wait_until(lambda: extension.stats.processes == 2, PLACE_SECONDS)
        assert list(extension.stats.nodes.values()) == [2]
        assert find_gpus(ray) == {"0", "1"}


async def test_the_config_can_set_the_variable_of_gpus(ray: RayCluster) -> None:
    pool = {"resources": {"GPU": 2}}
    async with pool_of(ray, cluster_section(ray), pool) as extension:
        variables = await extension.call("environment")
        assert sorted(variables["CUDA_VISIBLE_DEVICES"].split(",")) == ["0", "1"]
    async with pool_of(
        ray, cluster_section(ray), pool, env={"CUDA_VISIBLE_DEVICES": "7"}
    ) as extension:
        assert (await extension.call("environment"))["CUDA_VISIBLE_DEVICES"] == "7"


def find_gpus(ray: RayCluster) -> set[str]:
    """Return the different values of the variable of GPUs in the processes of the extension."""
    prefix = b"CUDA_VISIBLE_DEVICES="
    pids = set().union(*map(descendants_of, ray.agents()))
    return {
        variable.removeprefix(prefix).decode()
        for pid in pids
        if (process := read_process(pid)) is not None and "hostile.py" in process.command
        for variable in environment_of(pid)
        if variable.startswith(prefix)
    }
