"""The preparation of the next start of an extension, for example of its sandbox.

An extension that may write to a folder must not change the code of other extensions in it. Only for
such an extension the host collects the code of the others, because that takes time.
"""

from typing import Any

import pytest

from exthost.extension import startup
from exthost.launch.shared_folders import Neighbours
from tests.extensions.harness import closed_at_end, unstarted_extension


@pytest.mark.parametrize(("grant", "is_writer"), [("/srv/data:rw", True), ("/srv/data", False)])
async def test_the_code_of_others_is_collected_only_for_an_extension_that_may_write(
    grant: str, is_writer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = Neighbours()
    prepared: list[Any] = []
    ext = unstarted_extension(permissions={"filesystem": [grant]})
    async with closed_at_end(ext):
        monkeypatch.setattr(startup, "prepare", lambda *arguments: prepared.append(arguments))
        monkeypatch.setattr(type(ext._starter), "_neighbours", lambda self: others)
        ext._starter.prepared()
    neighbours = prepared[0][-1]  # the last argument: the code of the other extensions, or None
    assert (neighbours is others) == is_writer
