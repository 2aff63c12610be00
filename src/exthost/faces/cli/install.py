"""Install an extension's folder in the first search path of the config, as a copy or as a link.

  exthost install FOLDER [--link | --update] [--enable] [--max-size SIZE] [--dry-run]

The config names its search paths: [discovery] search_paths = ["./extensions"], for example.
Its manifest is checked first, and nothing is started. A linked extension runs from its original
folder.
"""

import argparse
import shlex
from pathlib import Path

from exthost.config import DEFAULT_CONFIG
from exthost.config.discovery.configfile import ConfiguredExtensions
from exthost.config.discovery.untrusted_files import is_inside
from exthost.errors import Evidence, NotFound, UsageError
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    parse_size_limit,
    say,
    show_json,
    show_result,
)
from exthost.faces.cli.config_edit import suggest_reload
from exthost.faces.cli.folder_copy import MAX_COPY_BYTES, check_copy
from exthost.faces.cli.lock_edit import record_extensions
from exthost.faces.cli.package_folders import install_copy, install_link, install_path, read_package
from exthost.faces.cli.target_specs import has_config, read_extensions
from exthost.faces.cli.toggle_verbs import set_enabled


class InstallArgs(Args):
    """The parsed arguments of this verb (a subcommand of exthost).

    folder   the folder to install
    link     whether a symlink is made instead of a copy
    enable   whether the extension is removed from the list `disabled`
    update   whether an installed version is replaced; there must be one
    max_size refuse to copy a folder larger than this, in bytes
    dry_run  whether nothing is changed
    """

    folder: str
    link: bool
    enable: bool
    update: bool
    max_size: int
    dry_run: bool


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="the folder of an extension")
    parser.add_argument(
        "--link", action="store_true", help="create a symbolic link instead of a copy"
    )
    parser.add_argument(
        "--enable",
        action="store_true",
        help="also enable the extension: remove it from `disabled` in the config",
    )
    parser.add_argument("--update", action="store_true", help="replace the installed version")
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=parse_size_limit,
        default=MAX_COPY_BYTES,
        help="refuse to copy a folder larger than this (default: 1GiB)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print the changes")
    add_config_option(parser)


def run(args: InstallArgs) -> int:
    if args.link and args.update:
        raise UsageError(
            "X1316",
            "--update replaces a copy, and --link makes no copy",
            help="to link to the folder instead, first uninstall the copy: exthost uninstall ID",
        )
    if not has_config(args):
        raise UsageError(
            "X1396",
            f"there is no {DEFAULT_CONFIG} here, which names the folder to install into",
            help='write one with [discovery] search_paths = ["./extensions"], or name another file '
            "with --config",
        )
    configured = read_extensions(args)
    package = read_package(Path(args.folder))
    folder = Path(package.home)
    target = install_path(configured.config, package.id)
    _check_target(configured, package.id, folder, target, update=args.update)
    size_text = "" if args.link else check_copy(folder, target, args.max_size)
    if not args.dry_run:
        if args.link:
            install_link(folder, target)
        else:
            install_copy(folder, target, args.max_size)
    enabled = args.enable and not args.dry_run and set_enabled(args, package.id, True)
    row = {
        "id": package.id,
        "version": package.spec.version,
        "path": str(target),
        "source": str(folder),
        "linked": args.link,
        "enabled": enabled,
        "installed": not args.dry_run,
    }
    if args.json:
        show_json(row)
    else:
        method = f"a link to {folder}" if args.link else f"a copy of {folder} ({size_text})"
        show_result(
            f"{package.id}: {'would be ' if args.dry_run else ''}installed to {target}, {method}"
        )
    if not args.dry_run:
        _report_if_unused(args, package.id)
        record_extensions(args, [package.id])
        suggest_reload(args)
    return 0


def _check_target(
    configured: ConfiguredExtensions, id: str, folder: Path, target: Path, *, update: bool
) -> None:
    """Raise UsageError if the folder is already in the search path, if another extension has this
    id, or if the target exists. With `update`, raise NotFound unless the target exists."""
    if is_inside(str(folder), str(target.parent)):
        raise UsageError(
            "X1396",
            f"{folder} is in the search path {target.parent} already",
            extension=id,
            help="exthost list shows whether it is used, and why not",
        )
    paths_by_id = {spec.id: spec.origin for spec in configured.config.specs}
    discovered = (*configured.report.candidates, *configured.report.disabled_candidates)
    paths_by_id |= {
        candidate.id: candidate.path
        for candidate in discovered
        if not is_inside(candidate.path, str(target))
    }
    target_exists = target.is_symlink() or target.exists()
    is_id_free = id not in paths_by_id
    # An update needs a target that exists, and a new installation needs one that does not.
    if is_id_free and update == target_exists:
        return
    if is_id_free and update:
        raise NotFound(
            "X1206",
            f"there is no {target} to update: {id!r} is not installed",
            extension=id,
            help="remove --update to install it",
            evidence=Evidence(path=str(target)),
        )
    raise UsageError(
        "X1312",
        f"there is an extension {id!r} already: {paths_by_id.get(id, target)}",
        extension=id,
        help="use --update to replace it"
        if is_id_free
        else "only one of the two can be used: remove the other first",
        evidence=Evidence(path=paths_by_id.get(id, str(target))),
    )


def _report_if_unused(args: Args, id: str) -> None:
    """If the installed extension is not used, print the reason."""
    configured = read_extensions(args)
    if any(candidate.id == id for candidate in configured.report.candidates):
        return
    if any(candidate.id == id for candidate in configured.report.disabled_candidates):
        say(f"{id} is disabled: exthost enable {shlex.quote(id)}")
    else:
        say(f"{id} is not used: an allowlist, or another setting of the search, excludes it")
