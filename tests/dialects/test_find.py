"""Finding dialects, the protocols of extensions: those of exthost and those of installed packages.

A `DialectPackage` names the parts of a dialect as references ("module:attribute"), which are
imported when they are used. Another package offers one by an entry point in the group
`exthost.dialects`. A package that is broken must be reported by its name, and must not keep the
host from using the others.
"""

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exthost.authoring.testing.vectors import package_vectors
from exthost.config import DiscoverySettings, config_from_mapping
from exthost.config.discovery.configfile import read_named_manifest
from exthost.config.discovery.search import discover
from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.dialects.blocking_methods import SyncFacet
from exthost.dialects.hostile_peer import HostilePeer
from exthost.dialects.manifest_format import ManifestFormat
from exthost.dialects.package import DialectPackage
from exthost.dialects.sniff import sniff
from exthost.errors import ConfigError, ManifestError
from exthost.model.spec import Spec
from tests.faces.cli.cli_process import run_inside
from tests.toys import stepper


@pytest.mark.parametrize("name", find.BUILT_IN)
def test_every_reference_of_a_built_in_package_exists(name: str) -> None:
    package = find.find_package(name)
    assert package.name == name == find.find_dialect(name).name
    if package.manifest:
        assert isinstance(find.load_reference(package, package.manifest), ManifestFormat)
        assert find.load_reference(package, package.manifest).dialect == name
    for reference in (*package.config_sections.values(), package.json_config):
        assert not reference or callable(find.load_reference(package, reference))
    for facet, reference in package.blocking_facets.items():
        assert facet in find.find_dialect(name).facets
        assert issubclass(find.load_reference(package, reference), SyncFacet)
    assert package_vectors(package)
    if package.hostile_peer:
        peer = find.load_reference(package, package.hostile_peer)
        assert isinstance(peer, HostilePeer) and peer.dialect == name


def test_a_contract_that_a_dialect_does_not_have_is_an_error() -> None:
    assert find.find_dialect("nexo/2").full_name == "nexo/2"
    for name in ("nexo/9", "nexo/", "mcp/1"):
        with pytest.raises(ConfigError) as caught:
            find.find_dialect(name)
        assert caught.value.code == "X0107" and repr(name) in caught.value.message
    with pytest.raises(ConfigError) as caught:
        find.find_dialect("nexo/9")
    assert caught.value.help == "the contracts of nexo are: nexo, nexo/2"


def install(folder: Path, entry_points: str, files: dict[str, str]) -> None:
    """Write the files of an installed package."""
    info = folder / "exthost_broken-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: exthost-broken\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[exthost.dialects]\n{entry_points}\n")
    for name, text in files.items():
        (folder / name).write_text(text)


PACKAGE_OF = "from exthost.dialects.package import DialectPackage\nPACKAGE = DialectPackage"

EXITING = "def __getattr__(name): raise SystemExit('bye')"

# The text of the module, the attribute that the entry point names, and a part of the error.
BROKEN = [
    ("import no_such_module_anywhere", "DIALECT", "No module named 'no_such_module_anywhere'"),
    ("DIALECT = {}", "DIALECT", "is of type dict, neither a DialectPackage nor a Dialect"),
    ("assert 1 == 2, 'sums are hard'", "DIALECT", "AssertionError: sums are hard"),
    ("def f(:", "DIALECT", "SyntaxError"),
    ("import sys; sys.exit(3)", "DIALECT", "SystemExit: 3"),
    (
        f"{PACKAGE_OF}(name='broken', dialect='exthost_broken:DIALECT')\n{EXITING}",
        "PACKAGE",
        "SystemExit: bye",
    ),
    ("", "DIALECT", "has no attribute 'DIALECT'"),
    (
        f"{PACKAGE_OF}(name='broken', dialect='exthost_broken:DIALECT')\nDIALECT = 7",
        "PACKAGE",
        "exthost_broken:DIALECT is of type int, not a Dialect",
    ),
    (
        f"{PACKAGE_OF}(name='other', dialect='exthost_broken:DIALECT')",
        "PACKAGE",
        "is the dialect 'other'",
    ),
]


