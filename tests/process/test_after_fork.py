"""Objects that a fork must disown are registered by weak references."""

import gc

from exthost.process import after_fork


class OwnedObject:
    def disown(self) -> None:
        pass


def test_live_objects_stay_registered_and_deleted_objects_do_not() -> None:
    live_object = OwnedObject()
    after_fork.disown_after_fork(live_object)
    before = len(after_fork._known)
    for _ in range(10 * before + 1000):
        after_fork.disown_after_fork(OwnedObject())
    gc.collect()
    assert len(after_fork._known) < 2 * before + 1000
    assert live_object in [reference() for reference in after_fork._known]
