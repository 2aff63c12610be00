"""The walk and the whole search, on real trees. The numbers are the steps of the nexo page."""

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from exthost.config.discovery.links import write_links
from exthost.config.discovery.report import SearchReport
from exthost.config.discovery.search import discover
from exthost.dialects.manifest_format import (
    Accepted,
    ManifestFile,
    ManifestFormat,
    Rejected,
    Verdict,
    manifest_error,
)
from exthost.errors import ManifestError
from exthost.model.spec import Spec


def read_toml(found: ManifestFile) -> Verdict:
    try:
        document = tomllib.loads(found.data.decode())
    except ValueError as error:
        raise manifest_error(found, f"not TOML: {error}", line=1) from None
    if document.get("crash"):
        raise RecursionError("too deep")
    if document.get("not_mine"):
        return None
    errors = [
        manifest_error(found, f"{key} is missing", key=key)
        for key in ("id", "version")
        if key not in document
    ]
    if errors:
        return Rejected(tuple(errors))
    warnings = []
    try:
        beside = found.read_sibling(".mcp.json")
    except ManifestError as error:
        beside = None
        warnings.append(error.message)
    also: tuple[Spec, ...] = ()
    if beside is not None and not beside.startswith(b"{"):
        warnings.append(".mcp.json is not JSON")
    elif beside:
        also = (Spec(id=f"{document['id']}.server", argv=("server",), dialect="mcp"),)
    return Accepted(
        spec=Spec(id=document["id"], argv=("run",), dialect="toy", version=document["version"]),
        also=also,
        warnings=tuple(warnings),
    )


def read_nested(found: ManifestFile) -> Verdict:
    argv = tuple(
        found.folder + "/" + w if found.has_file(w) else w for w in found.data.decode().split()
    )
    return Accepted(spec=Spec(id=found.folder_name, argv=argv, dialect="nested"))


def read_program(found: ManifestFile) -> Verdict:
    assert found.data == b""
    return Accepted(spec=Spec(id=found.name, argv=(found.path,), dialect="program"))


TOML = ManifestFormat(dialect="toy", names=("plugin.toml",), read=read_toml)
NESTED = ManifestFormat(
    dialect="nested", names=("plugin.json",), parent=".toy-plugin", read=read_nested
)
PROGRAM = ManifestFormat(
    dialect="program", names=("toy-provider-*", "toy-lang-*"), executable=True, read=read_program
)
FORMATS = (TOML, NESTED, PROGRAM)


@dataclass(frozen=True, kw_only=True)
class Settings:
    enabled: bool = True
    search_paths: tuple[str, ...] = ()
    ignore_dirs: tuple[str, ...] = ("node_modules", ".git", "target")
    disabled: tuple[str, ...] = ()
    allowlist: tuple[str, ...] = ()
    max_depth: int = 4
    follow_links: bool = False
    prefers_working_folder: bool = False


