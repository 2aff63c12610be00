"""The search for extensions in real folders, with the manifest formats of three toy dialects.

A search finds the manifests below some folders, the roots, and returns a report: the extensions
that it found (candidates), and diagnostics about what is wrong. A manifest is a file with a certain
name; its dialect reads it and returns a verdict. The toy dialects have the three kinds of manifest:

    toy       the file `plugin.toml` in the folder of the extension
    nested    the file `plugin.json` in a folder `.toy-plugin`, which is in that of the extension
    program   an executable with a certain name, which is the extension itself

The numbers in the headings are those of the steps in the documentation of the nexo dialect.
"""

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
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

# The codes of diagnostics.
UNREADABLE_FILE = "X0201"
INVALID_MANIFEST = "X0202"
LINK_LEADS_OUTSIDE = "X0203"
UNREADABLE_FOLDER = "X0204"  # or missing, or a link to nothing
REPEATED_ID = "X0205"
NOT_FOUND_OR_DISABLED = "X0206"  # an extension that the allowlist names
PART_IGNORED = "X0207"  # something in the manifest, or beside it


def read_toml(file: ManifestFile) -> Verdict:
    """Read a manifest `plugin.toml`, and the servers in the file `.mcp.json` next to it."""
    try:
        document = tomllib.loads(file.data.decode())
    except ValueError as error:
        raise manifest_error(file, f"not TOML: {error}", line=1) from None
    if document.get("crash"):
        raise RecursionError("too deep")
    if document.get("not_mine"):
        return None
    errors = [
        manifest_error(file, f"{key} is missing", key=key)
        for key in ("id", "version")
        if key not in document
    ]
    if errors:
        return Rejected(tuple(errors))
    warnings = []
    try:
        servers = file.read_sibling(".mcp.json")
    except ManifestError as error:
        servers = None
        warnings.append(error.message)
    servers_of_manifest: tuple[Spec, ...] = ()
    if servers is not None and not servers.startswith(b"{"):
        warnings.append(".mcp.json is not JSON")
    elif servers:
        servers_of_manifest = (
            Spec(id=f"{document['id']}.server", argv=("server",), dialect="mcp"),
        )
    return Accepted(
        spec=Spec(id=document["id"], argv=("run",), dialect="toy", version=document["version"]),
        also=servers_of_manifest,
        warnings=tuple(warnings),
    )


def read_nested(file: ManifestFile) -> Verdict:
    """Read a manifest `.toy-plugin/plugin.json`, which has the words of a command."""
    words = file.data.decode().split()
    argv = tuple(file.folder + "/" + word if file.has_file(word) else word for word in words)
    return Accepted(spec=Spec(id=file.folder_name, argv=argv, dialect="nested"))


def read_program(file: ManifestFile) -> Verdict:
    """Accept a program; its name is its id."""
    assert file.data == b""  # a program is not read
    return Accepted(spec=Spec(id=file.name, argv=(file.path,), dialect="program"))


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
    """The settings that `discover` reads, with their defaults."""

    enabled: bool = True
    search_paths: tuple[str, ...] = ()
    ignore_dirs: tuple[str, ...] = ("node_modules", ".git", "target")
    disabled: tuple[str, ...] = ()
    allowlist: tuple[str, ...] = ()
    max_depth: int = 4
    follow_links: bool = False
    prefers_working_folder: bool = False


def write_manifest(folder: Path, id: str | None = None, text: str | None = None) -> Path:
    """Write a manifest of the dialect `toy`; its id is the name of the folder by default."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "plugin.toml"
    file.write_text(text if text is not None else f'id = "{id or folder.name}"\nversion = "1"\n')
    return file


def write_program(folder: Path, name: str, mode: int = 0o755) -> Path:
    """Write a file that is an extension of the dialect `program` by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_bytes(b"\x7fELF, never read")
    file.chmod(mode)
    return file


def search(
    *roots: Path, formats: tuple[ManifestFormat, ...] = FORMATS, **settings: object
) -> SearchReport:
    """Search these roots with the settings."""
    paths = tuple(str(root) for root in roots)
    return discover(Settings(search_paths=paths, **settings), formats)  # type: ignore[arg-type]


