"""Rules about the structure of the source: no cycles of imports, and complete lists of the modules.

The graph of imports is built with `ast`. Imports inside functions and under TYPE_CHECKING count,
because such a cycle is as hard to read as any other. Between packages, the name of a module in a
string counts too, because `importlib` could import the module by that name.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest

from exthost.dialects.find import BUILT_IN
from exthost.faces.cli.verbs import VERBS

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "exthost"

Graph = Mapping[str, frozenset[str]]


def modules(source: Path, package: str) -> dict[str, Path]:
    """Return every module by its dotted name."""
    modules_by_name = {}
    for path in sorted((source / package).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        modules_by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules_by_name


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def import_graph(source: Path, package: str, *, in_strings: bool = False) -> Graph:
    """Return the modules of the package that each of its modules imports. With `in_strings`, a
    module whose name is in a string counts as imported."""
    known_modules = modules(source, package)
    graph = {}
    for name, path in known_modules.items():
        tree = parse(path)
        is_package = path.name == "__init__.py"
        imported = {*_imported_modules(tree, name, is_package, known_modules.keys())}
        if in_strings:
            imported |= {*_modules_named_in_strings(tree, known_modules.keys())}
        graph[name] = frozenset(imported) - {name}
    return graph


def _imported_modules(
    tree: ast.AST, name: str, is_package: bool, known_modules: Set[str]
) -> Iterator[str]:
    """Yield the modules that the import statements of a module name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _longest_known_prefix(alias.name, known_modules)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = name.split(".")
                parents = parents[: len(parents) - node.level + is_package]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                # In `from package import module`, the longest known name is the module itself; in
                # `from module import name`, it is the module that defines the name.
                yield from _longest_known_prefix(f"{base}.{alias.name}", known_modules)


def _modules_named_in_strings(tree: ast.AST, known_modules: Set[str]) -> Iterator[str]:
    """Yield the modules that are named in strings, and the packages that are the beginning of an
    f-string such as f"exthost.faces.cli.{verb}"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = node.value.rstrip(".")
            if "." in dotted and dotted in known_modules:
                yield dotted


def _longest_known_prefix(dotted: str, known_modules: Set[str]) -> Iterator[str]:
    """Yield the longest beginning of a dotted name that is a module, if there is one."""
    while dotted:
        if dotted in known_modules:
            yield dotted
            return
        dotted = dotted.rpartition(".")[0]


def cycles(graph: Graph) -> frozenset[frozenset[str]]:
    """Return the sets of modules that import one another, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components = set()

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            position = stack.index(name)
            if len(stack) - position > 1:
                components.add(frozenset(stack[position:]))
            del stack[position:]

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return frozenset(components)


def package_graph(graph: Graph) -> Graph:
    """Return the graph of the packages and modules directly below the root package. The root
    package itself imports its public names from everywhere and is left out."""
    graph_of_packages: dict[str, set[str]] = {}
    for name, imported in graph.items():
        if (package := _top_level_package(name)) is None:
            continue
        graph_of_packages.setdefault(package, set()).update(
            other
            for item in imported
            if (other := _top_level_package(item)) is not None and other != package
        )
    return {package: frozenset(others) for package, others in graph_of_packages.items()}


