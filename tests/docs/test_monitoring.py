"""Tests of `examples/monitoring`: a dashboard, alerts and a config for Prometheus.

They must name metrics that a host has (`/metrics`), and a real Prometheus must accept them.
"""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import RUN_SECONDS
from tests.faces.web.page_process import page, showcase_config

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
METRICS = Path(__file__).parents[2] / "src" / "exthost" / "faces" / "http_server" / "metrics.py"


def expressions() -> list[str]:
    """Return the queries of the dashboard."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_of_the_examples_is_one_of_the_host() -> None:
    known = set(re.findall(r'"(exthost_\w+)"', METRICS.read_text()))
    text = "\n".join([*expressions(), (FOLDER / "alerts.yml").read_text()])
    used = set(re.findall(r"\bexthost_\w+", text))
    assert used and {re.sub(r"_(total|bucket)$", "", name) for name in used} <= known


@pytest.mark.more
def test_prometheus_accepts_the_rules_and_each_of_them_fires() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool (Debian: apt install prometheus)")
    for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        result = subprocess.run(
            [promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=60
        )
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.more
def test_a_real_prometheus_scrapes_a_host_and_answers_the_queries_of_the_dashboard(
    tmp_path: Path,
) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus (Debian: apt install prometheus)")
    showcase_config(tmp_path)
    with page(tmp_path) as running:
        address = running.url.removeprefix("http://").rstrip("/")
        config = (FOLDER / "prometheus.yml").read_text().replace("127.0.0.1:8766", address)
        config = "global: { scrape_interval: 1s }\n" + config.replace(
            "rule_files: [alerts.yml]", ""
        )
        (tmp_path / "prometheus.yml").write_text(config)
        (tmp_path / "token").write_text(running.token)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        options = [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={tmp_path}/data"]
        with subprocess.Popen(
            [program, "--config.file=prometheus.yml", *options],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                wait_for_value(port, 'exthost_extension_ready{extension="showcase"} == 1')
                for expression in expressions():
                    filled = expression.replace("$__rate_interval", "1m")
                    query(port, re.sub(r"\$(instance|extension)", ".*", filled))
            finally:
                process.terminate()


def query(port: int, expression: str) -> list[object]:
    """Return the result of a query. Raises HTTPError if Prometheus does not understand it."""
    text = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}/api/v1/query?{text}", timeout=30
    ) as reply:
        result: list[object] = json.load(reply)["data"]["result"]
    return result


def wait_for_value(port: int, expression: str) -> None:
    """Wait until a query has a result. Prometheus scrapes once a second."""
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline:
        try:
            if query(port, expression):
                return
        except OSError:  # it does not listen yet
            pass
        time.sleep(0.1)
    raise AssertionError(f"no result: {expression}")