def manifest(folder: Path, id: str | None = None, text: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "plugin.toml"
    file.write_text(text if text is not None else f'id = "{id or folder.name}"\nversion = "1"\n')
    return file


def program(folder: Path, name: str, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_bytes(b"\x7fELF, never read")
    file.chmod(mode)
    return file


def search(
    *roots: Path, formats: tuple[ManifestFormat, ...] = FORMATS, **settings: object
) -> SearchReport:
    paths = tuple(str(root) for root in roots)
    return discover(Settings(search_paths=paths, **settings), formats)  # type: ignore[arg-type]


def ids(report: SearchReport) -> list[str]:
    return [candidate.id for candidate in report.candidates]


def diagnostics_of(report: SearchReport) -> list[tuple[str, str, str]]:
    return [(d.level, d.code, Path(d.path).name) for d in report.diagnostics]


def watch_scandir(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows by each folder that is listed from now on."""
    listed: list[str] = []
    real = os.scandir

    def scandir(path: str) -> object:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return listed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    yield
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# -- one candidate, whole


def test_a_manifest_becomes_a_candidate_that_knows_its_place(root: Path) -> None:
    file = manifest(root / "weather")
    report = search(root)
    [found] = report.candidates
    assert (found.id, found.dialect, found.root_index) == ("weather", "toy", 0)
    assert (found.path, found.folder, found.home) == (
        str(file),
        str(file.parent),
        str(file.parent),
    )
    assert (found.spec.origin, found.spec.cwd) == (str(file), str(file.parent))
    assert (report.scanned, report.disabled_count, report.invalid) == (1, 0, 0)
    assert report.diagnostics == ()


@pytest.mark.parametrize("origin", ["", "elsewhere"])
@pytest.mark.parametrize("cwd", [None, "", "/tmp"])
def test_origin_and_cwd_of_the_format_are_kept(root: Path, origin: str, cwd: str | None) -> None:
    file = manifest(root / "a")
    output = Spec(id="a", argv=("x",), origin=origin, cwd=cwd)
    fixed = ManifestFormat(
        dialect="t", names=("plugin.toml",), read=lambda found: Accepted(spec=output)
    )
    [found] = search(root, formats=(fixed,)).candidates
    assert found.spec.origin == (origin or str(file))
    assert found.spec.cwd == (str(file.parent) if cwd is None else cwd)


def test_switched_off_nothing_is_read_at_all(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest(root / "a")

    def touched(*args: object, **kwargs: object) -> None:
        raise AssertionError("the disk was touched")

    for name in ("scandir", "open", "stat", "lstat"):
        monkeypatch.setattr(os, name, touched)
    report = discover(Settings(enabled=False, search_paths=(str(root), "/nowhere")), FORMATS)
    monkeypatch.undo()
    assert report == SearchReport()


# -- 1: roots


def test_roots_are_searched_in_order_and_a_missing_one_is_a_warning(tmp_path: Path) -> None:
    manifest(tmp_path / "z" / "one")
    manifest(tmp_path / "a" / "two")
    report = search(tmp_path / "z", tmp_path / "missing", tmp_path / "a")
    assert [(c.id, c.root_index) for c in report.candidates] == [("one", 0), ("two", 2)]
    assert diagnostics_of(report) == [("warning", "X0204", "missing")]


def test_a_root_that_is_a_file_is_a_warning(root: Path) -> None:
    file = manifest(root / "a")
    report = search(file, root)
    assert ids(report) == ["a"]
    assert diagnostics_of(report) == [("warning", "X0204", "plugin.toml")]


def test_a_root_that_no_system_could_open_is_a_warning(root: Path) -> None:
    report = discover(Settings(search_paths=("a\0b", str(root))), FORMATS)
    assert [(d.level, d.code) for d in report.diagnostics] == [("warning", "X0204")]


def test_a_root_is_made_canonical_even_when_links_are_not_followed(tmp_path: Path) -> None:
    file = manifest(tmp_path / "real" / "a")
    (tmp_path / "link").symlink_to("real")
    [found] = search(tmp_path / "link").candidates
    assert found.path == str(file)


def test_relative_roots_count_from_the_base_and_tilde_is_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest(tmp_path / "conf" / "extensions" / "a")
    manifest(tmp_path / "home" / "plugins" / "b")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings = Settings(search_paths=("./extensions", "~/plugins"))
    assert ids(discover(settings, FORMATS, base=str(tmp_path / "conf"))) == ["a", "b"]


# -- 2: the walk


@pytest.mark.parametrize("max_depth", [0, 1, 2, 3, 4])
def test_depth_counts_from_the_root_and_includes_the_file(root: Path, max_depth: int) -> None:
    # One below the other they would prune each other, so each depth has a branch of its own.
    program(root, "toy-provider-1")
    manifest(root / "b", "2")
    manifest(root / "c" / "x", "3")
    manifest(root / "d" / "x" / "y", "4")
    manifest(root / "e" / "x" / "y" / "z", "5")
    found = [i[-1] for i in ids(search(root, max_depth=max_depth))]
    assert sorted(found) == ["1", "2", "3", "4"][:max_depth]


def test_a_depth_beyond_every_tree_costs_nothing(root: Path) -> None:
    manifest(root / "a", "a")
    assert ids(search(root, max_depth=2**31 - 1)) == ["a"]


def test_ignored_folders_are_not_entered_by_their_exact_name(root: Path) -> None:
    for name in ("node_modules", ".git", "target", "targets", "Target"):
        manifest(root / name / "x", f"in-{name}")
    manifest(root / "a" / "target", "deep")
    assert ids(search(root)) == ["in-Target", "in-targets"]


def test_a_root_may_itself_bear_an_ignored_name(tmp_path: Path) -> None:
    manifest(tmp_path / "target" / "a")
    assert ids(search(tmp_path / "target")) == ["a"]


def test_an_unreadable_folder_is_a_warning_and_the_walk_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests may run as root, for whom no folder is unreadable: the system's refusal is played.
    manifest(root / "a")
    manifest(root / "locked" / "b")
    manifest(root / "z")
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = search(root)
    assert ids(report) == ["a", "z"]
    assert diagnostics_of(report) == [("warning", "X0204", "locked")]
    assert "permission denied" in report.diagnostics[0].message


def test_the_report_does_not_depend_on_the_order_of_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Broken ones at two depths, two links to one hidden place, links that lead out.
    manifest(root / "node_modules" / "hidden")
    for n in range(6):
        manifest(root / f"p{n}" / ("deep" if n % 2 else ""), text="broken")
        manifest(root / f"q{n}", "same")
        (root / f"r{n}").symlink_to("node_modules/hidden")
        (root / ("s" if n % 2 else "t")).mkdir(exist_ok=True)
        (root / ("s" if n % 2 else "t") / f"out{n}").symlink_to("/")
    (root / "u").symlink_to("/")
    forwards = search(root, follow_links=True)
    real = os.scandir

    class Backwards:
        def __init__(self, path: str) -> None:
            with real(path) as listing:
                self.entries = sorted(listing, key=lambda e: e.name, reverse=True)

        def __enter__(self) -> "Iterator[os.DirEntry[str]]":
            return iter(self.entries)

        def __exit__(self, *exc: object) -> None: ...

    monkeypatch.setattr(os, "scandir", Backwards)
    backwards = search(root, follow_links=True)
    assert forwards == backwards
    assert [Path(c.folder).name for c in forwards.candidates] == ["r0", "q0"]
    paths = [d.path for d in forwards.diagnostics]
    walk, manifests, shadowed = paths[:7], paths[7:13], paths[13:]
    assert walk == sorted(walk)
    assert Path(walk[-1]).name == "u"
    assert manifests == sorted(manifests)
    assert [Path(path).parent.name for path in shadowed] == ["q1", "q2", "q3", "q4", "q5"]


# -- 3: regular files and links


def test_only_the_exact_name_counts(root: Path) -> None:
    for name in ("Plugin.toml", "plugin.toml.bak", "my-plugin.toml"):
        (manifest(root / name)).rename(root / name / name)
    assert search(root) == SearchReport()


def test_a_folder_or_a_pipe_of_that_name_is_not_a_manifest(root: Path) -> None:
    (root / "a" / "plugin.toml").mkdir(parents=True)
    (root / "b").mkdir()
    os.mkfifo(root / "b" / "plugin.toml")
    assert search(root) == SearchReport()


def test_links_are_not_followed_by_default_and_not_reported(root: Path, tmp_path: Path) -> None:
    outside = manifest(tmp_path / "outside" / "x")
    (root / "folder").symlink_to(outside.parent)
    (root / "f").mkdir()
    (root / "f" / "plugin.toml").symlink_to(outside)
    (root / "toy-provider-x").symlink_to("/bin/sh")
    assert search(root) == SearchReport()


def test_a_link_inside_the_root_is_followed_when_asked(root: Path) -> None:
    file = manifest(root / "node_modules" / "a")
    (root / "b").mkdir()
    (root / "b" / "link").symlink_to(file.parent)
    assert ids(search(root)) == []
    [found] = search(root, follow_links=True).candidates
    assert found.path == str(root / "b" / "link" / "plugin.toml")
    assert found.home == str(file.parent)


def test_a_manifest_that_is_a_link_inside_the_root_is_read(root: Path) -> None:
    manifest(root / "store", "a").rename(root / "store" / "a.toml")
    (root / "b").mkdir()
    (root / "b" / "plugin.toml").symlink_to("../store/a.toml")
    [found] = search(root, follow_links=True).candidates
    assert (found.id, found.folder) == ("a", str(root / "b"))


@pytest.mark.parametrize("kind", ["folder", "manifest", "program"])
def test_a_link_out_of_the_root_is_an_error_and_skipped(
    root: Path, tmp_path: Path, kind: str
) -> None:
    outside = manifest(tmp_path / "outside")
    tool = program(tmp_path / "outside", "tool")
    manifest(root / "fine")
    link, target = {
        "folder": (root / "link", outside.parent),
        "manifest": (root / "m" / "plugin.toml", outside),
        "program": (root / "m" / "toy-provider-x", tool),
    }[kind]
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    report = search(root, follow_links=True)
    assert ids(report) == ["fine"]
    assert diagnostics_of(report) == [("error", "X0203", link.name)]
    assert str(target) in report.diagnostics[0].message


def test_a_root_whose_name_begins_like_ours_is_outside(tmp_path: Path, root: Path) -> None:
    manifest(tmp_path / "root2" / "x")
    (root / "link").symlink_to(tmp_path / "root2")
    assert diagnostics_of(search(root, follow_links=True)) == [("error", "X0203", "link")]


def test_inside_a_folder_that_was_linked_only_its_own_links_are_followed(
    root: Path, tmp_path: Path
) -> None:
    """A recorded link is followed out of the root. What it leads to is a root of its own."""
    linked = tmp_path / "elsewhere" / "linked"
    program(linked / "lib", "tool")
    (linked / "toy-provider-x").symlink_to("lib/tool")
    manifest(tmp_path / "elsewhere" / "other")
    (linked / "out").symlink_to(tmp_path / "elsewhere" / "other")
    (root / "linked").symlink_to(linked)
    write_links(str(root), {"linked": str(linked)})
    assert ids(search(root)) == [], "a recorded link says nothing of others"
    report = search(root, follow_links=True)
    assert ids(report) == ["toy-provider-x"]
    assert diagnostics_of(report) == [("error", "X0203", "out")]


def test_files_behind_a_link_out_of_the_root_are_not_even_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "all").symlink_to("/")
    listed = watch_scandir(monkeypatch)
    search(root, follow_links=True)
    assert listed == [str(root)]


def test_links_elsewhere_that_are_not_manifests_are_ignored(root: Path) -> None:
    (root / "notes.txt").symlink_to("/etc/hostname")
    (root / "gone").symlink_to("/nowhere")
    assert search(root, follow_links=True) == SearchReport()


def test_a_manifest_link_to_nothing_is_a_warning(root: Path) -> None:
    (root / "plugin.toml").symlink_to("gone")
    assert diagnostics_of(search(root, follow_links=True)) == [("warning", "X0204", "plugin.toml")]


@pytest.mark.parametrize("target", ["..", ".", "../..", "../b"])
def test_a_loop_of_links_ends(root: Path, target: str) -> None:
    manifest(root / "a" / "x")
    manifest(root / "b" / "y")
    (root / "a" / "loop").symlink_to(target)
    (root / "b" / "loop").symlink_to("../a")
    report = search(root, follow_links=True, max_depth=50)
    assert ids(report) == ["x", "y"]
    assert report.scanned == 2
    assert [d.code for d in report.diagnostics] == (["X0203"] if target == "../.." else [])


def test_a_link_to_itself_is_a_warning(root: Path) -> None:
    manifest(root / "a")
    (root / "self").symlink_to("self")
    report = search(root, follow_links=True)
    assert ids(report) == ["a"]
    assert diagnostics_of(report) == [("warning", "X0204", "self")]


def test_links_that_multiply_each_other_cost_no_more_than_the_folders(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of 12 folders links to all others: 12^10 paths at this depth, 13 folders.
    for n in range(12):
        manifest(root / f"d{n}")
    for n in range(12):
        for other in range(12):
            (root / f"d{n}" / f"to{other}").symlink_to(f"../d{other}")
    listed = watch_scandir(monkeypatch)
    report = search(root, follow_links=True, max_depth=10)
    assert len(report.candidates) == 12
    assert len(listed) == 13


def test_a_folder_is_met_on_its_shortest_way_so_depth_is_not_lost(root: Path) -> None:
    # Alphabetically the deep way comes first, and from there y would be too deep.
    manifest(root / "z" / "x" / "y", "deep")
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "link").symlink_to("../../z")
    assert ids(search(root, follow_links=True)) == ["deep"]


def test_a_real_folder_is_preferred_to_a_link_beside_it(root: Path) -> None:
    manifest(root / "z")
    (root / "a").symlink_to("z")
    [found] = search(root, follow_links=True).candidates
    assert found.folder == str(root / "z")


@pytest.mark.parametrize("link", ["node_modules", "other"])
def test_a_link_does_not_lead_around_the_ignored_names(root: Path, link: str) -> None:
    target = "other-folder" if link == "node_modules" else "node_modules"
    manifest(root / "deep" / "er" / "still" / "more" / target, "x")
    (root / link).symlink_to(f"deep/er/still/more/{target}")
    assert ids(search(root, follow_links=True)) == []


# -- 4 and 5: what formats say


def test_a_broken_manifest_is_an_error_and_the_others_are_found(root: Path) -> None:
    manifest(root / "a")
    bad = manifest(root / "b", text="id = ")
    manifest(root / "c")
    report = search(root)
    assert ids(report) == ["a", "c"]
    assert (report.scanned, report.invalid) == (3, 1)
    [error] = report.diagnostics
    assert (error.level, error.code, error.path, error.line) == ("error", "X0202", str(bad), 1)


def test_the_first_error_of_a_manifest_leads_and_all_can_be_had(root: Path) -> None:
    manifest(root / "a", text="")
    report = search(root)
    assert [d.key for d in report.diagnostics] == ["id"]
    assert [d.key for d in report.every_diagnostic()] == ["id", "version"]
    assert report.invalid == 1


def test_a_rejection_must_give_a_reason() -> None:
    with pytest.raises(ValueError, match="error"):
        Rejected(())


def test_a_reader_that_fails_costs_one_manifest_but_not_the_search(root: Path) -> None:
    manifest(root / "a", text="crash = true")
    manifest(root / "b")
    report = search(root)
    assert ids(report) == ["b"]
    assert diagnostics_of(report) == [("error", "X0202", "plugin.toml")]
    assert "RecursionError" in report.diagnostics[0].message


def test_an_error_without_a_place_is_about_the_manifest(root: Path) -> None:
    file = manifest(root / "a")

    def read(found: ManifestFile) -> Verdict:
        raise ManifestError("X0202", "no", extension="a", help="mend it")

    [error] = search(
        root, formats=(ManifestFormat(dialect="t", names=("plugin.toml",), read=read),)
    ).diagnostics
    assert (error.path, error.extension, error.help) == (str(file), "a", "mend it")


def test_a_manifest_that_goes_away_meanwhile_was_never_there(root: Path) -> None:
    manifest(root / "a")
    late = manifest(root / "b")

    def read(found: ManifestFile) -> Verdict:
        late.unlink()
        return Accepted(spec=Spec(id="a", argv=()))

    report = search(root, formats=(ManifestFormat(dialect="t", names=("plugin.toml",), read=read),))
    assert ids(report) == ["a"]
    assert (report.diagnostics, report.invalid) == ((), 0)


def test_a_manifest_too_large_to_be_one_is_an_error(root: Path) -> None:
    manifest(root / "a", text="#" * (1024 * 1024 + 1))
    report = search(root)
    assert diagnostics_of(report) == [("error", "X0201", "plugin.toml")]
    assert (report.scanned, report.invalid) == (1, 1)


def test_a_file_that_is_not_an_extension_is_skipped_silently(root: Path) -> None:
    manifest(root / "a", text="not_mine = true")
    assert search(root) == SearchReport(scanned=1)


def test_of_two_formats_for_one_name_the_first_that_wants_it_decides(root: Path) -> None:
    manifest(root / "a", text="not_mine = true")
    manifest(root / "b")
    spare = ManifestFormat(
        dialect="spare",
        names=("plugin.toml",),
        read=lambda found: Accepted(spec=Spec(id=f"spare-{found.folder_name}", argv=())),
    )
    report = search(root, formats=(TOML, spare))
    assert [(c.id, c.dialect) for c in report.candidates] == [("b", "toy"), ("spare-a", "spare")]
    assert report.scanned == 2


def test_a_file_beside_the_manifest_can_bring_further_extensions(root: Path) -> None:
    file = manifest(root / "a")
    (root / "a" / ".mcp.json").write_text("{}")
    [found] = search(root).candidates
    [server] = found.additional_specs
    assert (server.id, server.origin, server.cwd) == ("a.server", str(file), str(file.parent))


def test_a_broken_file_beside_it_is_a_warning_and_the_candidate_stays(root: Path) -> None:
    manifest(root / "a")
    (root / "a" / ".mcp.json").write_text("nonsense")
    report = search(root)
    [found] = report.candidates
    assert found.additional_specs == ()
    assert found.warnings == (".mcp.json is not JSON",)
    assert [(d.level, d.code, d.extension) for d in report.diagnostics] == [
        ("warning", "X0207", "a")
    ]
    assert report.invalid == 0


@pytest.mark.parametrize(("follow", "warnings"), [(False, 0), (True, 1)])
def test_a_link_beside_the_manifest_obeys_the_rules_for_links(
    root: Path, tmp_path: Path, follow: bool, warnings: int
) -> None:
    (tmp_path / "secret").write_text("{}")
    manifest(root / "a")
    (root / "a" / ".mcp.json").symlink_to(tmp_path / "secret")
    [found] = search(root, follow_links=follow).candidates
    assert found.additional_specs == ()
    assert len(found.warnings) == warnings


def test_a_link_beside_the_manifest_that_stays_inside_is_read_when_asked(root: Path) -> None:
    manifest(root / "a")
    (root / "shared.json").write_text("{}")
    (root / "a" / ".mcp.json").symlink_to("../shared.json")
    [found] = search(root, follow_links=True).candidates
    assert [spec.id for spec in found.additional_specs] == ["a.server"]


@pytest.mark.parametrize("name", ["../other", "", ".", "..", "/etc/passwd"])
def test_a_sibling_is_a_plain_name(root: Path, name: str) -> None:
    manifest(root / "a")
    nosy = ManifestFormat(
        dialect="nosy",
        names=("plugin.toml",),
        read=lambda found: Accepted(spec=Spec(id=str(found.read_sibling(name)), argv=())),
    )
    report = search(root, formats=(nosy,))
    assert report.candidates == ()
    assert "plain file name" in report.diagnostics[0].message


# -- formats whose manifest is not simply a file in the extension's folder


def test_a_manifest_in_a_folder_of_its_own_belongs_to_the_folder_above(root: Path) -> None:
    place = root / "clock" / ".toy-plugin"
    place.mkdir(parents=True)
    (place / "plugin.json").write_text("python3 main.py lib/a.py --x .")
    (root / "clock" / "lib").mkdir()
    (root / "clock" / "main.py").touch()
    (root / "clock" / "lib" / "a.py").touch()
    [found] = search(root).candidates
    assert (found.id, found.dialect) == ("clock", "nested")
    assert found.folder == found.home == found.spec.cwd == str(root / "clock")
    main, lib = str(root / "clock" / "main.py"), str(root / "clock" / "lib" / "a.py")
    assert found.spec.argv == ("python3", main, lib, "--x", ".")


def test_only_files_that_really_are_in_the_folder_belong_to_it(root: Path) -> None:
    place = root / "clock" / ".toy-plugin"
    place.mkdir(parents=True)
    words = ("../other/main.py", "/lib/a.py", "linked.py", "lib", "a\0b", "x" * 5000)
    (place / "plugin.json").write_text(" ".join(words))
    (root / "other").mkdir()
    (root / "other" / "main.py").touch()
    (root / "clock" / "lib").mkdir()
    (root / "clock" / "lib" / "a.py").touch()
    (root / "clock" / "linked.py").symlink_to("../other/main.py")
    [found] = search(root).candidates
    assert found.spec.argv == words


def test_the_same_file_name_in_any_other_folder_is_not_such_a_manifest(root: Path) -> None:
    (root / "clock").mkdir()
    (root / "clock" / "plugin.json").touch()
    assert search(root).scanned == 0


def test_a_root_is_never_the_manifest_folder_of_something_above_it(tmp_path: Path) -> None:
    place = tmp_path / "clock" / ".toy-plugin"
    place.mkdir(parents=True)
    (place / "plugin.json").touch()
    assert search(place).scanned == 0
    assert search(tmp_path / "clock").scanned == 1


def test_one_manifest_folder_shared_by_links_makes_an_extension_of_each(root: Path) -> None:
    (root / "shared").mkdir()
    (root / "shared" / "plugin.json").touch()
    for name in ("one", "two"):
        (root / name).mkdir()
        (root / name / ".toy-plugin").symlink_to("../shared")
    assert ids(search(root, follow_links=True)) == ["one", "two"]


def test_programs_count_only_with_an_execute_bit(root: Path) -> None:
    program(root, "toy-provider-a")
    program(root, "toy-lang-b", 0o744)
    program(root, "toy-provider-c", 0o644)
    program(root, "other-provider-d")
    report = search(root)
    assert ids(report) == ["toy-lang-b", "toy-provider-a"]
    assert report.scanned == 2


def test_programs_are_never_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(root, "toy-provider-a")

    def opened(*args: object) -> int:
        raise AssertionError("a program was opened")

    monkeypatch.setattr(os, "open", opened)
    report = search(root)
    monkeypatch.undo()
    assert ids(report) == ["toy-provider-a"]


def test_a_program_owns_itself_but_not_the_folder_it_shares(root: Path) -> None:
    file = program(root, "toy-provider-a")
    program(root, "toy-provider-b")
    manifest(root / "nested")
    report = search(root)
    assert ids(report) == ["nested", "toy-provider-a", "toy-provider-b"]
    found = report.candidates[1]
    assert (found.home, found.folder) == (str(file), str(root))


# -- 6 to 10: the filters, once on a real tree (their own tests are beside this file)


def test_nested_ones_are_pruned_across_roots_and_formats_even_below_a_disabled_one(
    root: Path, tmp_path: Path
) -> None:
    manifest(root / "outer")
    manifest(root / "outer" / "in" / "inner")
    program(root / "outer", "toy-provider-a")
    manifest(tmp_path / "root-2" / "free")
    report = search(root, root / "outer" / "in", tmp_path / "root-2", disabled=("outer",))
    assert ids(report) == ["free"]
    assert (report.scanned, report.disabled_count) == (5, 1)
    assert report.diagnostics == ()


def test_an_invalid_manifest_prunes_nothing(root: Path) -> None:
    manifest(root / "outer", text="broken")
    manifest(root / "outer" / "inner")
    assert ids(search(root)) == ["inner"]


def test_a_link_does_not_hide_that_something_is_nested(root: Path) -> None:
    manifest(root / "z")
    manifest(root / "z" / "inner")
    (root / "a").symlink_to("z/inner")
    assert ids(search(root, follow_links=True)) == ["z"]


def test_one_id_in_two_roots_is_the_first_roots_and_a_warning(tmp_path: Path) -> None:
    first = manifest(tmp_path / "z" / "x", "same")
    second = manifest(tmp_path / "a" / "x", "same")
    report = search(tmp_path / "z", tmp_path / "a")
    assert [c.path for c in report.candidates] == [str(first)]
    [warning] = report.diagnostics
    assert (warning.level, warning.code, warning.path) == ("warning", "X0205", str(second))


def test_lists_and_order_are_as_the_page_says(tmp_path: Path) -> None:
    for n, names in enumerate([("d", "b"), ("c", "a", "e")]):
        for name in names:
            # The folder's name sorts otherwise than the id.
            manifest(tmp_path / f"r{n}" / f"{ord('z') - ord(name)}", name)
    report = search(
        tmp_path / "r0",
        tmp_path / "r1",
        disabled=("e", "nobody"),
        allowlist=("a", "d", "b", "x"),
    )
    assert ids(report) == ["b", "d", "a"]
    assert (report.scanned, report.disabled_count) == (5, 1)
    assert [(d.code, d.extension) for d in report.diagnostics] == [("X0206", "x")]