@pytest.mark.parametrize(("text", "attribute", "message"), BROKEN)
def test_a_broken_package_is_reported_with_its_cause(
    text: str, attribute: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, f"broken = exthost_broken:{attribute}", {"exthost_broken.py": text})
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("exthost_broken", None)
    with pytest.raises(ConfigError) as caught:
        find.find_dialect("broken")
    assert caught.value.code == "X0112" and message in caught.value.message
    assert "exthost-broken 1.2" in caught.value.message
    assert "exthost-broken 1.2 is at fault" in caught.value.help


class HalfFraming:
    """A framing that is not derived from NoReadBuffer, and lacks what that class has."""

    def __init__(self, max_bytes: int) -> None: ...

    def feed(self, data: bytes) -> list[bytes]:
        return [data]

    def wrap(self, payload: bytes) -> bytes:
        return payload

    def end(self) -> None: ...


@pytest.mark.parametrize(
    ("part", "make", "message"),
    [
        ("framing", HalfFraming, "its framing HalfFraming has no commit, frame_parts, "),
        ("codec", lambda role: object(), "its codec object has no decode, encode, "),
    ],
)
def test_a_dialect_that_lacks_a_part_of_its_framing_or_codec_is_broken(
    part: str, make: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect = replace(stepper.DIALECT, name="half", **{part: make})
    package = DialectPackage(name="half", dialect=dialect)
    monkeypatch.setattr(find, "find_package", lambda name: package)
    with pytest.raises(ConfigError, match=message) as caught:
        find.find_dialect("half")
    assert caught.value.code == "X0112"


def test_other_packages_are_found_despite_a_broken_package(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    install(tmp_path, "broken = exthost_nowhere:DIALECT", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert [package.name for package in find.iter_packages()] == list(find.BUILT_IN)
    assert "exthost-broken 1.2" in caplog.text
    assert {item.dialect for item in find.load_manifest_formats()} >= {"nexo", "synaps"}
    assert config_from_mapping({"mcp_servers": {"a": {"command": "x"}}}).specs[0].dialect == "mcp"
    result = run_inside("inspect", "--dialect", "broken", "--", "true")
    assert result.returncode == ConfigError.exit_code and "is at fault" in result.stderr


# The module of a dialect package with a manifest format, a config section, an option, first bytes
# and an error code.
THIRD_PARTY = """
from dataclasses import replace

from exthost.dialects.find import find_dialect
from exthost.dialects.manifest_format import Accepted, ManifestFormat
from exthost.dialects.options import FLAG
from exthost.dialects.package import Detection, DialectPackage, FirstBytes
from exthost.model.documents.entry import Entry
from exthost.model.documents.settings import NO_SETTINGS
from exthost.model.spec import Spec
from exthost.wire.lines import Lines

DIALECT = replace(find_dialect("morphir"), name="broken", options={"loud": FLAG})


def read_section(value, place, origin, folder):
    spec = Spec(id="of section", argv=(value["run"],), dialect="broken", origin=origin)
    return (Entry(spec, NO_SETTINGS, place, name_key="run"),)


FORMAT = ManifestFormat(
    dialect="broken",
    names=("third.party",),
    read=lambda found: Accepted(spec=Spec(id="of manifest", argv=("x",), dialect="broken")),
)

PACKAGE = DialectPackage(
    name="broken",
    dialect=DIALECT,
    manifest=__name__ + ":FORMAT",
    config_sections={"third": __name__ + ":read_section"},
    detection=Detection(rank=1),
    first_bytes=FirstBytes(Lines, (b"third!",), "lines of its own"),
    errors={
        "LOUD1": {
            "kind": "CallFailed",
            "title": "too loud",
            "meaning": "It was too loud.",
            "fix": "Turn it down.",
        }
    },
)
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, "broken = exthost_third:PACKAGE", {"exthost_third.py": THIRD_PARTY})
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_every_part_of_a_third_party_package_is_used(third_party: Path) -> None:
    config = config_from_mapping({"third": {"run": "y"}})
    assert config.specs[0].id == "of section" and config.specs[0].dialect == "broken"
    with pytest.raises(ConfigError, match="did you mean `third`"):
        config_from_mapping({"thirt": {"run": "y"}})
    with pytest.raises(ConfigError, match="loud: must be true or false"):
        config_from_mapping({"defaults": {"options": {"loud": 7}}})
    assert [item.dialect for item in find.load_manifest_formats()][-1] == "broken"
    sniffed = sniff(b"THIRD! hello")
    assert sniffed is not None and sniffed.form == "lines of its own"
    assert sniffed.dialects == ("broken",)
    assert isinstance(find.find_dialect("broken"), Dialect)


@pytest.mark.parametrize("statement", ["import sys; sys.exit(3)", "raise KeyError('x')"])
def test_a_third_party_package_whose_functions_fail_is_named(
    third_party: Path, statement: str
) -> None:
    (third_party / "exthost_failing.py").write_text(
        "from exthost.dialects.manifest_format import ManifestFormat\n"
        "from exthost.dialects.package import DialectPackage\n"
        f"def fail(*arguments): {statement}\n"
        "FORMAT = ManifestFormat(dialect='failing', names=('x.failing',), read=fail, join=fail)\n"
        "PACKAGE = DialectPackage(name='failing', dialect='exthost_third:DIALECT',\n"
        "    manifest=__name__ + ':FORMAT', config_sections={'failing': __name__ + ':fail'})\n"
    )
    (third_party / "exthost_broken-1.2.dist-info" / "entry_points.txt").write_text(
        "[exthost.dialects]\nfailing = exthost_failing:PACKAGE\n"
    )
    with pytest.raises(ConfigError) as caught:
        config_from_mapping({"failing": {}})
    assert caught.value.code == "X0112" and "exthost-broken 1.2" in caught.value.message
    manifest = third_party / "x.failing"
    manifest.write_text("")
    settings = DiscoverySettings(search_paths=(str(third_party),))
    report = discover(settings, find.load_manifest_formats())
    [diagnostic] = [item for item in report.diagnostics if item.path == str(manifest)]
    assert diagnostic.code == "X0202" and "exthost-broken 1.2" in diagnostic.help
    spec = Spec(id="a", argv=("x",), dialect="failing", manifest_path=str(manifest))
    with pytest.raises(ManifestError, match="its failing reader failed"):
        read_named_manifest(spec)


def test_detection_tries_third_party_dialects_first(third_party: Path) -> None:
    """Detection tries one dialect after another with a program whose dialect is unknown."""
    from exthost.host.detection import detection_order

    assert detection_order("anything")[0] == ("broken", 3.0)
    names = [name for name, _ in detection_order("x")][1:]
    order = ["mcp", "synaps", "morphir", "nexo", "cigen"]
    assert [name for name in names if name in order] == order
    assert detection_order("cigen-provider-x")[0][0] == "cigen"


def test_explain_shows_the_error_codes_of_third_parties(third_party: Path) -> None:
    result = run_inside("explain", "loud1")
    assert result.returncode == 0 and "Turn it down." in result.stdout


def test_explain_works_despite_an_invalid_table_of_error_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = THIRD_PARTY.replace('"fix": "Turn it down."', '"fix": ""')
    install(tmp_path, "broken = exthost_bad_table:PACKAGE", {"exthost_bad_table.py": text})
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run_inside("explain", "X0541")
    assert result.returncode == 0
    assert "LOUD1" in result.stderr and "HandshakeFailed" in result.stdout
