"""The command: fuzz each target for a while, two at a time, print a table, tell by the exit code.

    python -m fuzz [--seconds 30] [PATTERN …]

An input that made something else than our own errors escape is shown, kept, and fails the run.
"""

import argparse
import concurrent.futures
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from exthost.authoring.testing.peers import PEERS
from fuzz.seeds import plant

ROOT = Path(__file__).parents[1]
TARGETS = [f"{name}-{role}" for name in PEERS for role in ("host", "guest")]

# Far beyond what a target needs; a frame that makes it take more is a finding.
_MEMORY_MB = 1024


def fuzz(name: str, seconds: int) -> tuple[bool, str]:
    """Fuzz one target. Return whether it passed, and a line about it for the table."""
    corpus = Path(tempfile.mkdtemp(prefix=f"exthost-fuzz-{name}-"))
    plant(name, corpus)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "fuzz.target", name, str(corpus)),
            *(f"-max_total_time={seconds}", "-timeout=10", f"-rss_limit_mb={_MEMORY_MB}"),
            *("-max_len=4096", f"-artifact_prefix={corpus}/found-", "-print_final_stats=1"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds + 120,
        check=False,
    )
    output = ran.stdout + ran.stderr
    runs = re.findall(r"number_of_executed_units:\s*(\d+)", output)
    covered = re.findall(r"cov: (\d+)", output)
    if ran.returncode == 0 and runs:
        return True, f"{int(runs[-1]):>12,} inputs, {covered[-1] if covered else '?'} places"
    return False, f"exit {ran.returncode}; inputs in {corpus}\n{output[-3000:]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="targets that contain it")
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    args = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: make fuzz installs it", file=sys.stderr)
        return 2
    chosen = [
        name
        for name in TARGETS
        if not args.patterns or any(pattern in name for pattern in args.patterns)
    ]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, (ok, summary) in zip(
            chosen, pool.map(lambda name: fuzz(name, args.seconds), chosen), strict=True
        ):
            failed += not ok
            print(f"{'ok  ' if ok else 'FAIL'}  {name:16} {summary}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} targets passed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