def ids(report: SearchReport) -> list[str]:
    return [candidate.id for candidate in report.candidates]


def diagnostics_of(report: SearchReport) -> list[tuple[str, str, str]]:
    """Return the level, the code and the file name of each diagnostic."""
    return [(item.level, item.code, Path(item.path).name) for item in report.diagnostics]


def record_listed_folders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the path of each folder that is listed will be appended."""
    listed_folders: list[str] = []
    real = os.scandir

    def scandir(path: str) -> object:
        listed_folders.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return listed_folders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open() -> Iterator[None]:
    """Check after each test that the search has closed its files and folders."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    yield
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# -- candidates


def test_a_manifest_becomes_a_candidate_with_its_paths(root: Path) -> None:
    file = write_manifest(root / "weather")
    report = search(root)
    [candidate] = report.candidates
    assert (candidate.id, candidate.dialect, candidate.root_index) == ("weather", "toy", 0)
    assert (candidate.path, candidate.folder, candidate.home) == (
        str(file),
        str(file.parent),
        str(file.parent),
    )
    assert (candidate.spec.origin, candidate.spec.cwd) == (str(file), str(file.parent))
    assert (report.scanned, report.disabled_count, report.invalid) == (1, 0, 0)
    assert report.diagnostics == ()


@pytest.mark.parametrize("origin", ["", "elsewhere"])
@pytest.mark.parametrize("cwd", [None, "", "/tmp"])
def test_origin_and_cwd_of_the_format_are_kept(root: Path, origin: str, cwd: str | None) -> None:
    file = write_manifest(root / "a")
    spec = Spec(id="a", argv=("x",), origin=origin, cwd=cwd)
    format = ManifestFormat(
        dialect="t", names=("plugin.toml",), read=lambda file: Accepted(spec=spec)
    )
    [candidate] = search(root, formats=(format,)).candidates
    assert candidate.spec.origin == (origin or str(file))
    assert candidate.spec.cwd == (str(file.parent) if cwd is None else cwd)


def test_a_disabled_search_reads_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_manifest(root / "a")

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the disk was read")

    for name in ("scandir", "open", "stat", "lstat"):
        monkeypatch.setattr(os, name, refuse)
    report = discover(Settings(enabled=False, search_paths=(str(root), "/nowhere")), FORMATS)
    monkeypatch.undo()
    assert report == SearchReport()


# -- 1: roots


def test_roots_are_searched_in_order_and_a_missing_one_is_a_warning(tmp_path: Path) -> None:
    write_manifest(tmp_path / "z" / "one")
    write_manifest(tmp_path / "a" / "two")
    report = search(tmp_path / "z", tmp_path / "missing", tmp_path / "a")
    assert [(candidate.id, candidate.root_index) for candidate in report.candidates] == [
        ("one", 0),
        ("two", 2),
    ]
    assert diagnostics_of(report) == [("warning", UNREADABLE_FOLDER, "missing")]


def test_a_root_that_is_a_file_is_a_warning(root: Path) -> None:
    file = write_manifest(root / "a")
    report = search(file, root)
    assert ids(report) == ["a"]
    assert diagnostics_of(report) == [("warning", UNREADABLE_FOLDER, "plugin.toml")]


def test_a_root_with_an_invalid_path_is_a_warning(root: Path) -> None:
    report = discover(Settings(search_paths=("a\0b", str(root))), FORMATS)
    assert [(diagnostic.level, diagnostic.code) for diagnostic in report.diagnostics] == [
        ("warning", UNREADABLE_FOLDER)
    ]


def test_a_root_is_made_canonical_even_when_links_are_not_followed(tmp_path: Path) -> None:
    file = write_manifest(tmp_path / "real" / "a")
    (tmp_path / "link").symlink_to("real")
    [candidate] = search(tmp_path / "link").candidates
    assert candidate.path == str(file)


