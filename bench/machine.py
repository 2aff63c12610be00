"""The facts about this machine that the numbers depend on."""

import importlib.util
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench import cores

PROC = Path("/proc")


def describe(child: str) -> dict[str, str]:
    """Return the facts, by name. `child` describes the child of the measurements."""
    usable = cores.usable()
    load = os.getloadavg()[0]
    facts = {
        "system": f"{platform.system()} {platform.machine()}",
        "kernel": platform.release(),
        "processor": read_processor(_processor_text()) or platform.processor() or "unknown",
        "python": platform.python_version(),
        "child": child,
        "cores": str(len(usable)) if usable else "not pinned: this system has no affinity",
        "priority": _priority(),
        "load": f"{load:.1f}",
    }
    if len(usable) == 1:
        facts["cores"] = "1: rows named split are skipped, the others share it"
    if load > 0.5:
        facts["load"] += " (other work is running: expect noise)"
    for name in ("exthost", "uvloop", "msgspec"):
        if importlib.util.find_spec(name) is not None:
            try:
                facts[name] = version(name)
            except PackageNotFoundError:
                facts[name] = "not installed, only importable"
    return facts


def read_processor(text: str) -> str:
    """Return the model of the processor from /proc/cpuinfo, and whether it is virtual; "" if the
    text has no model."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    model = fields.get("model name", "")
    is_virtual = "hypervisor" in fields.get("flags", "").split()
    return f"{model}, virtual" if model and is_virtual else model


def _processor_text() -> str:
    try:
        return (PROC / "cpuinfo").read_text()
    except OSError:
        return ""


def _priority() -> str:
    """Return whether this process runs before other programs."""
    if hasattr(os, "sched_getscheduler"):
        # A process that was forked has the policy of its parent, sometimes with this flag.
        policy = os.sched_getscheduler(0) & ~getattr(os, "SCHED_RESET_ON_FORK", 0)
        if policy in (os.SCHED_FIFO, os.SCHED_RR):
            return "real-time"
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    return f"niceness {niceness}" if niceness else "ordinary"
