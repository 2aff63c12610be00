"""Objects are remembered for the case of a fork, and are not kept alive by that."""

import gc

from exthost.process import after_fork


class Owned:
    def disown(self) -> None:
        pass


def test_live_objects_are_remembered_and_dead_ones_are_forgotten() -> None:
    kept = Owned()
    after_fork.disown_in_copies(kept)
    before = len(after_fork._known)
    for _ in range(10 * before + 1000):
        after_fork.disown_in_copies(Owned())
    gc.collect()
    assert len(after_fork._known) < 2 * before + 1000
    assert kept in [reference() for reference in after_fork._known]
