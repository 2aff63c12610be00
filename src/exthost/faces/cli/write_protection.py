"""Finds the files that a config uses, so that `exthost call --write` does not overwrite them: the
config, the programs of its extensions, and the folders that are searched for extensions.

`--write` writes the files that the result of a tool contains. A result could otherwise contain a
program that the next command runs without a sandbox. Names that are protected everywhere, such as
those of manifests, are in `host/protected_files.py`.
"""

import os
from collections.abc import Iterator

from exthost.config import DiscoverySettings
from exthost.config.discovery.search import base_folders, expand_search_path
from exthost.dialects import find
from exthost.faces.cli.common import Args, config_path
from exthost.faces.cli.target_specs import has_config, read_extensions
from exthost.launch.program_files import program_files
from exthost.model.spec import Spec


def find_protected_paths(args: Args) -> tuple[str, ...]:
    """Return the real paths of the config, of the folders that it searches for extensions, and of
    the programs and packages of its extensions. Without a config, return the folders that are
    searched by default. Raises the error of a config that cannot be read, because then it is
    unknown what must not be written."""
    paths = [os.path.realpath(config_path(args))]
    settings: DiscoverySettings | None = DiscoverySettings()
    if has_config(args):
        configured = read_extensions(args)
        settings = configured.config.discovery
        for spec in configured.specs:
            paths += _files_of(spec)
    if settings is not None:
        paths += _searched_folders(settings, os.path.dirname(paths[0]))  # noqa: PTH120
    return tuple(paths)


def _files_of(spec: Spec) -> Iterator[str]:
    """Yield the program of an extension, its script if it has one, and its package."""
    if spec.package is not None:
        yield spec.package.root
    if spec.argv:
        for file in program_files(spec.argv, spec.cwd):
            yield os.path.realpath(os.path.join(spec.cwd or ".", file))  # noqa: PTH118


def _searched_folders(settings: DiscoverySettings, base: str) -> Iterator[str]:
    """Yield the folders that are searched for extensions, also those that do not exist yet."""
    bases = base_folders(settings, base)
    formats = find.load_manifest_formats()
    for search_path in settings.search_paths:
        if search_path.startswith("$"):
            roots = expand_search_path(search_path, bases, formats)
            yield from (root for root in roots if isinstance(root, str))
        else:
            for folder in bases:
                yield os.path.realpath(os.path.join(folder, os.path.expanduser(search_path)))  # noqa: PTH111, PTH118
