"""A toy dialect for tests, with progress and cancellation: JSON-RPC in lines.

A dialect is the protocol that an extension speaks; the extension here is `stepper_child.py`.
`installed` installs it for a test as a third-party package, with an entry point.
"""

import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from exthost.dialects.meanings import Progress
from exthost.model.shutdown_steps import CloseStdin
from exthost.model.spec import Limits, Spec
from exthost.wire.lines import Lines
from tests.toys import askback

CHILD = Path(__file__).parent / "stepper_child.py"


def _progress(params: Any) -> Progress:
    return Progress(params["call"], params["done"], params.get("of"), params.get("at", ""))


DIALECT = replace(
    askback.DIALECT,
    name="stepper",
    framing=Lines,
    streams=MappingProxyType({}),
    notifications=MappingProxyType({"progress": _progress}),
    traits=replace(
        askback.DIALECT.traits,
        limits=Limits(handshake=20, call=20, max_message=2**20, max_in_flight=100),
        shutdown_steps=(CloseStdin(wait=5),),
    ),
)


def spec(id: str) -> Spec:
    """Return the toy as an extension."""
    return Spec(id=id, argv=(sys.executable, "-S", "-E", str(CHILD)), dialect="stepper")


def installed(folder: Path) -> Path:
    """Write the metadata of an installed package. The caller puts `folder` into `sys.path`."""
    info = folder / "exthost_toys-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: exthost-toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[exthost.dialects]\nstepper = {__name__}:DIALECT\n"
        "[exthost.sdk.dialects]\nstepper = tests.toys.stepper_sdk:DIALECT\n"
    )
    return folder
