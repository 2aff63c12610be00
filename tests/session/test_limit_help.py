"""The help of the error for an extension that was ended by a limit, such as `limits.cpu = "1s"`."""

import sys

import pytest

import exthost
from exthost.errors import ExtensionGone
from tests.extensions.morphir_program import morphir_program


@pytest.mark.more
async def test_the_help_advises_to_raise_the_limit_that_ended_the_extension() -> None:
    endless_loop = morphir_program("while True: pass")  # at the first call
    command = [sys.executable, "-S", "-E", "-c", endless_loop]
    async with exthost.connect(command, dialect="morphir", limits={"cpu": "1s"}) as extension:
        with pytest.raises(ExtensionGone) as caught:
            await extension.call("spin", timeout=100)
    assert "limits.cpu is 1 s" in caught.value.message
    assert caught.value.help == "raise that limit, or make the extension use less"
