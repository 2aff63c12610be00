"""Tests of `exthost cluster`, for hosts that run extensions on other machines, the nodes.

`cluster init` makes the certificates by which host and nodes know each other, and `cluster status`
shows the nodes. The nodes of the engine "local", as here, are processes on this machine.
"""

import json
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import host_process, run_exthost

# An extension that runs as a pool of two processes.
ENTRY = """
[[extensions]]
name = "text"
dialect = "morphir"
source = { type = "process", command = "python3", args = ["PROGRAM"] }
pool = { engine = "local", min = 2, max = 2 }
"""

PROGRAM = Path(__file__).parents[3] / "examples" / "morphir" / "text.py"


@pytest.mark.more
def test_init_makes_certificates_once_and_renew_makes_new_ones(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    assert "node.pem" in run_exthost(tmp_path, "cluster", "init", str(folder)).stdout
    authority, node = (folder / "ca.pem").read_text(), (folder / "node.pem").read_text()
    assert "X1978" in run_exthost(tmp_path, "cluster", "init", str(folder)).stderr
    assert run_exthost(tmp_path, "cluster", "init", "--renew", str(folder)).returncode == 0
    assert (folder / "ca.pem").read_text() == authority
    assert (folder / "node.pem").read_text() != node


@pytest.mark.more
def test_status_shows_the_nodes_and_the_processes_of_a_running_host(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text(ENTRY.replace("PROGRAM", str(PROGRAM)))
    rows = json.loads(run_exthost(tmp_path, "cluster", "status", "--json").stdout)
    assert [row["node"] for row in rows] == ["local-1", "local-2", "local-3"]
    assert [row["processes"] for row in rows] == [0, 0, 0]
    with host_process(tmp_path):
        output = run_exthost(tmp_path, "cluster", "status").stdout
    assert "local-1" in output and "text" in output, output
    logs = run_exthost(tmp_path, "logs", "text", "--json").stdout.splitlines()
    texts = [json.loads(line)["text"] for line in logs]
    assert sum(" on node local-" in text for text in texts) >= 4  # two starts and two exits


@pytest.mark.more
def test_doctor_reports_missing_certificates(tmp_path: Path) -> None:
    config = ENTRY.replace("PROGRAM", str(PROGRAM)) + '[cluster]\nlisten = "127.0.0.2:0"\n'
    (tmp_path / "exthost.toml").write_text(config + 'certificates = "tls"\n')
    result = run_exthost(tmp_path, "doctor")
    assert "exthost cluster init" in result.stdout and result.returncode == 3, result.stdout
