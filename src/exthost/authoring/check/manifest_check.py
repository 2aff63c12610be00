"""Checks the manifest of an extension, before `exthost check` starts anything.

A manifest is the file in which an extension declares its command, its tools and so on. Its mistakes
are the findings of one rule, `manifest`.
"""

from dataclasses import dataclass, replace

from exthost.authoring.check.findings import Finding, Outcome, Report
from exthost.config import DiscoverySettings
from exthost.config.discovery.report import Diagnostic
from exthost.config.discovery.search import discover
from exthost.dialects import find
from exthost.dialects.conformance import Conformance
from exthost.dialects.rules import find_rule
from exthost.errors import ExthostError
from exthost.model.spec import Spec


@dataclass(frozen=True, slots=True)
class ManifestCheck:
    """The outcome of the rule `manifest`, for the report of the other rules."""

    outcome: Outcome

    def add_to(self, report: Report) -> Report:
        """Return the report with this outcome for the rule `manifest`."""
        return replace(
            report,
            outcomes=tuple(
                self.outcome if outcome.rule.name == self.outcome.rule.name else outcome
                for outcome in report.outcomes
            ),
        )


def check_manifest(spec: Spec) -> ManifestCheck:
    """Check the manifest from which the extension was read."""
    rule = find_rule("manifest", find.find_conformance_of(find.find_dialect_of(spec)))
    path = spec.manifest_file
    if not path:
        return ManifestCheck(Outcome(rule, reason="it has none", skipped=True))
    # rpartition returns "" for a file in the root folder.
    folder = path.rpartition("/")[0] or "/"
    formats = find.load_manifest_formats()
    # Some formats require the manifest in a folder of a certain name, inside the extension's
    # folder.
    if any(form.parent and form.parent == folder.rpartition("/")[2] for form in formats):
        folder = folder.rpartition("/")[0] or "/"
    # Only the search reads a manifest with all of its mistakes.
    report = discover(DiscoverySettings(search_paths=(folder,), max_depth=2), formats)
    diagnostics = [
        diagnostic
        for diagnostic in report.diagnostics
        if diagnostic.path == path and diagnostic.is_mistake and not _is_missing_command(diagnostic)
    ]
    findings = tuple(
        Finding(rule, _message(diagnostic), fix=diagnostic.help)
        for diagnostic in _flatten(diagnostics)
    )
    checked_file = "" if findings else path
    return ManifestCheck(Outcome(rule, findings, reason=checked_file))


def _is_missing_command(diagnostic: Diagnostic) -> bool:
    """Return whether the manifest is reported only for having no command. That is not a mistake
    here: the extension has been read, so a config has supplied the command. A diagnostic about a
    missing key has no line."""
    return diagnostic.key == "launch" and not diagnostic.line


def _flatten(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics and those in `more`, the further mistakes of the same manifest."""
    return [diagnostic for first in diagnostics for diagnostic in (first, *first.more)]


def _message(diagnostic: Diagnostic) -> str:
    place = f"{diagnostic.path}:{diagnostic.line}: " if diagnostic.line else ""
    return f"{place}{diagnostic.message} [{diagnostic.code}]"


def make_failed_report(error: ExthostError, target: str, dialect: str) -> Report:
    """Return the report of an extension whose manifest or config is invalid."""
    rule = find_rule("manifest", Conformance())
    evidence = error.evidence
    place = f"{evidence.path}:{evidence.line}: " if evidence.line else ""
    first = Finding(rule, f"{place}{error.message} [{error.code}]", fix=error.help)
    further_findings = tuple(Finding(rule, detail) for detail in evidence.details)
    outcome = Outcome(rule, (first, *further_findings))
    return Report(error.extension or target, dialect or "unknown", (outcome,))
