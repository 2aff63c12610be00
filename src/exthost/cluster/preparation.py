"""Prepares a node for the start of an extension: fetches the folder, creates the state folder,
checks that the paths of the launch plan exist, and compares files with their pinned digests.

The order (what to start) has a launch plan that was made on the host's machine. If a path of the
plan is missing on the node, the error here names the path. Otherwise the sandbox would fail later,
with an error that does not name it.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.cluster.folders import replace_root
from exthost.cluster.messages import Order, StateFolder
from exthost.errors import Evidence, ExthostError, Refused, SpawnFailed
from exthost.launch.integrity import check_pinned_files, check_pinned_folders
from exthost.model.launch_plan import ExpectedPath, LaunchPlan, Wrapper
from exthost.process.environment import Variables
from exthost.process.private_folders import make_folder

# The first option of bubblewrap for a strict sandbox (`launch/sandbox/strict.py`).
_FIRST_OPTION = "--unshare-all"


def prepare_on_node(order: Order, fetch_folder: Callable[[], Path]) -> Order:
    """Return the order with paths and variables of this machine, ready to be started.
    `fetch_folder` returns the copy of the order's folder. Raises SpawnFailed, or Refused if a file
    does not have its pinned digest."""
    plan, root, manifest = order.plan, order.root, order.manifest
    plan = replace(plan, env=_use_local_variables(order, os.environ))
    if order.state is not None:
        _make_state_folder(order.state)
    if order.folder is not None:
        original, copy = order.folder.root, str(fetch_folder())
    else:
        original = order.working_root
        copy = os.getcwd() if original else ""  # noqa: PTH109 - a text
    if original:
        plan = replace_root(plan, original, copy)
        # The same for these two paths, if they are in the original folder.
        manifest, root = (
            copy + path.removeprefix(original) if f"{path}/".startswith(f"{original}/") else path
            for path in (manifest, root)
        )
    plan = _use_local_paths(plan, order.extension)
    check_pinned_folders(order.pins, plan, root, os.environ, order.extension)
    check_pinned_files(order.pins, plan, manifest, order.extension)
    return order._replace(plan=plan, root=root, manifest=manifest)


def _use_local_variables(order: Order, environ: Mapping[str, str]) -> Variables:
    """Return the variables of the plan, with this machine's values of those that the host has only
    passed on, and with those that the cluster assigned."""
    env = dict(order.plan.env)
    for name in order.inherited:
        if name in environ:
            env[name] = environ[name]
    return Variables({**order.variables, **env})


def _make_state_folder(state: StateFolder) -> None:
    try:
        if not Path(state.path).exists():
            make_folder(state.path)
            if os.geteuid() == 0:
                os.chown(state.path, state.owner, state.owner, follow_symlinks=False)
    except OSError:
        pass  # most extensions never use it; if a sandbox needs it, X0429 names it


def _use_local_paths(plan: LaunchPlan, extension: str) -> LaunchPlan:
    """Return the plan with the device and inode numbers of this machine. Raises SpawnFailed if the
    sandbox program or a visible path is missing."""
    wrapper = plan.wrapper
    if wrapper is None:
        return plan
    for program in _sandbox_programs(wrapper):
        if not Path(program).exists():
            raise SpawnFailed(
                "X0428",
                f"there is no {program}, which contains it",
                permanent=False,
                extension=extension,
                help="install bubblewrap on the node, or keep the extension from it (pool.labels)",
                evidence=Evidence(path=program),
            )
    try:
        paths = tuple(_stat_local_path(expected.path) for expected in wrapper.paths)
    except OSError as error:
        raise SpawnFailed(
            "X0429",
            f"there is no {error.filename}, which its sandbox is to show",
            permanent=False,
            extension=extension,
            help='have it at the same path on every node, or send its folder (pool.files = "sent")',
            evidence=Evidence(path=str(error.filename)),
        ) from None
    return replace(plan, wrapper=replace(wrapper, paths=paths))


def _sandbox_programs(wrapper: Wrapper) -> list[str]:
    """Return the programs that make the sandbox: bubblewrap, and before it the one that changes the
    user if the host runs as root."""
    options = wrapper.options
    programs = [*options[:1]]
    if _FIRST_OPTION in options[2:]:
        programs.append(options[options.index(_FIRST_OPTION) - 1])
    return programs


def _stat_local_path(path: str) -> ExpectedPath:
    """Return the path with the device and inode numbers that it has on this machine."""
    status = os.stat(path)  # noqa: PTH116 - raises with the file name
    return ExpectedPath(path, status.st_dev, status.st_ino)


def encode_error(error: ExthostError) -> dict[str, Any]:
    """Return an error as JSON data, for the host."""
    return {
        "code": error.code,
        "message": error.message,
        "help": error.help,
        "permanent": isinstance(error, SpawnFailed) and error.permanent,
        "refused": isinstance(error, Refused),
        "path": error.evidence.path,
    }
