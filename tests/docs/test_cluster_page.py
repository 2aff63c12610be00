"""The first config of `docs/cluster.md` and the demo that the page names
(`examples/cluster_demo.py`) run.

A cluster runs extensions on several machines, the nodes. The nodes are here processes on this
machine.
"""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.faces.cli.cli_process import RUN_SECONDS, host_process, run_exthost

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.more  # they take seconds: they start the processes of nodes


def test_the_first_config_runs_and_status_shows_the_node_of_each_process(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    # The first block of the page, which is indented and ends with an empty line.
    config = dedent(page[page.index("    [[extensions]]") :].partition("\n\n")[0])
    program = str(ROOT / "examples" / "morphir" / "text.py")
    (tmp_path / "exthost.toml").write_text(config.replace("examples/morphir/text.py", program))
    with host_process(tmp_path):
        output = run_exthost(tmp_path, "status").stdout
    nodes = re.findall(r"\d+@(local-\d)", output)
    assert nodes and set(nodes) <= {"local-1", "local-2", "local-3"}, output


def test_the_demo_kills_a_node_and_every_call_ends() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "cluster_demo.py")],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "(one node killed)" in result.stdout
    counts = re.search(r"issued (\d+), ended (\d+): .*'result'", result.stdout)
    assert counts is not None and counts[1] == counts[2], result.stdout
