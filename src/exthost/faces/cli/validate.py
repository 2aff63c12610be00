"""Check manifests without starting anything: a folder, one manifest, or all that the config finds.

Each mistake is shown with file, line and key: the first mistake of each manifest, or with --all
every mistake.
Exits with 3 if anything is invalid.
"""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from exthost.config.discovery.configfile import ConfiguredExtensions
from exthost.config.discovery.report import Diagnostic, SearchReport
from exthost.errors import ManifestError, Refused
from exthost.faces.cli.common import Args, add_config_option, say, show_json, show_table
from exthost.faces.cli.diagnostic_lines import (
    add_all_option,
    diagnostic_as_dict,
    print_diagnostics,
    select_diagnostics,
)
from exthost.faces.cli.placeholder_warnings import placeholder_warnings
from exthost.faces.cli.target_specs import manifests_at, read_extensions
from exthost.launch.plan import check_host_version
from exthost.model.spec import Spec
from exthost.model.tool_choice import find_unused


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a folder or a manifest")
    add_config_option(parser)
    add_all_option(parser)


def run(args: Args) -> int:
    if args.target is None:
        configured = read_extensions(args)
        rows = [*_config_rows(configured), *_discovered_rows(configured.report)]
        specs = list(configured.specs)
        diagnostics = configured.diagnostics
    else:
        report = manifests_at(Path(args.target))
        rows = _discovered_rows(report)
        specs = [candidate.spec for candidate in report.candidates]
        diagnostics = report.diagnostics
    # An extension that requires a newer host is invalid, though its manifest alone is not.
    version_diagnostics = _version_diagnostics(specs)
    rows = [row for row in rows if row[0] not in version_diagnostics]
    unused = [diagnostic for spec in specs for diagnostic in _unused_pattern_diagnostics(spec)]
    diagnostics = (
        *diagnostics,
        *version_diagnostics.values(),
        *unused,
        *placeholder_warnings(specs),
    )
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.level == "error"]
    if args.json:
        valid = [{"id": id, "dialect": dialect, "path": path} for id, dialect, path in rows]
        diagnostic_rows = [
            diagnostic_as_dict(diagnostic)
            for diagnostic in select_diagnostics(diagnostics, include_all=args.all)
        ]
        show_json({"valid": valid, "diagnostics": diagnostic_rows, "ok": not errors})
    else:
        show_table(rows, ("VALID", "DIALECT", "PATH"))
        if not rows and not errors:
            config = "" if args.target else "; the config itself is valid"
            say(f"there are no manifests here{config}; exthost doctor checks the whole config")
        print_diagnostics(select_diagnostics(diagnostics, include_all=args.all), with_help=True)
    return ManifestError.exit_code if errors else 0


def _discovered_rows(report: SearchReport) -> list[tuple[str, str, str]]:
    """Return a row for each valid manifest that the search has found."""
    return [(candidate.id, candidate.dialect, candidate.path) for candidate in report.candidates]


def _config_rows(configured: ConfiguredExtensions) -> list[tuple[str, str, str]]:
    """Return a row for each manifest that an entry of the config names."""
    ids = {spec.id for spec in configured.config.specs}
    specs = [spec for spec in configured.specs if spec.id in ids and spec.manifest_file]
    return [(spec.id, spec.dialect, spec.manifest_file) for spec in specs]


def _unused_pattern_diagnostics(spec: Spec) -> list[Diagnostic]:
    """Return a warning for each pattern in the setting `tools` that fits no tool in the manifest.
    If no manifest declares the tools, only a start makes them known (`exthost doctor --runtime`).
    """
    unused = find_unused(spec.declared_tools, spec.tools) if spec.declared_tools else ()
    return [
        Diagnostic(
            level="warning",
            path=spec.config_file or spec.origin,
            message=f"{spec.id}: {text}",
            code="X1840",
            help=f"the tools of {spec.id}: exthost tools --all {shlex.quote(spec.id)}",
            extension=spec.id,
        )
        for text in unused
    ]


def _version_diagnostics(specs: Sequence[Spec]) -> dict[str, Diagnostic]:
    """Return a diagnostic for each extension that requires a newer version of the host, by its
    id."""
    errors = {}
    for spec in specs:
        try:
            check_host_version(spec)
        except Refused as error:
            errors[spec.id] = Diagnostic(
                level="error",
                path=spec.manifest_file or spec.origin,
                message=error.message,
                code=error.code,
                help=error.help,
                extension=spec.id,
            )
    return errors
