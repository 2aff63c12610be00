"""An agent prepares the order of the host on its node, before it starts a process.

An Order has the host's launch plan: command, folder, variables, sandbox. On the node, the folder of
the extension may have been sent and stored as a copy (`FolderStore`), so its paths in the plan are
replaced. Files are compared with their pins (digests in the config), and variables such as HOME
take the value of the node. Several agents on one machine share the copies, with a lock file each.
"""

import errno
import fcntl
import hashlib
import io
import os
import platform
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from exthost.cluster.folders import FolderStore, read_folder, replace_root, write_folder
from exthost.cluster.messages import Order, SentFolder, StateFolder
from exthost.cluster.preparation import encode_error, prepare_on_node
from exthost.errors import ExthostError, Refused, SpawnFailed
from exthost.launch.package_tree import read_tree
from exthost.launch.sandbox.strict import View, plan_wrapper
from exthost.model.launch_plan import ExpectedPath, LaunchPlan, Wrapper
from exthost.model.probe_result import SandboxSupport
from exthost.model.spec import Pins
from exthost.process.environment import Variables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an extension, on the host."""
    root = tmp_path / "extension"
    (root / "lib").mkdir(parents=True)
    (root / "main.py").write_text("print(1)\n")
    (root / "main.py").chmod(0o755)
    (root / "lib" / "data.txt").write_text("data")
    (root / "link").symlink_to("lib/data.txt")
    return root


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of the node, which has the copies of folders that were sent."""
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def store(state: Path) -> Iterator[FolderStore]:
    """The copies of one agent. `acquire` returns the copy of a folder, which it fetches if it is
    missing, and `release` says that a process does not use it any more."""
    store = FolderStore(state / "folders")
    yield store
    store.close()


@pytest.fixture
def sent_folder(folder: Path) -> SentFolder:
    """What the host says about the folder in its order: the digest of its content."""
    return read_folder(str(folder), "x")[0]


def make_order(root: Path, **members: object) -> Order:
    """Return the order to run `main.py` in this folder."""
    plan = LaunchPlan(
        argv=(str(root / "main.py"), f"--data={root}/lib"),
        cwd=str(root),
        env=Variables({"PATH": f"/bin:{root}/lib", "OTHER": f"{root}-2/x"}),
    )
    order = Order("x", plan, root=str(root))
    return order._replace(**members)  # type: ignore[arg-type]


def no_folder_expected() -> Path:
    raise AssertionError("no folder is expected")


def archive_of(root: Path) -> Callable[[], io.BytesIO]:
    """Return a function that returns the folder as the host sends it."""

    def fetch() -> io.BytesIO:
        file = io.BytesIO()
        write_folder(file, str(root), read_folder(str(root), "x")[1])
        file.seek(0)
        return file

    return fetch


def no_fetch_expected() -> io.BytesIO:
    raise AssertionError("the folder is there already")


def fail_to_prepare(order: Order) -> ExthostError:
    """Return the error of an order that cannot be prepared."""
    with pytest.raises(ExthostError) as caught:
        prepare_on_node(order, no_folder_expected)
    return caught.value


def test_a_sent_folder_is_stored_and_the_plan_uses_it(
    folder: Path, state: Path, store: FolderStore
) -> None:
    sent_folder, tree = read_folder(str(folder), "x")
    pins = Pins(
        package=tree.digest,
        program=hashlib.sha256(b"print(1)\n").hexdigest(),
        manifest=hashlib.sha256(b"data").hexdigest(),
    )
    order = make_order(folder, folder=sent_folder, pins=pins, manifest=f"{folder}/lib/data.txt")
    copy = store.acquire(sent_folder, archive_of(folder), "x")
    prepared = prepare_on_node(order, lambda: copy)
    assert copy == state / "folders" / sent_folder.digest
    assert prepared.root == str(copy) and read_tree(str(copy)).digest == sent_folder.digest
    assert prepared.plan.argv == (f"{copy}/main.py", f"--data={copy}/lib")
    assert prepared.plan.cwd == str(copy)
    # FOLDER-2 is another folder, although its path begins with that of the folder.
    assert prepared.plan.env == {"PATH": f"/bin:{copy}/lib", "OTHER": f"{folder}-2/x"}
    assert os.access(copy / "main.py", os.X_OK)


