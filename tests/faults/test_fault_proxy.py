"""With a fault at any byte of a conversation, each call ends.

A conversation with an extension is recorded, and then replayed by a program, the fault proxy, which
makes one fault at one byte of its output: for example it exits, or writes a wrong byte. Each byte
gets one of the faults. `make test` runs a sample of the bytes, and `make soak` runs each fault at
each byte.
"""

from functools import partial
from pathlib import Path

import pytest

from exthost.authoring.testing.fault_proxy import FAULTS
from exthost.authoring.testing.peers import PEERS
from tests.faults.recordings import count_bytes, record, replay
from tests.faults.trials import Trials


@pytest.mark.more
@pytest.mark.sampled(1 / 2)
@pytest.mark.parametrize("half", [0, 1])  # of the recording: two tests can run in parallel
@pytest.mark.parametrize("name", PEERS)
async def test_a_fault_at_any_byte_ends_every_call(name: str, half: int, folder: Path) -> None:
    peer = PEERS[name]
    recording = await record(peer, folder)
    trials = Trials("pipes")
    byte_count = count_bytes(recording)
    middle = byte_count // 2
    for position in range(middle) if half == 0 else range(middle, byte_count):
        fault = FAULTS[position % len(FAULTS)]
        trial = partial(replay, peer, folder, recording, fault, position)
        trials.add(f"{fault} at byte {position}", peer.dialect, trial)
    await trials.run(at_once=8, sample=0.15)
