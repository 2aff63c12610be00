"""The page of the promises of SECURITY.md with their trials."""

from types import ModuleType

from scripts.reference.markdown import code, page
from tests.sandbox.promises import PROMISES, proof_names

_INTRODUCTION = """\
SECURITY.md lists what exthost promises about the programs that it
runs. This page names the trials and tests of each promise. A trial is a function in `tests/sandbox`. `make
test-more` runs all trials as root and as an ordinary user, with real processes. The other tests are run by
`make test` and `make test-more`.
"""


def trials_page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for promise, proofs in PROMISES.items():
        lines = []
        for proof in proofs:
            if isinstance(proof, str):
                where = proof
            else:
                module = proof.__name__ if isinstance(proof, ModuleType) else proof.__module__
                where = f"{module.replace('.', '/')}.py"
            lines += [f"- {code(name)} ({code(where)})" for name in proof_names(proof)]
        parts += [f"## {promise}", "\n".join(dict.fromkeys(lines))]
    return page("Promises and their trials", *parts)