def test_relative_roots_are_below_the_base_and_a_tilde_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_manifest(tmp_path / "conf" / "extensions" / "a")
    write_manifest(tmp_path / "home" / "plugins" / "b")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings = Settings(search_paths=("./extensions", "~/plugins"))
    assert ids(discover(settings, FORMATS, base=str(tmp_path / "conf"))) == ["a", "b"]


# -- 2: the walk


@pytest.mark.parametrize("max_depth", [0, 1, 2, 3, 4])
def test_depth_counts_from_the_root_and_includes_the_file(root: Path, max_depth: int) -> None:
    # An extension inside the folder of another one is not found, so each depth has its own branch.
    # The last character of an id is the depth of its manifest.
    write_program(root, "toy-provider-1")
    write_manifest(root / "b", "2")
    write_manifest(root / "c" / "x", "3")
    write_manifest(root / "d" / "x" / "y", "4")
    write_manifest(root / "e" / "x" / "y" / "z", "5")
    last_characters = [id[-1] for id in ids(search(root, max_depth=max_depth))]
    assert sorted(last_characters) == ["1", "2", "3", "4"][:max_depth]


def test_a_huge_maximum_depth_is_accepted(root: Path) -> None:
    write_manifest(root / "a", "a")
    assert ids(search(root, max_depth=2**31 - 1)) == ["a"]


def test_folders_with_exactly_an_ignored_name_are_not_searched(root: Path) -> None:
    for name in ("node_modules", ".git", "target", "targets", "Target"):
        write_manifest(root / name / "x", f"in-{name}")
    write_manifest(root / "a" / "target", "deep")
    assert ids(search(root)) == ["in-Target", "in-targets"]


def test_a_root_with_an_ignored_name_is_searched(tmp_path: Path) -> None:
    write_manifest(tmp_path / "target" / "a")
    assert ids(search(tmp_path / "target")) == ["a"]


