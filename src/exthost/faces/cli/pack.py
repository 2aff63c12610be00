"""Write the files by which an MCP server is published, into the folder bundle of its project.

  exthost pack FOLDER --namespace io.github.you

  NAME-VERSION.mcpb  a bundle, which clients install by a click: a zip with the program
  manifest.json      the manifest of the bundle
  server.json        the entry for a registry of MCP servers

The server is started once, to learn its version and its tools. A bundle contains the program,
README and LICENSE; that of a program in Python also contains the SDK. A server in Go or Rust is
published as its bundle: --url is the address from which it will be downloaded.
"""

import argparse
import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import exthost_sdk

from exthost.authoring import mcp_bundle
from exthost.errors import UsageError
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_start_timeout_option,
    say,
    show_json,
    write_help,
)
from exthost.faces.cli.own_sdk import lend_sdk
from exthost.faces.cli.started_extension import start_extension
from exthost.faces.cli.target_specs import find_unlocked_spec
from exthost.faces.cli.verb_loop import run_async
from exthost.model.offer import Offer
from exthost.model.spec import Spec

# The namespace that server.json gets without --namespace, for the author to replace.
_PLACEHOLDER = "io.github.OWNER"


class PackArgs(Args):
    """The parsed arguments of this verb (a subcommand of exthost).

    namespace  the part of the name in a registry before the slash
    url        where the bundle will be downloaded; "" if a registry of packages has the server
    output     the folder to write into; None for the folder bundle of the project
    """

    namespace: str
    url: str
    output: str | None


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="FOLDER", default=".", help="default: here")
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        default=_PLACEHOLDER,
        help="whose server it is, such as io.github.you or com.example",
    )
    parser.add_argument("--url", metavar="URL", default="", help="where the bundle will be")
    parser.add_argument("--output", metavar="FOLDER", help="where to write (default: bundle in it)")
    add_start_timeout_option(parser)
    add_config_option(parser)


def run(args: PackArgs) -> int:
    args.command = []
    folder = Path(args.target or ".").resolve()
    if not folder.is_dir():
        raise UsageError("X1900", f"{folder} is not a folder", help="exthost pack FOLDER")
    try:
        spec = find_unlocked_spec(args, str(folder))
    except UsageError as error:  # the folder has several extensions
        error.help = "a bundle has one server: give it a folder of its own"
        raise
    if spec is None or spec.dialect != "mcp":
        raise UsageError(
            "X1900",
            f"{folder} is not an MCP server",
            help="only MCP has registries and bundles; docs/publish.md has the other dialects",
        )
    project = mcp_bundle.read_project(folder, spec.argv)
    if project.kind == "node":  # what is published is the built program
        spec = replace(spec, argv=("node", project.entry), cwd=str(folder))
    # A program that imports the SDK of exthost without having it installed gets that of exthost.
    with lend_sdk(spec) as spec_with_sdk:
        return run_async(_pack(args, spec_with_sdk, folder, project))


async def _pack(args: PackArgs, spec: Spec, folder: Path, project: mcp_bundle.Project) -> int:
    """Start the server to learn what it offers, and write the files. Return the exit code."""
    async with start_extension(args, spec) as extension:
        offer = extension.offer
    if project.version and project.version != offer.version:
        raise UsageError(
            "X1903",
            f"the project has the version {project.version}, and its program {offer.version}",
            help="build it again, and let the program read the version from one place",
        )
    files = _make_files(args, folder, project, offer)
    target = Path(args.output) if args.output else Path(args.target or ".", "bundle")
    await asyncio.to_thread(_write_files, target, files)
    _report(args, project, [str(target / name) for name in files])
    return 0


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise UsageError(
            "X1904", f"{folder} cannot be written: {error.strerror}", help=write_help(error)
        ) from None


def _make_files(
    args: PackArgs, folder: Path, project: mcp_bundle.Project, offer: Offer
) -> dict[str, bytes]:
    """Return the contents of the files to write, by name."""
    version = project.version or offer.version
    manifest = mcp_bundle.make_manifest(project, version, offer.tools)
    sdk = Path(exthost_sdk.__file__).parent
    bundle = mcp_bundle.make_bundle(folder, project, manifest, sdk)
    digest = hashlib.sha256(bundle).hexdigest()
    entry = mcp_bundle.make_server_json(
        project, version, args.namespace, url=args.url, sha256=digest
    )
    return {
        mcp_bundle.make_bundle_name(project, version): bundle,
        "manifest.json": mcp_bundle.json_bytes(manifest),
        "server.json": mcp_bundle.json_bytes(entry),
    }


def _report(args: PackArgs, project: mcp_bundle.Project, paths: list[str]) -> None:
    if args.json:
        show_json({"written": paths})
        return
    for path in paths:
        print(path)
    if args.namespace == _PLACEHOLDER:
        say(f"replace {_PLACEHOLDER} in server.json, or give --namespace")
    if not project.registry and not args.url:
        say("server.json names no address of the bundle: give --url")
    if project.dependencies:
        names = ", ".join(project.dependencies)
        say(f"warning: the bundle does not contain the packages that it imports: {names}")
