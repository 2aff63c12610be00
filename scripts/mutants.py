"""Changes one condition at a time, and counts how often the tests near it fail.

    python -m scripts.mutants [--seed TEXT] [--count 80] [--jobs 2]

Each change is made in a copy of the project: `<` becomes `<=`, `and` becomes `or`, `not` is
removed, and so on. Then the tests near the change are run: those that import the changed module,
and if they pass the others of its package. The seed is printed, and repeats the sample.
`mutants.toml` lists changes that no test can notice, with the reason.
"""

import argparse
import ast
import os
import random
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
    """Return groups of test files: those that import the module, then those of its package."""
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    module = module.removesuffix(".__init__")
    folder, name = module.rpartition(".")[::2]
    forms = (f"from {module} import", f"import {module}", f"from {folder} import {name}")
    own = ROOT / "tests" / path.relative_to(SOURCE).parent
    while not own.is_dir():
        own = own.parent
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    named = [file for file in files if file.name == f"test_{name}.py"]
    importing = [file for file in files if any(form in file.read_text("utf-8") for form in forms)]
    first = dict.fromkeys([*named, *importing])
    rest = [file for file in files if file.is_relative_to(own) and file not in first]
    groups = [[str(file.relative_to(ROOT)) for file in group] for group in (first, rest)]
    return [group for group in groups if group]


def is_noticed(mutant: Mutant, copy: Path) -> bool:
    """Return whether a test near the change fails because of it."""
    target = copy / mutant.path.relative_to(ROOT)
    original = target.read_bytes()
    target.write_bytes(original[: mutant.start] + mutant.text.encode() + original[mutant.end :])
    environ = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    arguments = ["-m", "pytest", "-x", "-q", "-m", "not more", "-p", "no:xdist"]
    try:
        for group in near_tests(mutant.path):
            command = [sys.executable, *arguments, *group]
            result = subprocess.run(
                command, cwd=copy, env=environ, timeout=_SECONDS, capture_output=True, check=False
            )
            if result.returncode not in (0, 5):  # 5: no test was selected
                return True
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_bytes(original)
    return False


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
            ignore = shutil.ignore_patterns(".venv", ".git", "__pycache__", "node_modules", "site")
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
