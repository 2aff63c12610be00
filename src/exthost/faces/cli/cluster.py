"""Make the certificates of a cluster, or show its nodes.

  exthost cluster init [FOLDER]           certificates for the host and for the nodes
  exthost cluster init --renew [FOLDER]   new ones of the same authority; running hosts use them
  exthost cluster status                  the nodes, and the processes of a running host on them

A cluster is a set of machines, the nodes. A host runs processes of extensions on them if the config
sets `pool.engine`. Host and nodes prove who they are with certificates. The default FOLDER is
`cluster` in the state folder, where hosts and nodes look for certificates.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from exthost.cluster.certificates import CERTIFICATE_DAYS, make_certificates, renew_certificates
from exthost.cluster.engines import Engines
from exthost.cluster.placer import Node
from exthost.cluster.tls import default_folder
from exthost.config.discovery.configfile import read_config
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    config_path,
    require_config_path,
    show_json,
    show_result,
    show_table,
)
from exthost.faces.cli.verb_loop import run_once
from exthost.host.control.client import NoHost, NoSocket, ask
from exthost.host.control.protocol import ControlRequest

# How long a running host may take to report its processes.
_STATUS_SECONDS = 10.0

_COLUMNS = ("NODE", "ENGINE", "STATE", "FREE", "PROCESSES", "EXTENSIONS")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("init", "status"), help="what to do")
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="init: the folder to write")
    parser.add_argument("--renew", action="store_true", help="init: renew the certificates")
    add_config_option(parser)


def run(args: Args) -> int:
    return _init(args) if args.action == "init" else run_once(_status(args))


def _init(args: Args) -> int:
    folder = Path(args.folder or default_folder()).absolute()
    if args.renew:
        renew_certificates(folder)
    else:
        make_certificates(folder)
    if args.json:
        show_json({"folder": str(folder), "days": CERTIFICATE_DAYS})
        return 0
    show_result(
        f"{folder} has the certificates of host and nodes, for {CERTIFICATE_DAYS} days.\n"
        f"Copy ca.pem, node.pem and node.key to the same folder on every node.\n"
        f"Keep ca.key, which only `exthost cluster init --renew` needs, away from them."
    )
    return 0


async def _status(args: Args) -> int:
    """Print the nodes of the engines (node programs or Ray) that the config's extensions run on."""
    config = read_config(require_config_path(args))
    names = sorted({spec.pool.engine for spec in config.specs if spec.pool.engine is not None})
    engines = Engines(config.cluster)
    try:
        nodes = [(name, node) for name in names for node in await engines.nodes(name)]
    finally:
        await engines.close()
    processes = _processes_by_node(args)
    rows = [
        _node_as_json(engine, node, processes.get(node.name, Counter())) for engine, node in nodes
    ]
    if args.json:
        show_json(rows)
    elif not rows:
        show_result("no extension of the config runs on other nodes (pool.engine)")
    else:
        show_table([_table_cells(row) for row in rows], _COLUMNS)
    return 0


def _processes_by_node(args: Args) -> dict[str, Counter[str]]:
    """Return how many processes each extension of the running host has, by node: {} if no host is
    running."""
    counts: dict[str, Counter[str]] = {}
    try:
        status = ask(config_path(args), ControlRequest("status", ""), timeout=_STATUS_SECONDS)
    except (NoHost, NoSocket):
        return counts
    for row in status["extensions"]:
        for node, count in row["nodes"].items():
            counts.setdefault(node, Counter())[row["id"]] += count
    return counts


def _node_as_json(engine: str, node: Node, processes: Counter[str]) -> dict[str, Any]:
    """Return what --json prints about a node. `processes` counts those of each extension."""
    return {
        "node": node.name,
        "engine": engine,
        "state": "draining" if node.is_draining else "alive",
        "resources": None if node.resources is None else dict(node.resources),
        "free": None if node.free is None else dict(node.free),
        "labels": dict(node.labels),
        "processes": processes.total(),
        "extensions": dict(processes),
    }


def _table_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of `_COLUMNS` for a node."""
    free, total = row["free"] or {}, row["resources"] or {}
    amounts = [
        f"{name} {free.get(name, 0):g}/{total[name]:g}" for name in ("CPU", "GPU") if name in total
    ]
    extensions = ", ".join(f"{name} {count}" for name, count in row["extensions"].items())
    return (
        row["node"],
        row["engine"],
        row["state"],
        ", ".join(amounts) or "-",
        str(row["processes"]),
        extensions or "-",
    )
