"""The extensions of a config, with what is known of each without starting it."""

import argparse
import os
from typing import Any

from exthost import dialects
from exthost.cli.frame import Asked, config_option, say, show_json, show_table
from exthost.cli.target import read_wanted
from exthost.discovery.report import Diagnostic
from exthost.errors import ExthostError
from exthost.manifests.gate import clash
from exthost.model import Spec
from exthost.supervision.launching import admit
from exthost.supervision.lifecycle import State


def options(parser: argparse.ArgumentParser) -> None:
    config_option(parser)


def run(asked: Asked) -> int:
    found = read_wanted(asked)
    rows: list[dict[str, Any]] = []
    before: list[Spec] = []
    for spec in found.specs:
        rows.append(_row(spec, before))
        if rows[-1]["state"] == State.ADMITTED.value:
            before.append(spec)
    diagnostics = [diagnostic_row(one) for one in found.diagnostics]
    if asked.json:
        show_json({"extensions": rows, "diagnostics": diagnostics})
        return 0
    table = [(row["id"], row["dialect"], row["version"], row["state"], row["path"]) for row in rows]
    show_table(table, ("ID", "DIALECT", "VERSION", "STATE", "PATH"))
    for row in rows:
        if row["reason"]:
            say(f"{row['id']}: {row['reason']}")
    tell_diagnostics(found.diagnostics)
    return 0


def _row(spec: Spec, before: list[Spec]) -> dict[str, Any]:
    state, reason = State.ADMITTED.value, ""
    if not spec.enabled:
        state, reason = "disabled", "enabled = false"
    else:
        try:
            dialects.get(spec.dialect)
            admit(spec, os.environ)
            if (objection := clash(spec, before)) is not None:
                raise objection
        except ExthostError as refused:
            state, reason = State.REFUSED.value, refused.message
    return {
        "id": spec.id,
        "dialect": spec.dialect,
        "version": spec.version,
        "state": state,
        "path": spec.origin or (spec.argv[0] if spec.argv else ""),
        "reason": reason,
    }


def diagnostic_row(one: Diagnostic) -> dict[str, str]:
    return {"level": one.level, "path": one.path, "message": one.message, "code": one.code}


def tell_diagnostics(diagnostics: tuple[Diagnostic, ...]) -> None:
    for one in diagnostics:
        say(f"{one.level}: {one.path}: {one.message}")
