"""The preparation of an order on a node: folders, pins, sandbox paths, and refused orders."""

import hashlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from exthost.cluster.folders import read_folder, replace_root, send_folder
from exthost.cluster.messages import Order, StateFolder, VersionMismatch, decode_order
from exthost.cluster.preparation import encode_error, prepare_on_node, version_error
from exthost.errors import ExthostError, Refused, SpawnFailed
from exthost.launch.package_tree import read_tree
from exthost.model.launch_plan import ExpectedPath, LaunchPlan, Wrapper
from exthost.model.spec import Pins
from exthost.process.environment import Variables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "extension"
    (root / "lib").mkdir(parents=True)
    (root / "main.py").write_text("print(1)\n")
    (root / "main.py").chmod(0o755)
    (root / "lib" / "data.txt").write_text("data")
    (root / "link").symlink_to("lib/data.txt")
    return root


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def make_order(root: Path, **members: object) -> Order:
    plan = LaunchPlan(
        argv=(str(root / "main.py"), f"--data={root}/lib"),
        cwd=str(root),
        env=Variables({"PATH": f"/bin:{root}/lib", "OTHER": f"{root}-2/x"}),
    )
    order = Order("x", plan, ("", "", ""), 5.0, root=str(root))
    return order._replace(**members)  # type: ignore[arg-type]


def refuse_connection(_: str) -> socket.socket:
    raise AssertionError("no connection is expected")


def make_sender(root: Path) -> Callable[[str], socket.socket]:
    """Return a function that connects to a simulated host, which sends the folder."""

    def connect(_: str) -> socket.socket:
        node_end, host_end = socket.socketpair()
        tree = read_folder(str(root), "x")[1]
        threading.Thread(target=send_folder, args=(host_end, str(root), tree)).start()
        return node_end

    return connect


def fail_to_prepare(order: Order) -> ExthostError:
    with pytest.raises(ExthostError) as caught:
        prepare_on_node(order, refuse_connection)
    return caught.value


def test_a_sent_folder_is_stored_and_the_plan_uses_it(folder: Path, state: Path) -> None:
    sent_folder, tree = read_folder(str(folder), "x")
    pins = Pins(
        package=tree.digest,
        program=hashlib.sha256(b"print(1)\n").hexdigest(),
        manifest=hashlib.sha256(b"data").hexdigest(),
    )
    order = make_order(folder, folder=sent_folder, pins=pins, manifest=f"{folder}/lib/data.txt")
    prepared = prepare_on_node(order, make_sender(folder))
    copy = state / "folders" / sent_folder.digest
    assert prepared.root == str(copy) and read_tree(str(copy)).digest == sent_folder.digest
    assert prepared.plan.argv == (f"{copy}/main.py", f"--data={copy}/lib")
    assert prepared.plan.cwd == str(copy)
    assert prepared.plan.env == {"PATH": f"/bin:{copy}/lib", "OTHER": f"{folder}-2/x"}
    assert os.access(copy / "main.py", os.X_OK)
    # The folder is already stored.
    assert prepare_on_node(order, refuse_connection).root == str(copy)

    (copy / "lib" / "data.txt").write_text("changed")
    prepared_again = prepare_on_node(order, make_sender(folder))
    assert prepared_again.root == f"{copy}.1"  # another process may still use the changed folder


def test_a_folder_that_changed_after_its_digest_was_computed_is_not_used(folder: Path) -> None:
    sent_folder, _ = read_folder(str(folder), "x")
    (folder / "main.py").write_text("print(2)\n")
    connections = iter([make_sender(folder)("")])

    def connect(_: str) -> socket.socket:
        for connection in connections:
            return connection
        raise ConnectionError("a nonce can be used only once")

    with pytest.raises(SpawnFailed) as caught:
        prepare_on_node(make_order(folder, folder=sent_folder), connect)
    assert caught.value.code == "X0427"


def test_links_out_of_a_folder_are_not_sent(folder: Path) -> None:
    (folder / "out").symlink_to("/etc/passwd")
    with pytest.raises(Refused) as caught:
        read_folder(str(folder), "x")
    assert caught.value.code == "X0395" and str(folder / "out") in caught.value.message
    with pytest.raises(Refused, match="set cwd"):
        read_folder("", "x")


@pytest.mark.parametrize("pin", ["program", "package", "manifest"])
def test_a_file_that_is_not_the_pinned_one_is_refused(folder: Path, pin: str) -> None:
    pins = Pins()._replace(**{pin: "0" * 64})
    error = fail_to_prepare(make_order(folder, pins=pins, manifest=f"{folder}/lib/data.txt"))
    assert isinstance(error, Refused) and error.code == "X0386"
    assert encode_error(error)["refused"] is True


def test_a_missing_bubblewrap_or_path_on_the_node_is_reported(folder: Path) -> None:
    wrapper = Wrapper(options=("/nowhere/bwrap", "--ro-bind"), init=b"")
    order = make_order(folder)
    error = fail_to_prepare(order._replace(plan=replace(order.plan, wrapper=wrapper)))
    assert error.code == "X0428" and "/nowhere/bwrap" in error.message
    paths = (ExpectedPath(str(folder), 1, 1), ExpectedPath("/nowhere/data", 1, 1))
    wrapper = Wrapper(options=(), init=b"", paths=paths)
    error = fail_to_prepare(order._replace(plan=replace(order.plan, wrapper=wrapper)))
    assert error.code == "X0429" and "/nowhere/data" in error.message


def test_the_expected_paths_of_a_sandbox_are_updated_on_the_node(folder: Path) -> None:
    wrapper = Wrapper(options=(), init=b"", paths=(ExpectedPath(str(folder), 1, 1),))
    order = make_order(folder)
    prepared = prepare_on_node(
        order._replace(plan=replace(order.plan, wrapper=wrapper)), refuse_connection
    )
    assert prepared.plan.wrapper is not None
    status = folder.stat()
    expected = ExpectedPath(str(folder), status.st_dev, status.st_ino)
    assert prepared.plan.wrapper.paths == (expected,)


def test_the_state_folder_is_created(folder: Path, tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / "far" / "away"), os.getuid())
    prepare_on_node(make_order(folder, state=state), refuse_connection)
    assert (tmp_path / "far" / "away").is_dir()


def test_replace_root_changes_the_paths_of_a_sandbox() -> None:
    wrapper = Wrapper(
        options=("bwrap", "--ro-bind", "/x/a", "/x/a", "--chdir", "/x/abc"),
        init=b"",
        paths=(ExpectedPath("/x/a/b", 1, 2),),
    )
    moved_wrapper = replace_root(LaunchPlan(argv=("/x/a",), wrapper=wrapper), "/x/a", "/y").wrapper
    assert moved_wrapper is not None
    assert moved_wrapper.options == ("bwrap", "--ro-bind", "/y", "/y", "--chdir", "/x/abc")
    assert moved_wrapper.paths == (ExpectedPath("/y/b", 1, 2),)


def test_an_order_of_another_version_is_an_error() -> None:
    with pytest.raises(VersionMismatch) as caught:
        decode_order({"version": "0.0.1", "order": {}})
    error = version_error(str(caught.value))
    assert error.code == "X0430" and "the host has 0.0.1" in error.message
