"""The check of a manifest, without a process."""

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
