"""Delete an extension's folder from the search path; if it is a link, only the link is deleted.

  exthost uninstall NAME --yes

An entry of the config is taken out with `exthost remove`.
"""

import argparse
import shlex
from pathlib import Path

from exthost.config import Config
from exthost.config.discovery.configfile import ConfiguredExtensions
from exthost.config.discovery.report import Candidate
from exthost.config.discovery.search import base_folders, resolve_search_path
from exthost.errors import Evidence, NotFound, UsageError
from exthost.faces.cli.common import Args, add_config_option, show_json, show_result
from exthost.faces.cli.config_edit import suggest_reload
from exthost.faces.cli.lock_edit import drop_records, package_ids
from exthost.faces.cli.package_folders import delete_package
from exthost.faces.cli.target_specs import read_extensions
from exthost.model.names import nearest


class UninstallArgs(Args):
    """The parsed arguments of this verb (a subcommand of exthost)."""

    yes: bool


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the extension")
    parser.add_argument("--yes", action="store_true", help="really delete it")
    add_config_option(parser)


def run(args: UninstallArgs) -> int:
    configured = read_extensions(args)
    package = _find_package(configured, args.name)
    target = Path(package.folder)
    _check_not_search_path(configured.config, target)
    target_type = "the link" if target.is_symlink() else "the folder"
    if not args.yes:
        raise UsageError(
            "X1397",
            f"this deletes {target_type} {target}",
            extension=package.id,
            help=f"exthost uninstall {shlex.quote(package.id)} --yes",
            evidence=Evidence(path=str(target)),
        )
    delete_package(target)
    if args.json:
        show_json({"id": package.id, "path": str(target), "uninstalled": True})
    else:
        show_result(f"{package.id}: deleted {target_type} {target}")
    drop_records(args, package_ids(configured, package.id))
    suggest_reload(args)
    return 0


def _check_not_search_path(config: Config, target: Path) -> None:
    """Raise UsageError if the folder is a search path itself, because it may contain other
    extensions."""
    settings = config.discovery
    assert settings is not None, "it was found by discovery"
    bases = base_folders(settings, config.folder or ".")
    if str(target) in [resolve_search_path(path, bases) for path in settings.search_paths]:
        raise UsageError(
            "X1396",
            f"{target} is a search path, and is not deleted",
            help="delete it by hand, or take it out of search_paths",
            evidence=Evidence(path=str(target)),
        )


def _find_package(configured: ConfiguredExtensions, name: str) -> Candidate:
    """Return the extension of this name that was found in a folder of its own. Raises NotFound."""
    packages = (*configured.report.candidates, *configured.report.disabled_candidates)
    for package in packages:
        # `home` is the real path of the files that belong to this extension alone. It differs from
        # the folder if that contains other extensions, and then the folder must not be deleted.
        if package.id == name and package.home == str(Path(package.folder).resolve()):
            return package
    if any(spec.id == name for spec in configured.config.specs):
        help = f"it is an entry of the config: exthost remove {shlex.quote(name)}"
    else:
        suggestion = nearest(name, [package.id for package in packages])
        help = (
            f"did you mean {suggestion!r}?" if suggestion else "exthost list shows the extensions"
        )
    raise NotFound("X1206", f"no extension {name!r} was found in its own folder", help=help)
