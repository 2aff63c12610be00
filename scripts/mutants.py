"""Changes one condition at a time, and counts how often the tests near it fail.

    python -m scripts.mutants [--seed TEXT] [--count 80] [--jobs 2]

Each change is made in a copy of the project: `<` becomes `<=`, `and` becomes `or`, `not` is
removed, and so on. Then the tests near the change are run: those that import the changed module,
if they pass the others of its package, then the tests of modules that import the changed module,
and at last the tests of the first kind that only `make test-more` runs. A test that also fails
without the change does not count. The seed is printed, and repeats the sample. `mutants.toml` lists
changes that no test can notice, with the reason.
"""

import argparse
import ast
import functools
import importlib.util
import os
import random
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "exthost"
EQUIVALENT = Path(__file__).with_name("mutants.toml")

# How many of the changes the tests must notice.
GOAL = 0.85

# The time limit of a test run. A change that makes a test hang counts as noticed.
_SECONDS = 900

# The most test files that are run because they import a module which imports the changed one. A
# module such as `model.spec` is imported by most others.
_MAX_INDIRECT = 12

# The tests of these packages need frameworks that are not installed here: see `make integrations`.
_NOT_SAMPLED = frozenset({"integrations"})

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], str]] = {
    ast.Lt: (ast.LtE, "<="),
    ast.LtE: (ast.Lt, "<"),
    ast.Gt: (ast.GtE, ">="),
    ast.GtE: (ast.Gt, ">"),
    ast.Eq: (ast.NotEq, "!="),
    ast.NotEq: (ast.Eq, "=="),
    ast.Is: (ast.IsNot, "is not"),
    ast.IsNot: (ast.Is, "is"),
    ast.In: (ast.NotIn, "not in"),
    ast.NotIn: (ast.In, "in"),
}


class Mutant(NamedTuple):
    """One change: in this file, the text from `start` to `end` becomes `text`."""

    path: Path
    line: int
    start: int
    end: int
    text: str
    before: str

    @property
    def name(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.before} -> {self.text}"


def find_mutants(path: Path) -> Iterator[Mutant]:
    """Yield every change of a condition in a file."""
    text = path.read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data = text.encode()

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + column

    def change(node: ast.expr, new: ast.expr) -> Mutant:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = offset(node.lineno, node.col_offset)
        end = offset(node.end_lineno, node.end_col_offset)
        return Mutant(
            path, node.lineno, start, end, f"({ast.unparse(new)})", data[start:end].decode()
        )

    for condition in _conditions(ast.parse(text)):
        for node in ast.walk(condition):
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                operator, _ = _COMPARISONS[type(node.ops[0])]
                yield change(node, ast.Compare(node.left, [operator()], node.comparators))
            elif isinstance(node, ast.BoolOp):
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield change(node, ast.BoolOp(other, node.values))
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                yield change(node, node.operand)
        if isinstance(condition, ast.Name | ast.Attribute | ast.Call):
            yield change(condition, ast.UnaryOp(ast.Not(), condition))


