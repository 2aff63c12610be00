"""Pins: refuses an extension whose files or tools differ from pinned digests.

`sha256` in the config is one digest, of the program, or a table: `program`, `manifest`, `tools`.
The program is the file that runs: the script, if an interpreter runs one (`program_files`), and no
other file among the arguments.

Files are checked before every start. The tools are checked after the handshake, against the pinned
digest or against what the same pinned extension offered first: a tool whose description changes
after a restart is a known attack.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from exthost.errors import Evidence, Refused
from exthost.launch.program_files import program_files
from exthost.launch_plan import LaunchPlan
from exthost.offer import Tool
from exthost.spec import Pins, Spec

__all__ = ["check_files", "check_tools", "digests", "file_digest", "tools_digest"]

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Mismatch:
    what: str
    path: str
    pinned: str
    found: str


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file; "" if it cannot be read."""
    found = hashlib.sha256()
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            while data := file.read(_CHUNK_BYTES):
                found.update(data)
    except OSError:
        return ""
    return found.hexdigest()


def tools_digest(tools: Iterable[Tool]) -> str:
    """Return one SHA-256 of the names, descriptions and schemas of all tools."""
    descriptions = sorted(
        json.dumps(
            [tool.name, tool.description, tool.input_schema, tool.output_schema],
            sort_keys=True,
            default=str,
        )
        for tool in tools
    )
    return hashlib.sha256(json.dumps(descriptions).encode()).hexdigest()


def digests(spec: Spec, plan: LaunchPlan, tools: Iterable[Tool]) -> dict[str, str]:
    """Return the current digests, by the keys of the config table."""
    found = {"program": file_digest(_program(plan)), "tools": tools_digest(tools)}
    if spec.manifest_file:
        found["manifest"] = file_digest(spec.manifest_file)
    return found


def check_files(spec: Spec, plan: LaunchPlan) -> None:
    """Raise Refused unless the files match their pins."""
    pin = spec.sha256
    if pin is None:
        return
    pins = pin if isinstance(pin, Pins) else Pins(program=pin)
    for what, path, pinned in (
        ("program", _program(plan), pins.program),
        ("manifest", spec.manifest_file, pins.manifest),
    ):
        found = file_digest(path) if pinned else ""
        if pinned and found != pinned:
            raise _refused(spec, _Mismatch(what, path, pinned, found))


def check_tools(spec: Spec, tools: Iterable[Tool], first: str) -> str:
    """Raise Refused if the tools of a pinned extension differ from the pinned digest or, without
    one, from `first`, the digest of what it offered first. Return the digest to compare with next
    time."""
    if spec.sha256 is None:
        return ""
    wanted = spec.sha256.tools if isinstance(spec.sha256, Pins) else ""
    found = tools_digest(tools)
    known = wanted or first
    if known and found != known:
        expected = "pinned" if wanted else "at its first start"
        raise Refused(
            "X0387",
            f"its tools have changed: {expected} {known}, now {found}",
            extension=spec.id,
            help="see what changed (exthost inspect), then pin the new digest or remove the pin",
        )
    return known or found


def _refused(spec: Spec, mismatch: _Mismatch) -> Refused:
    found = mismatch.found or "unreadable"
    return Refused(
        "X0386",
        f"its {mismatch.what} {mismatch.path} is not the one that was pinned: "
        f"pinned {mismatch.pinned}, found {found}",
        extension=spec.id,
        help="if you trust the change, pin the new digest; else put the file back",
        evidence=Evidence(path=mismatch.path, key="sha256"),
    )


def _program(plan: LaunchPlan) -> str:
    """Return the file that contains the extension's code."""
    return program_files(plan.argv, plan.cwd)[-1]
