"""Three simulated nodes, an extension with a process on each, and one node killed under load.

Run it with `make cluster-demo`. Every call that was issued has ended exactly once.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from exthost import Host
from exthost.errors import ExthostError

PROGRAM = Path(__file__).parent / "morphir" / "text.py"
CONFIG = {
    "extensions": [
        {
            "name": "text",
            "dialect": "morphir",
            "source": {"type": "process", "command": sys.executable, "args": [str(PROGRAM)]},
            "pool": {"engine": "local", "min": 3, "max": 3, "per_node": 2},
            "restart": {"strategy": "immediate", "max_retries": 10},
        }
    ]
}


def kill_a_node() -> None:
    """Kill one of the processes that simulate nodes."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for pid in map(int, children):
        if b"exthost.cluster.agent" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            return


async def main() -> None:
    """Print a line every second, and a summary at the end."""
    outcomes: Counter[str] = Counter()
    issued = 0
    is_over = asyncio.Event()

    async def issue_calls(host: Host) -> None:
        nonlocal issued
        while not is_over.is_set():
            issued += 1
            try:
                await host["text"].call("shout", {"text": "hi"})
                outcomes["result"] += 1
            except ExthostError as error:
                outcomes[type(error).__name__] += 1

    async with Host.from_config(CONFIG) as host:
        tasks = [asyncio.create_task(issue_calls(host)) for _ in range(20)]
        print("second  processes by node                       calls  outcomes")
        for second in range(1, 9):
            await asyncio.sleep(1)
            if second == 3:
                kill_a_node()
            nodes = ", ".join(f"{name} {n}" for name, n in sorted(host["text"].stats.nodes.items()))
            note = "  (one node killed)" if second == 3 else ""
            print(f"{second:6}  {nodes:38}  {issued:6}  {dict(outcomes)}{note}")
        is_over.set()
        await asyncio.gather(*tasks)
    print(f"issued {issued}, ended {sum(outcomes.values())}: {dict(outcomes)}")


asyncio.run(main())