def test_an_unreadable_folder_is_a_warning_and_the_search_continues(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The user root can read every folder, so the error of the system is simulated.
    write_manifest(root / "a")
    write_manifest(root / "locked" / "b")
    write_manifest(root / "z")
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = search(root)
    assert ids(report) == ["a", "z"]
    assert diagnostics_of(report) == [("warning", UNREADABLE_FOLDER, "locked")]
    assert "permission denied" in report.diagnostics[0].message


def test_the_report_does_not_depend_on_the_order_of_folder_entries(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Invalid manifests at two depths, links to an ignored folder, and links out of the root.
    write_manifest(root / "node_modules" / "hidden")
    for n in range(6):
        write_manifest(root / f"p{n}" / ("deep" if n % 2 else ""), text="broken")
        write_manifest(root / f"q{n}", "same")
        (root / f"r{n}").symlink_to("node_modules/hidden")
        (root / ("s" if n % 2 else "t")).mkdir(exist_ok=True)
        (root / ("s" if n % 2 else "t") / f"out{n}").symlink_to("/")
    (root / "u").symlink_to("/")
    in_order = search(root, follow_links=True)
    real = os.scandir

    class ReversedScandir:
        """Lists a folder in reverse order."""

        def __init__(self, path: str) -> None:
            with real(path) as listing:
                self.entries = sorted(listing, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> "Iterator[os.DirEntry[str]]":
            return iter(self.entries)

        def __exit__(self, *exc: object) -> None: ...

    monkeypatch.setattr(os, "scandir", ReversedScandir)
    in_reverse_order = search(root, follow_links=True)
    assert in_order == in_reverse_order
    assert [Path(candidate.folder).name for candidate in in_order.candidates] == ["r0", "q0"]
    paths = [diagnostic.path for diagnostic in in_order.diagnostics]
    # Six links in `s` and `t`, and `u`; then the invalid manifests; then the repeated ids.
    links, manifests, shadowed = paths[:7], paths[7:13], paths[13:]
    assert links == sorted(links)
    assert Path(links[-1]).name == "u"
    assert manifests == sorted(manifests)
    assert [Path(path).parent.name for path in shadowed] == ["q1", "q2", "q3", "q4", "q5"]


# -- 3: regular files and links


def test_only_files_with_exactly_the_name_are_manifests(root: Path) -> None:
    for name in ("Plugin.toml", "plugin.toml.bak", "my-plugin.toml"):
        (write_manifest(root / name)).rename(root / name / name)
    assert search(root) == SearchReport()


def test_a_folder_or_a_pipe_of_that_name_is_not_a_manifest(root: Path) -> None:
    (root / "a" / "plugin.toml").mkdir(parents=True)
    (root / "b").mkdir()
    os.mkfifo(root / "b" / "plugin.toml")
    assert search(root) == SearchReport()


def test_links_are_not_followed_by_default_and_not_reported(root: Path, tmp_path: Path) -> None:
    outside = write_manifest(tmp_path / "outside" / "x")
    (root / "folder").symlink_to(outside.parent)
    (root / "f").mkdir()
    (root / "f" / "plugin.toml").symlink_to(outside)
    (root / "toy-provider-x").symlink_to("/bin/sh")
    assert search(root) == SearchReport()


def test_a_link_inside_the_root_is_followed_if_links_are_followed(root: Path) -> None:
    file = write_manifest(root / "node_modules" / "a")
    (root / "b").mkdir()
    (root / "b" / "link").symlink_to(file.parent)
    assert ids(search(root)) == []
    [candidate] = search(root, follow_links=True).candidates
    assert candidate.path == str(root / "b" / "link" / "plugin.toml")
    assert candidate.home == str(file.parent)


def test_a_manifest_that_is_a_link_inside_the_root_is_read(root: Path) -> None:
    write_manifest(root / "store", "a").rename(root / "store" / "a.toml")
    (root / "b").mkdir()
    (root / "b" / "plugin.toml").symlink_to("../store/a.toml")
    [candidate] = search(root, follow_links=True).candidates
    assert (candidate.id, candidate.folder) == ("a", str(root / "b"))


@pytest.mark.parametrize("kind", ["folder", "manifest", "program"])
def test_a_link_out_of_the_root_is_an_error_and_skipped(
    root: Path, tmp_path: Path, kind: str
) -> None:
    outside = write_manifest(tmp_path / "outside")
    tool = write_program(tmp_path / "outside", "tool")
    write_manifest(root / "valid")
    link, target = {
        "folder": (root / "link", outside.parent),
        "manifest": (root / "m" / "plugin.toml", outside),
        "program": (root / "m" / "toy-provider-x", tool),
    }[kind]
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    report = search(root, follow_links=True)
    assert ids(report) == ["valid"]
    assert diagnostics_of(report) == [("error", LINK_LEADS_OUTSIDE, link.name)]
    assert str(target) in report.diagnostics[0].message


def test_a_folder_whose_name_begins_with_that_of_the_root_is_outside(
    tmp_path: Path, root: Path
) -> None:
    write_manifest(tmp_path / "root2" / "x")
    (root / "link").symlink_to(tmp_path / "root2")
    assert diagnostics_of(search(root, follow_links=True)) == [
        ("error", LINK_LEADS_OUTSIDE, "link")
    ]


def test_inside_a_linked_folder_only_links_within_it_are_followed(
    root: Path, tmp_path: Path
) -> None:
    """A recorded link is followed out of the root, and its target is then the root."""
    linked = tmp_path / "elsewhere" / "linked"
    write_program(linked / "lib", "tool")
    (linked / "toy-provider-x").symlink_to("lib/tool")
    write_manifest(tmp_path / "elsewhere" / "other")
    (linked / "out").symlink_to(tmp_path / "elsewhere" / "other")
    (root / "linked").symlink_to(linked)
    write_links(str(root), {"linked": str(linked)})
    assert ids(search(root)) == [], "links in the target are not followed"
    report = search(root, follow_links=True)
    assert ids(report) == ["toy-provider-x"]
    assert diagnostics_of(report) == [("error", LINK_LEADS_OUTSIDE, "out")]


def test_folders_behind_a_link_out_of_the_root_are_not_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "all").symlink_to("/")
    listed_folders = record_listed_folders(monkeypatch)
    search(root, follow_links=True)
    assert listed_folders == [str(root)]


def test_links_out_of_the_root_without_the_name_of_a_manifest_are_ignored(root: Path) -> None:
    (root / "notes.txt").symlink_to("/etc/hostname")
    (root / "gone").symlink_to("/nowhere")
    assert search(root, follow_links=True) == SearchReport()


def test_a_manifest_link_to_nothing_is_a_warning(root: Path) -> None:
    (root / "plugin.toml").symlink_to("gone")
    assert diagnostics_of(search(root, follow_links=True)) == [
        ("warning", UNREADABLE_FOLDER, "plugin.toml")
    ]


@pytest.mark.parametrize("target", ["..", ".", "../..", "../b"])
def test_a_loop_of_links_ends(root: Path, target: str) -> None:
    write_manifest(root / "a" / "x")
    write_manifest(root / "b" / "y")
    (root / "a" / "loop").symlink_to(target)
    (root / "b" / "loop").symlink_to("../a")
    report = search(root, follow_links=True, max_depth=50)
    assert ids(report) == ["x", "y"]
    assert report.scanned == 2
    assert [diagnostic.code for diagnostic in report.diagnostics] == (
        [LINK_LEADS_OUTSIDE] if target == "../.." else []
    )


def test_a_link_to_itself_is_a_warning(root: Path) -> None:
    write_manifest(root / "a")
    (root / "self").symlink_to("self")
    report = search(root, follow_links=True)
    assert ids(report) == ["a"]
    assert diagnostics_of(report) == [("warning", UNREADABLE_FOLDER, "self")]


def test_each_folder_is_listed_once_though_many_links_lead_to_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of 12 folders links to all others: 12^10 paths at this depth, but 13 folders.
    for n in range(12):
        write_manifest(root / f"d{n}")
    for n in range(12):
        for other in range(12):
            (root / f"d{n}" / f"to{other}").symlink_to(f"../d{other}")
    listed_folders = record_listed_folders(monkeypatch)
    report = search(root, follow_links=True, max_depth=10)
    assert len(report.candidates) == 12
    assert len(listed_folders) == 13


def test_a_folder_is_reached_on_its_shortest_path(root: Path) -> None:
    # The longer path comes first in the alphabet, and on it `y` would be too deep.
    write_manifest(root / "z" / "x" / "y", "deep")
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "link").symlink_to("../../z")
    assert ids(search(root, follow_links=True)) == ["deep"]


def test_a_real_folder_is_preferred_to_a_link_to_it(root: Path) -> None:
    write_manifest(root / "z")
    (root / "a").symlink_to("z")
    [candidate] = search(root, follow_links=True).candidates
    assert candidate.folder == str(root / "z")


@pytest.mark.parametrize("link", ["node_modules", "other"])
def test_ignored_names_apply_to_links_and_their_targets(root: Path, link: str) -> None:
    target = "other-folder" if link == "node_modules" else "node_modules"
    write_manifest(root / "deep" / "er" / "still" / "more" / target, "x")
    (root / link).symlink_to(f"deep/er/still/more/{target}")
    assert ids(search(root, follow_links=True)) == []


# -- 4 and 5: formats


def test_a_broken_manifest_is_an_error_and_the_others_are_found(root: Path) -> None:
    write_manifest(root / "a")
    invalid = write_manifest(root / "b", text="id = ")
    write_manifest(root / "c")
    report = search(root)
    assert ids(report) == ["a", "c"]
    assert (report.scanned, report.invalid) == (3, 1)
    [error] = report.diagnostics
    assert (error.level, error.code, error.path, error.line) == (
        "error",
        INVALID_MANIFEST,
        str(invalid),
        1,
    )


def test_only_the_first_error_of_a_manifest_is_reported_by_default(root: Path) -> None:
    write_manifest(root / "a", text="")
    report = search(root)
    assert [item.key for item in report.diagnostics] == ["id"]
    assert [item.key for item in report.every_diagnostic()] == ["id", "version"]
    assert report.invalid == 1


def test_a_rejection_needs_an_error() -> None:
    with pytest.raises(ValueError, match="error"):
        Rejected(())


def test_an_exception_in_a_reader_is_an_error_of_one_manifest(root: Path) -> None:
    write_manifest(root / "a", text="crash = true")
    write_manifest(root / "b")
    report = search(root)
    assert ids(report) == ["b"]
    assert diagnostics_of(report) == [("error", INVALID_MANIFEST, "plugin.toml")]
    assert "RecursionError" in report.diagnostics[0].message


def test_an_error_without_a_path_gets_the_path_of_the_manifest(root: Path) -> None:
    file = write_manifest(root / "a")

    def read(file: ManifestFile) -> Verdict:
        raise ManifestError("X0202", "no", extension="a", help="fix it")

    [error] = search(
        root, formats=(ManifestFormat(dialect="t", names=("plugin.toml",), read=read),)
    ).diagnostics
    assert (error.path, error.extension, error.help) == (str(file), "a", "fix it")


def test_a_manifest_that_is_deleted_during_the_search_is_ignored(root: Path) -> None:
    write_manifest(root / "a")
    deleted = write_manifest(root / "b")

    def read(file: ManifestFile) -> Verdict:
        deleted.unlink()
        return Accepted(spec=Spec(id="a", argv=()))

    report = search(root, formats=(ManifestFormat(dialect="t", names=("plugin.toml",), read=read),))
    assert ids(report) == ["a"]
    assert (report.diagnostics, report.invalid) == ((), 0)


def test_a_manifest_that_is_too_large_is_an_error(root: Path) -> None:
    write_manifest(root / "a", text="#" * (1024 * 1024 + 1))
    report = search(root)
    assert diagnostics_of(report) == [("error", UNREADABLE_FILE, "plugin.toml")]
    assert (report.scanned, report.invalid) == (1, 1)


def test_a_file_that_is_not_an_extension_is_skipped_silently(root: Path) -> None:
    write_manifest(root / "a", text="not_mine = true")
    assert search(root) == SearchReport(scanned=1)


def test_of_two_formats_the_first_that_accepts_a_file_is_used(root: Path) -> None:
    write_manifest(root / "a", text="not_mine = true")
    write_manifest(root / "b")
    second = ManifestFormat(
        dialect="second",
        names=("plugin.toml",),
        read=lambda file: Accepted(spec=Spec(id=f"second-{file.folder_name}", argv=())),
    )
    report = search(root, formats=(TOML, second))
    assert [(item.id, item.dialect) for item in report.candidates] == [
        ("b", "toy"),
        ("second-a", "second"),
    ]
    assert report.scanned == 2


def test_a_file_next_to_the_manifest_can_add_extensions(root: Path) -> None:
    file = write_manifest(root / "a")
    (root / "a" / ".mcp.json").write_text("{}")
    [candidate] = search(root).candidates
    [server] = candidate.additional_specs
    assert (server.id, server.origin, server.cwd) == ("a.server", str(file), str(file.parent))


def test_an_invalid_file_next_to_the_manifest_is_a_warning(root: Path) -> None:
    write_manifest(root / "a")
    (root / "a" / ".mcp.json").write_text("nonsense")
    report = search(root)
    [candidate] = report.candidates
    assert candidate.additional_specs == ()
    assert candidate.warnings == (".mcp.json is not JSON",)
    assert [
        (diagnostic.level, diagnostic.code, diagnostic.extension)
        for diagnostic in report.diagnostics
    ] == [("warning", PART_IGNORED, "a")]
    assert report.invalid == 0


@pytest.mark.parametrize(("follow", "warnings"), [(False, 0), (True, 1)])
def test_a_link_out_of_the_root_next_to_the_manifest_is_not_read(
    root: Path, tmp_path: Path, follow: bool, warnings: int
) -> None:
    (tmp_path / "secret").write_text("{}")
    write_manifest(root / "a")
    (root / "a" / ".mcp.json").symlink_to(tmp_path / "secret")
    [candidate] = search(root, follow_links=follow).candidates
    assert candidate.additional_specs == ()
    assert len(candidate.warnings) == warnings


def test_a_link_inside_the_root_next_to_the_manifest_is_read_if_links_are_followed(
    root: Path,
) -> None:
    write_manifest(root / "a")
    (root / "shared.json").write_text("{}")
    (root / "a" / ".mcp.json").symlink_to("../shared.json")
    [candidate] = search(root, follow_links=True).candidates
    assert [spec.id for spec in candidate.additional_specs] == ["a.server"]


def test_a_link_next_to_a_program_on_path_must_stay_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the program itself may be a link to another folder."""
    (tmp_path / "secret").write_text("secret")
    program = write_program(tmp_path / "real", "toy-provider-a")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program.name).symlink_to(program)
    (tmp_path / "bin" / "settings").symlink_to(tmp_path / "secret")
    siblings: list[bytes | None] = []

    def read(file: ManifestFile) -> Verdict:
        siblings.append(file.read_sibling("settings"))
        return read_program(file)

    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    report = search(Path("$PATH"), formats=(replace(PROGRAM, read=read),), follow_links=True)
    assert siblings == [] and report.candidates == ()
    assert "outside of the search path" in report.diagnostics[0].message


@pytest.mark.parametrize("name", ["../other", "", ".", "..", "/etc/passwd"])
def test_the_name_of_a_sibling_cannot_be_a_path(root: Path, name: str) -> None:
    write_manifest(root / "a")
    format = ManifestFormat(
        dialect="t",
        names=("plugin.toml",),
        read=lambda file: Accepted(spec=Spec(id=str(file.read_sibling(name)), argv=())),
    )
    report = search(root, formats=(format,))
    assert report.candidates == ()
    assert "plain file name" in report.diagnostics[0].message


# -- formats whose manifest is not a file in the folder of the extension


def test_a_manifest_in_a_manifest_folder_belongs_to_the_folder_above(root: Path) -> None:
    manifest_folder = root / "clock" / ".toy-plugin"
    manifest_folder.mkdir(parents=True)
    (manifest_folder / "plugin.json").write_text("python3 main.py lib/a.py --x .")
    (root / "clock" / "lib").mkdir()
    (root / "clock" / "main.py").touch()
    (root / "clock" / "lib" / "a.py").touch()
    [candidate] = search(root).candidates
    assert (candidate.id, candidate.dialect) == ("clock", "nested")
    assert candidate.folder == candidate.home == candidate.spec.cwd == str(root / "clock")
    main, lib = str(root / "clock" / "main.py"), str(root / "clock" / "lib" / "a.py")
    assert candidate.spec.argv == ("python3", main, lib, "--x", ".")


def test_only_files_that_really_are_in_the_folder_belong_to_it(root: Path) -> None:
    manifest_folder = root / "clock" / ".toy-plugin"
    manifest_folder.mkdir(parents=True)
    arguments = ("../other/main.py", "/lib/a.py", "linked.py", "lib", "a\0b", "x" * 5000)
    (manifest_folder / "plugin.json").write_text(" ".join(arguments))
    (root / "other").mkdir()
    (root / "other" / "main.py").touch()
    (root / "clock" / "lib").mkdir()
    (root / "clock" / "lib" / "a.py").touch()
    (root / "clock" / "linked.py").symlink_to("../other/main.py")
    [candidate] = search(root).candidates
    assert candidate.spec.argv == arguments


def test_the_file_name_in_another_folder_is_not_a_manifest(root: Path) -> None:
    (root / "clock").mkdir()
    (root / "clock" / "plugin.json").touch()
    assert search(root).scanned == 0


def test_a_root_is_not_the_manifest_folder_of_the_folder_above_it(tmp_path: Path) -> None:
    manifest_folder = tmp_path / "clock" / ".toy-plugin"
    manifest_folder.mkdir(parents=True)
    (manifest_folder / "plugin.json").touch()
    assert search(manifest_folder).scanned == 0
    assert search(tmp_path / "clock").scanned == 1


def test_each_folder_with_a_link_to_a_manifest_folder_is_an_extension(root: Path) -> None:
    (root / "shared").mkdir()
    (root / "shared" / "plugin.json").touch()
    for name in ("one", "two"):
        (root / name).mkdir()
        (root / name / ".toy-plugin").symlink_to("../shared")
    assert ids(search(root, follow_links=True)) == ["one", "two"]


def test_only_executable_programs_are_extensions(root: Path) -> None:
    write_program(root, "toy-provider-a")
    write_program(root, "toy-lang-b", 0o744)
    write_program(root, "toy-provider-c", 0o644)
    write_program(root, "other-provider-d")
    report = search(root)
    assert ids(report) == ["toy-lang-b", "toy-provider-a"]
    assert report.scanned == 2


def test_programs_are_never_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(root, "toy-provider-a")

    def refuse(*args: object) -> int:
        raise AssertionError("a program was opened")

    monkeypatch.setattr(os, "open", refuse)
    report = search(root)
    monkeypatch.undo()
    assert ids(report) == ["toy-provider-a"]


def test_the_home_of_a_program_is_its_file(root: Path) -> None:
    file = write_program(root, "toy-provider-a")
    write_program(root, "toy-provider-b")
    write_manifest(root / "nested")
    report = search(root)
    assert ids(report) == ["nested", "toy-provider-a", "toy-provider-b"]
    candidate = report.candidates[1]
    assert (candidate.home, candidate.folder) == (str(file), str(root))


# -- 6 to 10: the filters in a real tree (test_filters.py has more tests of them)


def test_nested_extensions_are_pruned_across_roots_and_formats(root: Path, tmp_path: Path) -> None:
    write_manifest(root / "outer")
    write_manifest(root / "outer" / "in" / "inner")
    write_program(root / "outer", "toy-provider-a")
    write_manifest(tmp_path / "root-2" / "free")
    report = search(root, root / "outer" / "in", tmp_path / "root-2", disabled=("outer",))
    assert ids(report) == ["free"]
    assert (report.scanned, report.disabled_count) == (5, 1)
    assert report.diagnostics == ()


def test_an_invalid_manifest_prunes_nothing(root: Path) -> None:
    write_manifest(root / "outer", text="broken")
    write_manifest(root / "outer" / "inner")
    assert ids(search(root)) == ["inner"]


def test_a_nested_extension_is_pruned_even_if_a_link_leads_to_it(root: Path) -> None:
    write_manifest(root / "z")
    write_manifest(root / "z" / "inner")
    (root / "a").symlink_to("z/inner")
    assert ids(search(root, follow_links=True)) == ["z"]


def test_of_two_extensions_with_the_same_id_that_of_the_first_root_is_used(tmp_path: Path) -> None:
    first = write_manifest(tmp_path / "z" / "x", "same")
    second = write_manifest(tmp_path / "a" / "x", "same")
    report = search(tmp_path / "z", tmp_path / "a")
    assert [candidate.path for candidate in report.candidates] == [str(first)]
    [warning] = report.diagnostics
    assert (warning.level, warning.code, warning.path) == ("warning", REPEATED_ID, str(second))


def test_the_lists_and_the_order_follow_the_documented_rules(tmp_path: Path) -> None:
    for n, names in enumerate([("d", "b"), ("c", "a", "e")]):
        for name in names:
            # The names of the folders have the opposite order of the ids.
            write_manifest(tmp_path / f"r{n}" / f"{ord('z') - ord(name)}", name)
    report = search(
        tmp_path / "r0",
        tmp_path / "r1",
        disabled=("e", "nobody"),
        allowlist=("a", "d", "b", "x"),
    )
    assert ids(report) == ["b", "d", "a"]
    assert (report.scanned, report.disabled_count) == (5, 1)
    assert [(diagnostic.code, diagnostic.extension) for diagnostic in report.diagnostics] == [
        (NOT_FOUND_OR_DISABLED, "x")
    ]
