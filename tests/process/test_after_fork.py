"""The register of objects that a forked copy of the host must not use.

After `os.fork()`, the copy has the same pipes and connections as the host, but must not read from
them. So `disown` is called in the copy for each registered object. The register must not keep
objects alive.
"""

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
    # Dead references are removed only now and then, so a few of them may remain.
    assert len(after_fork._known) < 2 * before + 1000
    assert live_object in [reference() for reference in after_fork._known]