def _conditions(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            if "TYPE_CHECKING" not in ast.unparse(node.test) and "__main__" not in ast.unparse(
                node.test
            ):
                yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def sample(seed: str, count: int) -> list[Mutant]:
    """Return changes of many files: a random file of a random package each time."""
    chooser = random.Random(seed)
    by_package: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        if len(parts) > 1 and parts[0] not in _NOT_SAMPLED and "_pb2" not in path.name:
            by_package.setdefault(parts[0], []).append(path)
    chosen: dict[str, Mutant] = {}
    while len(chosen) < count:
        path = chooser.choice(by_package[chooser.choice(sorted(by_package))])
        if candidates := list(find_mutants(path)):
            mutant = chooser.choice(candidates)
            chosen.setdefault(mutant.name, mutant)
    return list(chosen.values())


def near_tests(path: Path) -> list[list[str]]:
    """Return three groups of test files, which can be empty: those that import the module, those of
    its package, and those of the modules that import it."""
    imports = _imports_by_file()
    module = _module_name(path)
    own = ROOT / "tests" / path.relative_to(SOURCE).parent
    while not own.is_dir():
        own = own.parent
    tests = [file for file in imports if file.name.startswith("test_")]
    # A test can import the changed module, or a helper in tests/ that does.
    users = [_module_name(file) for file in imports if module in imports[file]]
    sources = [name for name in users if name.startswith("exthost.")]
    helpers = {name for name in users if name.startswith("tests.")}

    def find_direct(name: str) -> list[Path]:
        stem = name.rpartition(".")[2]
        named = [file for file in tests if file.name == f"test_{stem}.py"]
        return [*named, *(file for file in tests if name in imports[file])]

    direct = find_direct(module)
    package = [file for file in tests if file.is_relative_to(own)]
    indirect = [file for file in tests if imports[file] & helpers]
    for name in sources:
        indirect += find_direct(name)
    chosen: set[Path] = set()
    groups: list[list[str]] = []
    for group in (direct, package, list(dict.fromkeys(indirect))[:_MAX_INDIRECT]):
        new = [file for file in dict.fromkeys(group) if file not in chosen]
        chosen.update(new)
        groups.append([str(file.relative_to(ROOT)) for file in new])
    return groups


def _module_name(path: Path) -> str:
    base = ROOT / "src" if path.is_relative_to(ROOT / "src") else ROOT
    return ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def _imports_by_file() -> dict[Path, set[str]]:
    """Return the modules that each file of src/ and tests/ imports. `from a import b` imports the
    module a and, if it exists, the module a.b. A name that the package a re-exports counts as an
    import of the module that defines it. The text "a.b", or "b.py" in a file beside it, counts as
    an import of a module that is run as a program."""
    files = [*sorted(SOURCE.rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]
    trees = {file: ast.parse(file.read_bytes()) for file in files}
    modules = {_module_name(file): file for file in files}
    exported: dict[str, str] = {}  # "package.name" → the module that defines the name
    for file in files:
        if file.name == "__init__.py":
            for node in ast.walk(trees[file]):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        exported[f"{_module_name(file)}.{alias.asname or alias.name}"] = node.module
    programs: dict[str | Path, str] = {}
    for name, file in modules.items():
        if b"\nif __name__ ==" in file.read_bytes():
            programs[name] = programs[file] = name
    imports: dict[Path, set[str]] = {}
    for file in files:
        found = imports[file] = set()
        for node in ast.walk(trees[file]):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                found.add(node.module)
                found.update(name for name in names if name in modules)
                found.update(exported[name] for name in names if name in exported)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts = (node.value, file.parent / node.value)
                found.update(programs[text] for text in texts if text in programs)
    return imports


def is_noticed(mutant: Mutant, copy: Path) -> bool:
    """Return whether a test near the change fails because of it."""
    target = copy / mutant.path.relative_to(ROOT)
    original = target.read_bytes()
    changed = original[: mutant.start] + mutant.text.encode() + original[mutant.end :]
    try:
        groups = [(group, "not more") for group in near_tests(mutant.path)]
        for group, marker in [*groups, (groups[0][0], "more")]:
            excluded: list[str] = []
            while group:
                _write_source(target, changed)
                failed = _find_failure(copy, marker, [*group, *excluded])
                if failed is None:
                    break
                _write_source(target, original)
                if not failed or _find_failure(copy, marker, [failed]) is None:
                    return True
                excluded += ["--deselect", failed]  # it fails without the change, too
    finally:
        _write_source(target, original)
    return False


def _write_source(path: Path, data: bytes) -> None:
    """Write a module, and delete its bytecode, which would still be used if the new text had the
    same size and were written in the same second."""
    path.write_bytes(data)
    Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


def _find_failure(copy: Path, marker: str, arguments: Sequence[str]) -> str | None:
    """Run the tests with a marker until one fails, and return its name; "" if none could be run or
    they hang, None if all pass."""
    environ = {**os.environ, "PYTHONPATH": str(copy / "src")}
    # Without .pyc files, each process that a test starts would compile every module again.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    options = ["-m", "pytest", "-x", "-q", "-m", marker, "-p", "no:xdist"]
    command = [sys.executable, *options, *arguments]
    try:
        result = subprocess.run(
            command, cwd=copy, env=environ, timeout=_SECONDS, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    if result.returncode in (0, 5):  # 5: no test was selected
        return None
    failed = re.search(rb"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", result.stdout, re.MULTILINE)
    return failed[1].decode() if failed else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if enough of the changes are noticed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args(arguments)
    equivalent = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    reasons = {f"{row['file']}: {row['change']}": row["reason"] for row in equivalent["change"]}
    mutants = sample(args.seed, args.count)
    print(f"seed {args.seed}: {len(mutants)} changes", flush=True)
    with tempfile.TemporaryDirectory(prefix="exthost-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(args.jobs):
            copy = Path(folder, str(number), "project")
            ignore = shutil.ignore_patterns(".venv", ".git", "node_modules", "site")
            shutil.copytree(ROOT, copy, symlinks=True, ignore=ignore)
            copies.put(copy)

        def judge(mutant: Mutant) -> str:
            key = f"{mutant.path.relative_to(ROOT)}: {mutant.before} -> {mutant.text}"
            if key in reasons:
                verdict = "equivalent"
            else:
                copy = copies.get()
                verdict = "noticed" if is_noticed(mutant, copy) else "SURVIVED"
                copies.put(copy)
            print(f"{verdict}  {mutant.name}", flush=True)
            return verdict

        with ThreadPoolExecutor(args.jobs) as pool:
            verdicts = list(pool.map(judge, mutants))
    judged = [verdict for verdict in verdicts if verdict != "equivalent"]
    noticed = judged.count("noticed")
    share = noticed / len(judged) if judged else 1.0
    print(f"seed {args.seed}: {noticed} of {len(judged)} noticed, {share:.0%}; goal {GOAL:.0%}")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