def test_caches_change_neither_the_digest_nor_the_copy(
    folder: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    (folder / "lib" / "__pycache__").mkdir()
    (folder / "lib" / "__pycache__" / "main.pyc").write_text("cache")
    assert read_folder(str(folder), "x")[0] == sent_folder
    copy = store.acquire(sent_folder, archive_of(folder), "x")
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "main.pyc").write_text("cache of the program")
    assert store.acquire(sent_folder, no_fetch_expected, "x") == copy


def test_a_copy_that_a_program_changed_is_made_again_beside_it_or_in_its_place(
    folder: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    copy = store.acquire(sent_folder, archive_of(folder), "x")
    (copy / "lib" / "data.txt").write_text("changed")
    second = store.acquire(sent_folder, archive_of(folder), "x")
    assert second == Path(f"{copy}.1")  # a process still uses the changed one
    store.release(copy)
    assert store.acquire(sent_folder, archive_of(folder), "x") == copy
    assert (copy / "lib" / "data.txt").read_text() == "data"


def test_copies_are_deleted_when_no_agent_uses_them(
    folder: Path, state: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    copy = store.acquire(sent_folder, archive_of(folder), "x")
    other_store = FolderStore(state / "folders")
    assert other_store.acquire(sent_folder, no_fetch_expected, "x") == copy
    store.delete_unused(0.0)
    store.release(copy)
    store.delete_unused(1000.0)  # only those that are not used for this many seconds
    assert copy.exists()
    store.delete_unused(0.0)
    assert copy.exists()  # the other agent uses it
    other_store.release(copy)
    other_store.delete_unused(0.0)
    assert list((state / "folders").iterdir()) == []


def test_a_copy_is_given_back_while_another_folder_is_received(
    folder: Path, tmp_path: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    """The thread that gives it back is the one that receives the other folder."""
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    (other_folder / "file").touch()
    copy = store.acquire(sent_folder, archive_of(folder), "x")

    def release_during_fetch() -> io.BytesIO:
        releasing = threading.Thread(target=store.release, args=(copy,), daemon=True)
        releasing.start()
        releasing.join(10)
        assert not releasing.is_alive()
        return archive_of(other_folder)()

    other_sent = read_folder(str(other_folder), "x")[0]
    other_copy = store.acquire(other_sent, release_during_fetch, "x")
    store.delete_unused(0.0)
    assert not copy.exists() and other_copy.exists()


def test_copies_that_a_killed_agent_has_left_are_deleted(
    folder: Path, state: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    leftover = state / "folders" / ("f" * 64)  # the name is the digest of the folder
    leftover.mkdir(parents=True)
    leftover.with_name(f"{leftover.name}.lock").touch()  # a lock file that nobody has locked
    store.acquire(sent_folder, archive_of(folder), "x")
    assert not leftover.exists()


def test_a_folder_with_the_name_of_a_lock_file_is_left_alone(
    folder: Path, state: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    other = state / "folders" / "other.lock"
    other.mkdir(parents=True)
    assert store.acquire(sent_folder, archive_of(folder), "x").is_dir()
    assert other.is_dir()


def test_an_unfinished_copy_that_a_killed_agent_has_left_is_deleted(
    folder: Path, state: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    unfinished = state / "folders" / f"{'f' * 64}-4711"  # the name ends with the pid of the agent
    unfinished.mkdir(parents=True)
    unfinished.with_name(f"{'f' * 64}.lock").touch()
    store.acquire(sent_folder, archive_of(folder), "x")
    assert not unfinished.exists()


def test_a_copy_whose_lock_file_was_deleted_while_it_was_locked_is_not_deleted(
    folder: Path,
    state: Path,
    store: FolderStore,
    sent_folder: SentFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One agent deletes a copy, with its lock file, after another agent has opened that file and
    before the other agent has locked it."""
    copy = store.acquire(sent_folder, archive_of(folder), "x")
    store.release(copy)
    other_store = FolderStore(state / "folders")
    flock = fcntl.flock

    def delete_before_first_lock(lock: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        store.close()
        assert not copy.exists()
        flock(lock, operation)

    monkeypatch.setattr(fcntl, "flock", delete_before_first_lock)
    assert other_store.acquire(sent_folder, archive_of(folder), "x") == copy
    third_store = FolderStore(state / "folders")
    assert third_store.acquire(sent_folder, no_fetch_expected, "x") == copy
    third_store.release(copy)
    third_store.close()
    assert copy.exists(), "the other agent still uses it"
    other_store.release(copy)
    other_store.close()
    assert not copy.exists()


def test_a_copy_that_another_agent_has_repaired_is_not_deleted_while_it_is_used(
    folder: Path, state: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    copy = store.acquire(sent_folder, archive_of(folder), "x")
    (copy / "lib" / "data.txt").write_text("changed")
    other_store = FolderStore(state / "folders")
    assert other_store.acquire(sent_folder, archive_of(folder), "x") == Path(f"{copy}.1")
    (copy / "lib" / "data.txt").write_text("data")
    assert other_store.acquire(sent_folder, no_fetch_expected, "x") == copy
    store.release(copy)
    store.close()
    assert copy.exists(), "the other agent uses it"
    for used in (copy, Path(f"{copy}.1")):
        other_store.release(used)
    other_store.close()
    assert list((state / "folders").iterdir()) == []


def test_a_copy_that_cannot_be_deleted_is_left_to_the_next_agent(
    folder: Path, state: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    copy = store.acquire(sent_folder, archive_of(folder), "x")
    store.release(copy)
    with pytest.MonkeyPatch.context() as patch:
        error = OSError(errno.EROFS, "the disk is read-only")
        patch.setattr(Path, "unlink", Mock(side_effect=error))
        patch.setattr(shutil, "rmtree", Mock())
        store.delete_unused(0.0)
    assert copy.exists()
    other_store = FolderStore(state / "folders")
    assert other_store.acquire(sent_folder, no_fetch_expected, "x") == copy
    other_store.close()
    assert not copy.exists()  # the first agent has released its lock


def test_an_agent_that_ends_during_a_start_leaves_the_copy_to_the_next_agent(
    folder: Path, state: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    def end_during_fetch() -> io.BytesIO:
        store.close()
        return archive_of(folder)()

    copy = store.acquire(sent_folder, end_during_fetch, "x")
    assert copy.with_name(f"{copy.name}.lock").exists()
    assert store.acquire(sent_folder, no_fetch_expected, "x") == copy


def test_a_folder_that_changed_after_its_digest_was_computed_is_not_used(
    folder: Path, store: FolderStore, sent_folder: SentFolder
) -> None:
    (folder / "main.py").write_text("print(2)\n")
    with pytest.raises(SpawnFailed) as caught:
        store.acquire(sent_folder, archive_of(folder), "x")
    assert caught.value.code == "X0427" and "has changed meanwhile" in caught.value.message


def test_inherited_variables_have_the_value_of_the_node_unless_the_config_sets_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`inherited` names the variables that the host took from its own environment; `variables` are
    those that the cluster assigns, such as a GPU."""
    monkeypatch.setenv("HOME", "/home/node")
    monkeypatch.setenv("TOKEN", "of the node")
    env = Variables({"HOME": "/home/host", "TOKEN": "configured", "GPU_B": "configured"})
    order = make_order(
        folder,
        plan=LaunchPlan(argv=("true",), env=env),
        inherited=("HOME", "LANG_THAT_THE_NODE_LACKS"),
        variables={"CUDA_VISIBLE_DEVICES": "3", "GPU_B": "assigned"},
    )
    assert prepare_on_node(order, no_folder_expected).plan.env == {
        "HOME": "/home/node",
        "TOKEN": "configured",
        "CUDA_VISIBLE_DEVICES": "3",
        "GPU_B": "configured",
    }


def test_paths_are_changed_to_the_working_folder_that_ray_has_made(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray has copied the folder above the extension (`working_root`) to the node.
    working_folder = tmp_path / "of-ray"
    shutil.copytree(folder, working_folder / "extension", symlinks=True)
    monkeypatch.chdir(working_folder)
    manifest = str(folder / "main.py")
    order = make_order(folder, working_root=str(tmp_path), manifest=manifest)
    order = prepare_on_node(order, no_folder_expected)
    copy = str(working_folder / "extension")
    assert order.plan.argv == (f"{copy}/main.py", f"--data={copy}/lib")
    assert (order.plan.cwd, order.root, order.manifest) == (copy, copy, f"{copy}/main.py")


def test_an_agent_whose_own_folder_was_deleted_starts_programs_with_absolute_paths(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = tmp_path / "deleted"
    deleted.mkdir()
    monkeypatch.chdir(deleted)
    deleted.rmdir()
    order = make_order(folder)
    assert prepare_on_node(order, no_folder_expected).plan.argv == order.plan.argv


def test_links_out_of_a_folder_are_not_sent(folder: Path) -> None:
    (folder / "out").symlink_to("/etc/passwd")
    with pytest.raises(Refused) as caught:
        read_folder(str(folder), "x")
    assert caught.value.code == "X0395"
    expected = f"{folder / 'out'}: it is a link to /etc/passwd, outside of the folder"
    assert caught.value.message.endswith(expected), caught.value.message
    with pytest.raises(Refused, match="no folder of its own") as caught:
        read_folder("", "x")
    assert "set its cwd" in (caught.value.help or "")


def test_only_a_relative_link_into_the_folder_can_be_sent(folder: Path, store: FolderStore) -> None:
    (folder / "itself").symlink_to(".")
    sent_folder = read_folder(str(folder), "x")[0]
    copy = store.acquire(sent_folder, archive_of(folder), "x")
    assert (copy / "itself").resolve() == copy.resolve()
    (folder / "absolute").symlink_to(folder / "main.py")
    with pytest.raises(Refused) as caught:
        read_folder(str(folder), "x")
    expected = f"it is a link to the absolute path {folder / 'main.py'}"
    assert caught.value.message.endswith(expected), caught.value.message


@pytest.mark.parametrize("pin", ["program", "package", "manifest"])
def test_a_file_that_is_not_the_pinned_one_is_refused(folder: Path, pin: str) -> None:
    pins = Pins()._replace(**{pin: "0" * 64})
    error = fail_to_prepare(make_order(folder, pins=pins, manifest=f"{folder}/lib/data.txt"))
    assert isinstance(error, Refused) and error.code == "X0386"
    assert encode_error(error)["refused"] is True


@pytest.mark.parametrize("uid", [None, 60000])
def test_a_missing_bubblewrap_or_path_on_the_node_is_reported(
    folder: Path, uid: int | None
) -> None:
    # A host that runs as root changes the user first, by another program.
    support = SandboxSupport("/nowhere/bwrap", "/bin/sh", machine=platform.machine())
    wrapper = plan_wrapper(support, View(uid=uid), network=False)
    order = make_order(folder)
    error = fail_to_prepare(order._replace(plan=replace(order.plan, wrapper=wrapper)))
    assert error.code == "X0428" and "/nowhere/bwrap" in error.message
    # The numbers are the device and the inode that the path has on the host.
    paths = (ExpectedPath(str(folder), 1, 1), ExpectedPath("/nowhere/data", 1, 1))
    wrapper = Wrapper(options=(), init=b"", paths=paths)
    error = fail_to_prepare(order._replace(plan=replace(order.plan, wrapper=wrapper)))
    assert error.code == "X0429" and "/nowhere/data" in error.message


def test_the_expected_paths_of_a_sandbox_are_updated_on_the_node(folder: Path) -> None:
    wrapper = Wrapper(options=(), init=b"", paths=(ExpectedPath(str(folder), 1, 1),))
    order = make_order(folder)
    prepared = prepare_on_node(
        order._replace(plan=replace(order.plan, wrapper=wrapper)), no_folder_expected
    )
    assert prepared.plan.wrapper is not None
    status = folder.stat()
    expected = ExpectedPath(str(folder), status.st_dev, status.st_ino)
    assert prepared.plan.wrapper.paths == (expected,)


def test_the_state_folder_is_created(folder: Path, tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / "far" / "away"), os.getuid())
    prepare_on_node(make_order(folder, state=state), no_folder_expected)
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
