"""One folder in `exthost/dialects` is enough to add a built-in dialect, a protocol of extensions.

exthost has six of them. The seventh here is a copy of the package in `examples/language-server`.
The test runs a new process, because built-in dialects are found when exthost is imported.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "language-server"
NAME = "seventh"

# A program that adds a folder to exthost.dialects, connects to a server by the new dialect, and
# prints where the dialect was found.
PROGRAM = """
import json, sys
import exthost.dialects

exthost.dialects.__path__.append(sys.argv[1])

import exthost
from exthost.dialects import find, sniff
from exthost.model.error_catalog import load
from exthost.host.detection import detection_order
from exthost.authoring.testing.vectors import package_vectors

with exthost.sync_connect(sys.argv[2:], dialect="seventh") as ext:
    ext.documents.open("a.txt", "alpha")
    hover = ext.call_tool("hover", {"path": "a.txt", "line": 0, "character": 0}).data
    facet = type(ext.documents).__name__

print(json.dumps({
    "built_in": find.BUILT_IN,
    "detected": [name for name, _ in detection_order("x")],
    "explained": "LS001" in load(*find.iter_error_tables()),
    "sniffed": sniff.sniff(b"Content-Length: 2").dialects,
    "vectors": len(package_vectors(find.find_package("seventh"))),
    "hover": hover,
    "facet": facet,
}))
"""


def write_dialect(folder: Path) -> None:
    """Write the example's package as a built-in dialect."""
    source = EXAMPLE / "src" / "exthost_language_server"
    for path in source.rglob("*"):
        if path.suffix in (".py", ".toml"):
            text = path.read_text(encoding="utf-8")
            text = text.replace("exthost_language_server", f"exthost.dialects.{NAME}")
            target = folder / NAME / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace('name="language-server"', f'name="{NAME}"'))


@pytest.mark.more  # takes a second
def test_one_folder_makes_a_seventh_dialect(tmp_path: Path) -> None:
    write_dialect(tmp_path)
    server = str(EXAMPLE / "tests" / "small_server.py")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), sys.executable, server],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert NAME in report["built_in"] and len(report["built_in"]) == 7
    assert NAME in report["detected"] and NAME in report["sniffed"]
    assert report["explained"] and report["vectors"] >= 8
    assert (report["hover"], report["facet"]) == ("the word alpha", "SyncDocuments")
