"""Each promise of SECURITY.md has trials or tests, and each trial belongs to a promise.

A trial is a test of the sandbox that runs as root and as an ordinary user. `promises.py` lists the
trials and tests of each promise, by the heading of its section and its number.
"""

import re

from tests.sandbox.promises import PROMISES, ROOT, proof_names
from tests.sandbox.trials import all_trials


def read_promises() -> set[str]:
    """Return the sections of SECURITY.md that promise something, with the numbers in them."""
    text = (ROOT / "SECURITY.md").read_text("utf-8").partition("\n## Not promised")[0]
    names = set()
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        numbers = re.findall(r"^(\d+)\. ", body, re.MULTILINE)
        names |= {f"{title} {number}" for number in numbers} or {title}
    return names


def test_each_promise_has_trials_or_tests() -> None:
    assert read_promises() <= PROMISES.keys()
    for proofs in PROMISES.values():
        assert proofs and all(list(proof_names(proof)) for proof in proofs)


def test_each_trial_belongs_to_a_promise() -> None:
    used = {name for proofs in PROMISES.values() for proof in proofs for name in proof_names(proof)}
    assert not all_trials().keys() - used
