"""The reference in `docs/reference/` is up to date and complete.

`make reference` generates it from the code, together with some modules and the JSON Schema.
"""

import json
import re
from functools import cache
from pathlib import Path

from exthost_sdk.dialects import built_in_names

import exthost
import exthost.sdk
from exthost.dialects import find
from exthost.events import EVERYTHING
from exthost.faces.cli.verbs import VERBS
from scripts.reference.api_page import RETURNED
from scripts.reference.facet_modules import facet_modules
from scripts.reference.markdown import prose
from scripts.reference.pages import pages as generate_pages
from scripts.reference.settings_module import settings_module
from scripts.reference.source_code import docstring, members

DOCS = Path(__file__).parents[2] / "docs"
pages = cache(generate_pages)


def test_every_page_matches_the_code() -> None:
    for name, text in pages().items():
        file = DOCS / name
        assert file.exists() and file.read_text() == text, f"{name} is stale: run `make reference`"
    generated = {name for name in pages() if name.startswith("reference/")}
    assert {f"reference/{file.name}" for file in DOCS.glob("reference/*.md")} == generated


def test_an_aligned_list_in_a_docstring_becomes_a_table() -> None:
    doc = """Create it.

shared    whether calls come
          from several threads
on, off   a | b

    ext.call()  # not a list"""
    assert (
        prose(doc)
        == """Create it.

| Name | Meaning |
| --- | --- |
| `shared` | whether calls come from several threads |
| `on, off` | a \\| b |

    ext.call()  # not a list"""
    )


def test_the_pages_have_no_aligned_lists() -> None:
    for name, text in pages().items():
        outside_of_code = "".join(text.split("```")[::2])
        lists = re.findall(r"^\w[\w, ]* {2,}\S.*", outside_of_code, re.MULTILINE)
        assert not lists, f"{name}: {lists[:3]}"


def test_the_generated_modules_match_the_code() -> None:
    for name, text in (facet_modules() | settings_module()).items():
        file = DOCS.parent / "src" / "exthost" / name
        assert file.read_text() == text, f"{name} is stale: run `make reference`"


def test_every_verb_event_error_facet_and_public_name_is_in_the_reference() -> None:
    for verb in VERBS:
        assert f"\n## {verb}\n" in pages()["reference/cli.md"]
    for event in EVERYTHING:
        assert f"\n## {event.__name__}\n" in pages()["reference/events.md"]
    for name in exthost.errors.__all__:
        assert name in pages()["reference/errors.md"]
    for name in exthost.__all__:
        assert f"\n## exthost.{name}\n" in pages()["reference/api.md"]
    for name in exthost.sdk.__all__:
        assert f"\n### exthost.sdk.{name}\n" in pages()["reference/api.md"]
    for dialect in find.BUILT_IN:
        for facet in find.find_dialect(dialect).facets:
            assert f"\n## ext.{facet} ({dialect})\n" in pages()["reference/facets.md"]


def test_every_public_class_and_method_has_a_docstring() -> None:
    public = [getattr(exthost, name) for name in exthost.__all__]
    public += [getattr(exthost.sdk, name) for name in exthost.sdk.__all__]
    facets = [facet for name in find.BUILT_IN for facet in find.find_dialect(name).facets.values()]
    for kind in (*public, *RETURNED, *EVERYTHING, *facets):
        if isinstance(kind, type):
            assert docstring(kind), kind
            for member in members(kind):
                assert member.doc, f"{kind.__name__}.{member.name}"


def test_the_members_of_blocking_classes_include_forwarded_methods() -> None:
    blocking = {member.name: member for member in members(exthost.SyncHost)}
    assert blocking["run_calls"].signature.startswith("run_calls(response: Any, ")
    assert "`Host.run_calls`" in blocking["run_calls"].doc
    [stream] = [item for item in members(exthost.SyncExtension) if item.name == "stream"]
    assert stream.signature.endswith(" -> SyncStream")


def test_the_schema_is_json() -> None:
    assert json.loads(pages()["exthost.schema.json"])["title"] == "exthost.toml"


def test_make_check_runs_the_tests_of_this_module() -> None:
    makefile = (DOCS.parent / "Makefile").read_text()
    pure_tests = makefile.partition("\nPURE := ")[2].split()
    assert pure_tests[0] == "tests/docs/test_reference.py"
    assert "\ncheck: static pure-tests\n" in makefile


def test_the_page_about_the_life_cycle_names_the_dialects_with_a_breaker() -> None:
    with_breaker = {name for name in built_in_names() if find.find_dialect(name).traits.breaker}
    text = (DOCS / "lifecycle.md").read_text()
    [sentence] = re.findall(r"^(.+) have a breaker by default", text, re.MULTILINE)
    assert set(re.split(", | and ", sentence)) == with_breaker
