"""The driver, the process through which a host uses a Ray cluster. Only this process imports Ray.

Its requests are dicts: "nodes" lists the nodes, "hold" reserves resources for a process, "release"
gives them back, and "start_agent" starts an agent on a node. An address with "ray://" is used by
Ray's client. Here modules take the place of Ray, and record how the driver calls them.
"""

import importlib.util
import io
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from exthost.cluster import ray_driver
from exthost.cluster.ray_driver import AnswerWriter, Driver, NotFreeInTime, RuntimeEnvError


class SetupError(Exception):
    """Ray could not make a runtime environment."""


class FakeRay:
    """The part of Ray that the driver uses. `calls` has what the driver asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.node_ids = ["n1"]  # the nodes of Ray on this machine
        self.is_free = True
        self.on_group: Callable[[], object] = lambda: None  # called while a group is made
        self.is_client_connected = True
        self.init_error: Exception | None = None
        self.nodes = [
            {"NodeID": "n1-long-id", "NodeManagerHostname": "one", "Alive": True, "Resources": {}},
            {"NodeID": "n2-long-id", "NodeManagerHostname": "two", "Alive": True, "Resources": {}},
            {"NodeID": "n3-long-id", "NodeManagerHostname": "two", "Alive": True, "Resources": {}},
            {"NodeID": "n4-long-id", "NodeManagerHostname": "one", "Alive": False, "Resources": {}},
        ]

    def arguments_of(self, name: str) -> list[Any]:
        """Return the arguments of each call of this name."""
        return [arguments for called_name, arguments in self.calls if called_name == name]

    def init(self, **options: Any) -> None:
        self.calls.append(("init", options))
        if self.init_error is not None:
            raise self.init_error

    def remote(self, **_: Any) -> Any:
        return lambda function: FakeTask(self, function.__name__)

    def get(self, value: Any, timeout: float | None = None) -> Any:
        return value

    def placement_group(self, bundles: Any, **options: Any) -> Any:
        self.calls.append(("group", options))
        self.on_group()
        return SimpleNamespace(wait=lambda seconds: self.is_free)


class FakeTask:
    def __init__(self, ray: FakeRay, name: str) -> None:
        self._ray = ray
        self._name = name

    def options(self, **options: Any) -> "FakeTask":
        self._ray.calls.append((f"options of {self._name}", options))
        return self

    def remote(self, *arguments: Any) -> Any:
        self._ray.calls.append((self._name, arguments))
        return f"result of {self._name}"


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """A FakeRay, whose functions are in the modules of Ray that the driver imports."""
    fake = FakeRay()

    def install(name: str, **names: Any) -> None:
        module = ModuleType(name)
        module.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, module)

    install(
        "ray",
        init=fake.init,
        remote=fake.remote,
        get=fake.get,
        nodes=lambda: fake.nodes,
        shutdown=lambda: fake.calls.append(("shutdown", None)),
        exceptions=SimpleNamespace(RuntimeEnvSetupError=SetupError),
    )
    install("ray.util")
    client = SimpleNamespace(is_connected=lambda: fake.is_client_connected)
    install("ray.util.client", ray=client)
    install(
        "ray.util.placement_group",
        placement_group=fake.placement_group,
        placement_group_table=lambda group: {"bundles_to_node_id": {0: "n1"}},
        remove_placement_group=lambda group: fake.calls.append(("remove", group)),
    )
    install(
        "ray.util.scheduling_strategies",
        PlacementGroupSchedulingStrategy=lambda group: group,
        NodeAffinitySchedulingStrategy=lambda node, soft: (node, soft),
    )
    state = SimpleNamespace(
        available_resources_per_node=lambda: {"n1-long-id": {"CPU": 1.0}},
        state=SimpleNamespace(get_draining_nodes=lambda: {"n2-long-id": 0}),
    )
    install("ray._private", state=state)
    install("ray._private.services", find_node_ids=lambda: fake.node_ids)
    return fake


def serve(driver: Driver, request: dict[str, Any]) -> Any:
    """Have the driver serve a request as soon as it has come."""
    driver.register(request)
    return driver.serve(request)


def hold_request(**fields: Any) -> dict[str, Any]:
    usual = {"do": "hold", "id": 1, "labels": {}, "excluded": [], "preferred": "", "seconds": 1}
    return {**usual, "resources": {"CPU": 1}, **fields}


def test_the_dashboard_is_an_option_only_without_rays_client(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    Driver("here:1", {})
    Driver("ray://there:1", {})
    own, client = ray.arguments_of("init")
    assert own["include_dashboard"] is False and "include_dashboard" not in client


def test_an_error_of_init_is_about_the_runtime_env_only_if_there_is_one(ray: FakeRay) -> None:
    ray.init_error = ValueError("Traceback\nno such folder")
    with pytest.raises(RuntimeEnvError) as caught:
        Driver("here:1", {"working_dir": "x"})
    assert caught.value.reason == "no such folder"
    with pytest.raises(ValueError, match="no such folder"):
        Driver("here:1", {})


def test_a_reason_is_shortened_only_if_it_is_too_long() -> None:
    longest = "a" * 250 + "b" * 250
    assert RuntimeEnvError(Exception(longest)).reason == longest
    assert RuntimeEnvError(Exception(longest + "c")).reason == f"{'a' * 250} … {'b' * 249}c"
    assert RuntimeEnvError(SetupError()).reason == "SetupError"


def test_only_rays_client_can_lose_its_connection(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    own, client = Driver("here:1", {}), Driver("ray://there:1", {})
    assert own.is_connected() and client.is_connected()
    ray.is_client_connected = False
    assert own.is_connected() and not client.is_connected()


def test_the_driver_reads_the_nodes_itself_unless_it_is_a_client(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Driver("here:1", {}).serve({"do": "nodes"})
    assert [node["name"] for node in nodes] == ["one", "two/n2-lon", "two/n3-lon"]
    assert [node["free"] for node in nodes] == [{"CPU": 1.0}, None, None]
    assert [node["is_draining"] for node in nodes] == [False, True, False]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert Driver("ray://there:1", {}).serve({"do": "nodes"}) == "result of read_nodes"


def test_labels_and_excluded_nodes_are_passed_to_ray_only_if_there_are_any(ray: FakeRay) -> None:
    driver = Driver("here:1", {})
    assert serve(driver, hold_request()) == {"node": "n1", "variables": {}}
    serve(driver, hold_request(id=2, labels={"zone": "a"}, excluded=["n2", "n3"]))
    plain, selected = ray.arguments_of("group")
    assert "bundle_label_selector" not in plain
    assert selected["bundle_label_selector"] == [{"zone": "a", "ray.io/node-id": "!in(n2,n3)"}]


def test_resources_that_are_not_free_in_time_are_given_back(ray: FakeRay) -> None:
    driver = Driver("here:1", {})
    ray.is_free = False
    with pytest.raises(NotFreeInTime):
        serve(driver, hold_request())
    assert len(ray.arguments_of("remove")) == 1
    serve(driver, {"do": "release", "id": 1})  # it is not held any more
    assert len(ray.arguments_of("remove")) == 1


def test_an_answer_of_ray_that_is_late_does_not_count_as_resources_that_are_not_free(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(value: Any, timeout: float | None = None) -> Any:
        raise TimeoutError("Get timed out")  # as ray.exceptions.GetTimeoutError

    monkeypatch.setattr("ray.get", get)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    sent: list[dict[str, Any]] = []
    answers = SimpleNamespace(send=lambda **answer: sent.append(answer))
    driver = Driver("ray://here:1", {})
    devices = hold_request(resources={"GPU": 1})
    for number, request in enumerate(({"do": "nodes"}, devices)):
        driver.register(request)
        ray_driver._serve(driver, {"number": number, **request}, cast(AnswerWriter, answers))
    error = "TimeoutError: Get timed out"
    assert sent == [{"number": 0, "error": error}, {"number": 1, "error": error}]


def test_resources_that_are_released_while_ray_makes_their_group_are_given_back(
    ray: FakeRay,
) -> None:
    driver = Driver("here:1", {})
    ray.on_group = lambda: serve(driver, {"do": "release", "id": 1})
    with pytest.raises(NotFreeInTime):
        serve(driver, hold_request())
    assert len(ray.arguments_of("remove")) == 1
    driver.close()
    assert len(ray.arguments_of("remove")) == 1


def test_resources_that_are_released_before_their_request_is_served_are_given_back(
    ray: FakeRay,
) -> None:
    driver = Driver("here:1", {})
    driver.register(hold_request())
    serve(driver, {"do": "release", "id": 1})
    with pytest.raises(NotFreeInTime):
        driver.serve(hold_request())
    assert len(ray.arguments_of("remove")) == 1


def test_close_gives_back_all_resources(ray: FakeRay) -> None:
    driver = Driver("here:1", {})
    serve(driver, hold_request())
    serve(driver, hold_request(id=2))
    driver.close()
    assert [name for name, _ in ray.calls[-3:]] == ["remove", "remove", "shutdown"]


def test_the_devices_of_a_group_are_read_only_if_it_has_devices(ray: FakeRay) -> None:
    driver = Driver("here:1", {})
    resources = {"CPU": 1, "GPU": 2, "TPU": 3}
    held = serve(driver, hold_request(resources=resources))
    assert held["variables"] == "result of read_devices"
    (options,) = ray.arguments_of("options of read_devices")
    assert (options["num_gpus"], options["resources"]) == (2, {"TPU": 3})


def test_an_agent_has_a_runtime_env_of_its_own_only_with_an_image(ray: FakeRay) -> None:
    driver = Driver("here:1", {})
    request = {"do": "start_agent", "node": "n1", "address": "h:1", "nonce": "x"}
    request["certificates"] = ""
    assert serve(driver, {**request, "image": ""}) == "result of start_agent"
    serve(driver, {**request, "image": "text:1"})
    plain, contained = ray.arguments_of("options of start_agent")
    assert "runtime_env" not in plain and contained["runtime_env"] == {"image_uri": "text:1"}
    assert ray.arguments_of("start_agent") == [("h:1", "x", "", False), ("h:1", "x", "", True)]


def test_an_unknown_request_is_an_error(ray: FakeRay) -> None:
    with pytest.raises(ValueError, match="unknown request 'wait'"):
        serve(Driver("here:1", {}), {"do": "wait"})


def test_a_client_needs_grpc_and_another_driver_a_node_on_this_machine(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConnectionError, match="client is not installed"):
        Driver("ray://there:1", {})
    ray.node_ids = []
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    with pytest.raises(ConnectionError, match="no node of Ray"):
        Driver("here:1", {})
    # It has asked for the node as long as it may take to start.
    assert now == [10.5]
    assert ray.arguments_of("init") == []
    Driver("auto", {})
    assert len(ray.arguments_of("init")) == 1


@pytest.mark.parametrize("is_in_container", [False, True])
@pytest.mark.parametrize("certificates", ["", "/certificates"])
def test_an_agent_outlives_the_worker_that_starts_it_except_in_a_container(
    is_in_container: bool, certificates: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    def popen(command: list[str], env: dict[str, str], **_: Any) -> Any:
        started.append((command, env))
        return SimpleNamespace(stdin=io.BytesIO(), stderr=io.BytesIO(b"why\n"), wait=lambda: 0)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("KEPT", "yes")
    assert ray_driver.start_agent("h:1", "nonce", certificates, is_in_container) == "why"
    ((command, env),) = started
    assert (command[0] == "/bin/sh") == (not is_in_container)
    assert command[-1] == (certificates or "h:1")
    assert env["KEPT"] == "yes" and env["PYTHONPATH"]
    assert not {"OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"} & env.keys()


def test_only_the_variables_of_devices_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ray_driver._DEVICE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    monkeypatch.setenv("OTHER", "x")
    assert ray_driver.read_devices() == {"CUDA_VISIBLE_DEVICES": "1,2"}
