"""A fault at every byte of a conversation: each call ends, none hangs.

Every byte has its turn, and every fault: a sample of them in `make test`, all in `make soak`, which
also tries each fault at each byte.
"""

from functools import partial
from pathlib import Path

import pytest

from exthost.authoring.testing.fault_proxy import FAULTS
from exthost.authoring.testing.peers import PEERS
from tests.faults.recordings import length, recorded, replay
from tests.faults.trials import Trials


@pytest.mark.sampled(1 / 2)
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", PEERS)
async def test_a_fault_at_any_byte_ends_every_call(name: str, half: int, folder: Path) -> None:
    peer = PEERS[name]
    recording = await recorded(peer, folder)
    trials = Trials("pipes")
    middle = length(recording) // 2
    for at in range(middle) if half == 0 else range(middle, length(recording)):
        fault = FAULTS[at % len(FAULTS)]
        trial = partial(replay, peer, folder, recording, fault, at)
        trials.add(f"{fault} at byte {at}", peer.dialect, trial)
    await trials.run(at_once=8, sample=0.15)