def _top_level_package(name: str) -> str | None:
    """Return the package below the root that a module is part of."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else None


def test_no_modules_import_one_another_in_a_circle() -> None:
    import_cycles = cycles(import_graph(SOURCE, PACKAGE))
    assert not import_cycles, "\n".join(" <-> ".join(sorted(cycle)) for cycle in import_cycles)


def test_no_packages_import_one_another_in_a_circle() -> None:
    import_cycles = cycles(package_graph(import_graph(SOURCE, PACKAGE, in_strings=True)))
    assert not import_cycles, "\n".join(" <-> ".join(sorted(cycle)) for cycle in import_cycles)


def test_dialects_do_not_import_one_another_and_shared_code_does_not_import_them() -> None:
    dialects = f"{PACKAGE}.dialects"
    # `facet_attributes` lists the facets of all dialects for type checkers, so it is left out.
    graph = {
        name: imported
        for name, imported in import_graph(SOURCE, PACKAGE).items()
        if name.startswith(f"{dialects}.") and name != f"{dialects}.facet_attributes"
    }
    packages = {
        name
        for name, path in modules(SOURCE, PACKAGE).items()
        if path.name == "__init__.py" and name.rpartition(".")[0] == dialects
    }

    def dialect_of(module: str) -> str:
        """Return the package of the dialect that the module is part of, or an empty string."""
        package = ".".join(module.split(".")[:3])
        return package if package in packages else ""

    assert len(packages) >= 6  # the built-in dialects: otherwise the search above is wrong
    wrong = {
        (name, other)
        for name, imported in graph.items()
        for other in imported
        if dialect_of(other) not in ("", dialect_of(name))
    }
    assert not wrong


def _package_docstrings() -> Iterator[tuple[Path, str]]:
    """Yield the folder and the docstring of each package below the root."""
    for path in sorted((SOURCE / PACKAGE).glob("*/**/__init__.py")):
        yield path.parent, ast.get_docstring(parse(path)) or ""


def test_the_docstring_of_a_package_names_each_of_its_modules() -> None:
    # These are listed elsewhere: verbs have a table, and each package of `dialects` is a dialect.
    listed_elsewhere = {"cli": set(VERBS), "dialects": set(BUILT_IN)}
    missing = {}
    for folder, text in _package_docstrings():
        names = {path.stem for path in folder.glob("*.py")}
        names |= {path.parent.name for path in folder.glob("*/__init__.py")}
        names = {name for name in names if not name.startswith("_")}
        names -= {*re.findall(r"\w+", text)} | listed_elsewhere.get(folder.name, set())
        if names:
            missing[folder.name] = sorted(names)
    assert not missing


def test_the_docstring_of_a_package_names_only_existing_modules() -> None:
    missing = {}
    for folder, text in _package_docstrings():
        columns = re.findall(r"^    ([a-z0-9_]+(?:, [a-z0-9_]+)*)/?  +\S", text, re.MULTILINE)
        names = {name for column in columns for name in column.split(", ")}
        if names := {n for n in names if not [*folder.glob(f"{n}.*"), *folder.glob(n)]}:
            missing[folder.name] = sorted(names)
    assert not missing


def _layers() -> set[str]:
    """Return the names in the first contract of `.importlinter`."""
    text = (SOURCE.parent / ".importlinter").read_text(encoding="utf-8")
    layers = text.split("\nlayers =\n")[1].split("exhaustive")[0]
    return {name for line in layers.splitlines() for name in line.replace("|", " ").split()}


def test_the_architecture_page_lists_exactly_the_packages() -> None:
    page = (SOURCE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## Packages\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)/` \|", section, re.MULTILINE)
    packages = {path.parent.name for path in (SOURCE / PACKAGE).glob("*/__init__.py")}
    assert sorted(listed) == sorted(packages - {"sdk"})  # `exthost.sdk` has only public names
    assert len(listed) == 13  # the number in the text of the page
    assert set(listed) <= _layers()
    assert {name.split(".")[1] for name in modules(SOURCE, PACKAGE) if "." in name} == _layers()


# -- tests of the functions above ------------------------------------------------------------


def write_package(folder: Path, files: dict[str, str]) -> Graph:
    """Write the modules of a package `p`; return the graph of its imports."""
    for name, text in files.items():
        path = folder / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return import_graph(folder, "p")


@pytest.mark.parametrize(
    "text",
    [
        "import p.b",
        "from p import b",
        "from p.b import thing",
        "from . import b",
        "from .b import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import Thing",
        "def late():\n    from p import b",
        "try:\n    import p.b\nexcept ImportError:\n    pass",
    ],
)
def test_a_cycle_is_found_for_every_form_of_import(tmp_path: Path, text: str) -> None:
    graph = write_package(tmp_path, {"__init__.py": "", "a.py": text, "b.py": "from p.a import x"})
    assert cycles(graph) == {frozenset({"p.a", "p.b"})}


def test_a_longer_cycle_is_found_without_the_nodes_that_depend_on_it(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from p.a import x",
        "a.py": "from p.q import b",
        "q/__init__.py": "",
        "q/b.py": "from ..c import y",
        "c.py": "import p.a, p.d",
        "d.py": "import json",
    }
    assert cycles(write_package(tmp_path, files)) == {frozenset({"p.a", "p.q.b", "p.c"})}


def test_modules_that_only_import_downwards_have_no_cycle(tmp_path: Path) -> None:
    files = {"__init__.py": "", "a.py": "import p.b, p.c", "b.py": "from . import c", "c.py": ""}
    assert cycles(write_package(tmp_path, files)) == frozenset()


def test_a_cycle_of_packages_is_found_though_their_modules_have_no_cycle(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from p.x import a, d",
        "x/__init__.py": "",
        "x/a.py": "import p.y.b",
        "y/__init__.py": "",
        "y/b.py": "import p.x.d",
        "x/d.py": "",
    }
    graph = write_package(tmp_path, files)
    assert cycles(graph) == frozenset()
    assert cycles(package_graph(graph)) == {frozenset({"x", "y"})}


@pytest.mark.parametrize("text", ["'p.y.b'", "f'p.y.{name}'"])
def test_a_cycle_by_a_module_name_in_a_string_is_found(tmp_path: Path, text: str) -> None:
    files = {
        "__init__.py": "",
        "x/__init__.py": "",
        "x/a.py": f"import_module({text})",
        "y/__init__.py": "",
        "y/b.py": "import p.x.a",
    }
    write_package(tmp_path, files)
    graph = import_graph(tmp_path, "p", in_strings=True)
    assert cycles(package_graph(graph)) == {frozenset({"x", "y"})}
