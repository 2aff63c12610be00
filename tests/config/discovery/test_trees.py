"""The search in generated trees of folders, manifests and links agrees with its documentation.

Discovery searches the folder `root` for manifests of extensions, `plugin.toml`. It does not search
too deep, in ignored folders, or inside the folder of another extension. A link must not lead it to
a manifest in the folder `outside`. The tests compare it with `expected_places`, a simple definition
of these rules.
"""

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

NAMES = ("a", "b", "c", "target", "node_modules")  # the last two are ignored by default

# A place is a path below a folder, as a tuple of names.
PLACES = st.lists(st.sampled_from(NAMES), max_size=5).map(tuple)


class Link(NamedTuple):
    """A link at `place`, to a place inside the root or outside of it."""

    place: tuple[str, ...]
    target: tuple[str, ...]
    inside: bool


LINKS = st.builds(Link, PLACES.filter(bool), PLACES, st.booleans())


def write_tree(base: Path, places: set[tuple[str, ...]], links: list[Link]) -> None:
    """Write manifests at these places, in the folders `root` and `outside`, and the links."""
    for number, place in enumerate(sorted(places)):
        for root in ("root", "outside"):
            folder = base.joinpath(root, *place)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "plugin.toml").write_text(
                f'[plugin]\nid = "e{number}-{root}"\nversion = "1.0.0"\n'
                '[capabilities]\ntools = ["a"]\n[transport]\nkind = "stdio"\ncommand = "x"\n'
            )
    for link in links:
        path = base.joinpath("root", *link.place)
        if not path.exists() and not path.is_symlink() and path.parent.is_dir():
            path.symlink_to(base.joinpath("root" if link.inside else "outside", *link.target))


def search(base: Path, *, depth: int, follow: bool) -> SearchReport:
    """Search the folder `root`."""
    root = (str(base / "root"),)
    settings = DiscoverySettings(search_paths=root, max_depth=depth, follow_links=follow)
    return discover(settings, [FORMAT])


def expected_places(places: set[tuple[str, ...]], depth: int) -> set[tuple[str, ...]]:
    """Return the places that are not too deep, not in an ignored folder, and not in another."""
    ignored = {"target", "node_modules"}
    reached = {
        place
        for place in places
        if len(place) + 1 <= depth and not ignored & set(place)  # the file counts, too
    }

    def is_nested(place: tuple[str, ...]) -> bool:
        return any(place[: len(outer)] == outer for outer in reached - {place})

    return {place for place in reached if not is_nested(place)}


@shows("nexo-disc-02", "nexo-disc-06", "nexo-disc-10")
@settings(max_examples=60, deadline=None)
@given(places=st.sets(PLACES, max_size=8), depth=st.integers(0, 6))
def test_depth_ignored_folders_and_nesting_follow_the_documented_rules(
    places: set[tuple[str, ...]], depth: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        (base / "root").mkdir()
        write_tree(base, places, [])
        report = search(base, depth=depth, follow=False)
        found_places = {
            Path(candidate.folder).relative_to(base / "root").parts
            for candidate in report.candidates
        }
        assert found_places == expected_places(places, depth)
        ids = [candidate.id for candidate in report.candidates]
        assert ids == sorted(ids) and not report.diagnostics


@shows("nexo-disc-03")
@settings(max_examples=60, deadline=None)
@given(places=st.sets(PLACES, max_size=6), links=st.lists(LINKS, max_size=5), follow=st.booleans())
def test_no_link_leads_out_of_the_root_and_only_such_links_are_errors(
    places: set[tuple[str, ...]], links: list[Link], follow: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        (base / "root").mkdir()
        (base / "outside").mkdir()
        write_tree(base, places, links)
        report = search(base, depth=6, follow=follow)
        for candidate in report.candidates:
            assert Path(candidate.path).resolve().is_relative_to(base / "root")
            assert candidate.id.endswith("-root")
        if not follow:
            assert not report.diagnostics
            found_places = {
                Path(candidate.folder).relative_to(base / "root").parts
                for candidate in report.candidates
            }
            assert found_places == expected_places(places, 6)
        for diagnostic in report.diagnostics:
            if diagnostic.code == "X0203":  # the link leads out of the root
                assert diagnostic.level == "error"
                assert not Path(diagnostic.path).resolve().is_relative_to(base / "root")
            else:  # a link to nothing, or an id that is found twice
                assert diagnostic.level == "warning"
