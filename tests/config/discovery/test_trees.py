"""Trees made by chance, of folders, manifests and links, against what the page says of them."""

import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.config import DiscoverySettings
from exthost.config.discovery.report import SearchReport
from exthost.config.discovery.search import discover
from exthost.dialects.nexo.manifest import FORMAT
from tests.dialects.requirements import shows

NAMES = ("a", "b", "c", "target", "node_modules")
PLACES = st.lists(st.sampled_from(NAMES), max_size=5).map(tuple)


class Link(NamedTuple):
    """A link at `place`, to a place inside the root or beside it."""

    place: tuple[str, ...]
    target: tuple[str, ...]
    inside: bool


LINKS = st.builds(Link, PLACES.filter(bool), PLACES, st.booleans())


def plant(base: Path, places: set[tuple[str, ...]], links: list[Link]) -> None:
    for number, place in enumerate(sorted(places)):
        for root in ("root", "beside"):
            folder = base.joinpath(root, *place)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "plugin.toml").write_text(
                f'[plugin]\nid = "e{number}-{root}"\nversion = "1.0.0"\n'
                '[capabilities]\ntools = ["a"]\n[transport]\nkind = "stdio"\ncommand = "x"\n'
            )
    for link in links:
        at = base.joinpath("root", *link.place)
        if not at.exists() and not at.is_symlink() and at.parent.is_dir():
            at.symlink_to(base.joinpath("root" if link.inside else "beside", *link.target))


def found(base: Path, *, depth: int, follow: bool) -> SearchReport:
    root = (str(base / "root"),)
    output = DiscoverySettings(search_paths=root, max_depth=depth, follow_links=follow)
    return discover(output, [FORMAT])


def expected(places: set[tuple[str, ...]], depth: int) -> set[tuple[str, ...]]:
    """By comparing each with each: near enough, not in an ignored folder, not inside another."""
    ignored = {"target", "node_modules"}
    met = {p for p in places if len(p) + 1 <= depth and not ignored & set(p)}
    return {p for p in met if not any(p[: len(q)] == q for q in met - {p})}


@shows("nexo-disc-02", "nexo-disc-06", "nexo-disc-10")
@settings(max_examples=60, deadline=None)
@given(places=st.sets(PLACES, max_size=8), depth=st.integers(0, 6))
def test_depth_ignored_folders_and_nesting_agree_with_the_page(
    places: set[tuple[str, ...]], depth: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        (base / "root").mkdir()
        plant(base, places, [])
        report = found(base, depth=depth, follow=False)
        kept = {
            Path(candidate.folder).relative_to(base / "root").parts
            for candidate in report.candidates
        }
        assert kept == expected(places, depth)
        ids = [candidate.id for candidate in report.candidates]
        assert ids == sorted(ids) and not report.diagnostics


@shows("nexo-disc-03")
@settings(max_examples=60, deadline=None)
@given(places=st.sets(PLACES, max_size=6), links=st.lists(LINKS, max_size=5), follow=st.booleans())
def test_no_link_leads_out_of_the_root_and_every_such_link_is_reported(
    places: set[tuple[str, ...]], links: list[Link], follow: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        (base / "root").mkdir()
        (base / "beside").mkdir()
        plant(base, places, links)
        report = found(base, depth=6, follow=follow)
        for candidate in report.candidates:
            assert Path(candidate.path).resolve().is_relative_to(base / "root")
            assert candidate.id.endswith("-root")
        if not follow:
            assert not report.diagnostics
            kept = {
                Path(candidate.folder).relative_to(base / "root").parts
                for candidate in report.candidates
            }
            assert kept == expected(places, 6)
        for reported in report.diagnostics:
            if reported.code == "X0203":
                assert reported.level == "error"
                assert not Path(reported.path).resolve().is_relative_to(base / "root")
            else:  # a link to nothing, or one id that is reached in two ways
                assert reported.level == "warning"
