"""Whether finding a manifest costs the same among many. Reported, not judged: 1.00 is constant."""

import tempfile
from pathlib import Path

from bench.rounds import duration, ratios, read_values, take_turns
from bench.row import Reading, Setting
from exthost.config import DiscoverySettings
from exthost.config.discovery.search import discover
from exthost.dialects import find

FEW, MANY = 1_000, 10_000
# Extensions per folder; every tenth of them has another one nested in it.
A_FOLDER = 100
NESTED_EVERY = 10


def _plant(root: Path, count: int) -> None:
    """Create a tree of `count` manifests, of which a tenth is to be pruned."""
    for number in range(count):
        home = root / f"g{number // A_FOLDER}" / f"e{number - number % NESTED_EVERY}"
        folder = home if number % NESTED_EVERY == 0 else home.with_name(f"e{number}")
        if number % NESTED_EVERY == 1:
            folder = home / "inner"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugin.toml").write_text(
            f'[plugin]\nid = "e{number}"\nversion = "1.0.0"\n'
            '[capabilities]\ntools = ["a", "b"]\n'
            '[transport]\nkind = "stdio"\ncommand = "./run"\nargs = ["--fast"]\n'
        )


def _search(root: Path, count: int) -> None:
    report = discover(DiscoverySettings(search_paths=(str(root),)), find.load_manifest_formats())
    expected = count - count // NESTED_EVERY
    assert (report.scanned, len(report.candidates)) == (count, expected), report.diagnostics[:3]


def many_manifests(setting: Setting) -> Reading:
    """The time per manifest of a search: walk, read, check, prune, remove duplicates and sort."""
    with tempfile.TemporaryDirectory(prefix="exthost-bench-") as folder:
        few, many = Path(folder, "few"), Path(folder, "many")
        _plant(few, FEW)
        _plant(many, MANY)
        blocks = {"many": lambda: _search(many, MANY), "few": lambda: _search(few, FEW)}
        took = take_turns(blocks, setting.few)
    each = {"many": [t / MANY for t in took["many"]], "few": [t / FEW for t in took["few"]]}
    absolute = ((f"{MANY:,}", duration(took["many"])), (f"{FEW:,}", duration(took["few"])))
    return read_values(ratios(each["many"], each["few"]), absolute)
