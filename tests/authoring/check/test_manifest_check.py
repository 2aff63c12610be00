"""The check of an extension's manifest by `exthost check`, without a process.

The manifest here is that of roder, a dialect (a protocol of extensions with manifests).
"""

from pathlib import Path

from exthost.authoring.check.manifest_check import check_manifest
from exthost.model.spec import Spec

MANIFEST = """
id = "text"
name = "Text"
version = "1.0.0"
api_version = "^0.1"

[[provides]]
type = "event_sink"
id = "diary"
"""


def test_a_manifest_that_a_config_names_needs_no_command(tmp_path: Path) -> None:
    path = tmp_path / "roder-extension.toml"
    path.write_text(MANIFEST)
    spec = Spec(id="text", argv=("text",), dialect="roder", manifest_file=str(path))
    outcome = check_manifest(spec).outcome
    assert [finding.message for finding in outcome.findings] == []


def test_an_extension_without_a_manifest_is_not_checked() -> None:
    outcome = check_manifest(Spec(id="text", argv=("text",), dialect="roder")).outcome
    assert outcome.skipped and outcome.reason == "it has none"


def test_a_valid_manifest_is_the_reason_of_the_outcome(tmp_path: Path) -> None:
    path = tmp_path / "roder-extension.toml"
    path.write_text(MANIFEST)
    spec = Spec(id="text", argv=("text",), dialect="roder", manifest_file=str(path))
    outcome = check_manifest(spec).outcome
    assert not outcome.skipped and outcome.reason == str(path)
