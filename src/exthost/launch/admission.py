"""Decides which files a sandboxed extension sees: before its first start, and again before a
restart that a person or a program requests.

The view (the paths that the sandbox mounts) is computed from the config and from the files as they
are at that moment. Every start that the host makes on its own, such as one after a crash, uses the
same view, so a running extension cannot widen it by changing files. The device and inode of each
path are recorded. If such a start finds another file at a path, it is refused.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from exthost.errors import Evidence, Refused
from exthost.launch import bridge, sandbox_probe, wasm
from exthost.launch.admission_record import NOT_SANDBOXED, Admission, RecordedFile
from exthost.launch.extension_user import with_extension_user
from exthost.launch.file_view import ViewRequest, compute_view, system_view
from exthost.launch.machine_check import can_enforce, enforced_policy
from exthost.launch.network_grant import plan_proxy
from exthost.launch.shared_folders import own_protected_paths, refuse_state_folder
from exthost.model.launch_plan import ExpectedPath, LaunchPlan
from exthost.model.spec import Spec
from exthost.process.own_process import deleted_working_folder
from exthost.process.state_root import state_root


def decide(spec: Spec, plan: LaunchPlan, state: str, environ: Mapping[str, str]) -> Admission:
    """Decide which files an extension sees. `plan` has its program, arguments and variables.
    `state` is its state folder, which it may write; "" for none. `environ` are the host's
    environment variables. Raises Refused if its permissions cannot be enforced."""
    if wasm.is_module(spec):  # its engine is the sandbox
        refuse_state_folder(spec, wasm.check_module_permissions(spec), environ)
        return NOT_SANDBOXED
    if bridge.is_remote(spec):
        bridge.check_bridge(spec, enforced_policy(spec))
    policy = enforced_policy(spec)
    if policy is None:
        return NOT_SANDBOXED
    plan_proxy(spec, environ)  # only to raise Refused; each start plans its proxy again
    request = ViewRequest(
        extension=spec.id,
        argv=plan.argv,
        command=plan.argv[0] if bridge.is_remote(spec) else spec.argv[0],
        cwd=_working_folder(spec),
        folders=_operator_folders(spec),
        granted=policy.filesystem,
        network=bool(policy.network),
        state=state,
        env=plan.env,
        host=environ,
        package=spec.package,
        is_operators=spec.manifest is None,
        protected=own_protected_paths(spec, environ),
    )
    # A wrong path in the permissions is reported even if this machine has no sandbox.
    view = compute_view(request)
    if not can_enforce(spec):
        return NOT_SANDBOXED
    refuse_state_folder(spec, view.writable, environ)
    support = sandbox_probe.find_sandbox_support()
    if support.uid == 0:
        files = _command_files(spec, plan)
        view = with_extension_user(spec.id, view, support, state_root(environ), files)
    if view.uid is None:
        # The first `can_enforce` may have tried the sandbox as a separate user, and the extension
        # runs as the host's user instead. This call only raises Refused if the sandbox does not
        # work for the host's user. Its result is not needed, since each start asks again
        # (`contain`).
        can_enforce(spec, as_host=True)
    system = {mount.path for mount in system_view(network=True).visible_paths}
    visible = (mount.path for mount in view.visible_paths if mount.path not in system)
    paths = dict.fromkeys((*_command_paths(spec, plan), *visible))
    return Admission(view=view, files=tuple(map(_record_file, paths)))


def check_unchanged(spec: Spec, admission: Admission) -> None:
    """Raise Refused if a path is not the same file as when the extension was admitted, or if it
    leads to another place."""
    for recorded in admission.files:
        current = _record_file(recorded.path)
        if current == recorded:
            continue
        change = (
            f"led to {recorded.real_path} when it was admitted, and now leads to "
            f"{current.real_path}"
            if current.real_path != recorded.real_path
            else "is not the file or folder that it was when it was admitted"
        )
        raise Refused(
            "X0384",
            f"{recorded.path} {change}",
            extension=spec.id,
            help="if that change was yours, restart the extension: it is then checked again",
            evidence=Evidence(path=recorded.path),
        )


def visible_files(admission: Admission) -> tuple[ExpectedPath, ...]:
    """Return the visible paths except those of the system, each with the device and inode that the
    file there must have."""
    visible = (
        {path.path for path in admission.view.visible_paths}
        if admission.view is not None
        else set()
    )
    return tuple(
        ExpectedPath(file.path, file.device, file.inode)
        for file in admission.files
        if file.path in visible
    )


def _record_file(path: str) -> RecordedFile:
    """Return the identity of the file at a path, now."""
    real_path = os.path.realpath(path)
    try:
        # O_PATH needs no read access. O_NOFOLLOW fails if a symlink was put there meanwhile.
        fd = os.open(real_path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return RecordedFile(path, real_path, 0, 0)
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    return RecordedFile(path, real_path, status.st_dev, status.st_ino)


def _working_folder(spec: Spec) -> str:
    """Return the folder in which the extension runs. Raises Refused if that is the host's own
    working folder, and it has been deleted."""
    try:
        return spec.cwd or str(Path.cwd())
    except FileNotFoundError:
        folder = deleted_working_folder()
        raise Refused(
            "X0398",
            f"its working folder {folder}, in which the host was started, has been deleted",
            extension=spec.id,
            help="start the host in a folder that exists, or set `cwd`",
        ) from None


def _operator_folders(spec: Spec) -> tuple[str, ...]:
    """Return the folders that the operator (the author of the host's config) named: the folder of a
    manifest that the config names, and a configured working folder."""
    folders = []
    if spec.package is None and spec.manifest is not None and spec.manifest_file:
        folders.append(str(Path(spec.manifest_file).parent))
    is_set_by_package = spec.package is not None and spec.cwd == spec.package.cwd
    if spec.own_cwd and spec.cwd and not is_set_by_package:
        folders.append(spec.cwd)
    return tuple(folders)


def _command_paths(spec: Spec, plan: LaunchPlan) -> tuple[str, ...]:
    """Return the folders that the operator named, and the files that the command line names."""
    return (*_operator_folders(spec), *_command_files(spec, plan))


def _command_files(spec: Spec, plan: LaunchPlan) -> list[str]:
    """Return the files that the command line names."""
    cwd = _working_folder(spec)
    paths = (os.path.join(cwd, argument) for argument in plan.argv)  # noqa: PTH118
    return [path for path in paths if os.path.isfile(path)]  # noqa: PTH113
