"""The event loop of an agent, the program that starts processes for a host on another node.

Other threads of the agent let the loop call functions (`_call_soon`), since only the loop may use
the connection to the host. Here the test has the host's end of that connection.
"""

import os
import socket
import threading
from functools import partial
from pathlib import Path

import pytest

from exthost.cluster.agent import Agent
from exthost.cluster.link import NodeConnection

SECONDS = 60


def test_functions_of_other_threads_are_called_in_order_by_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path))
    host, ours = socket.socketpair()
    ours.setblocking(False)
    # An agent ends with its companion, another process. Here that is the parent of the test.
    agent = Agent(NodeConnection(ours), companion=os.getppid())
    called: list[int] = []
    loop_thread = threading.Thread(target=agent.run)
    loop_thread.start()
    for number in range(100):
        agent._call_soon(partial(called.append, number))
    agent._call_soon_with(agent._end, "the test has ended")
    loop_thread.join(SECONDS)
    assert not loop_thread.is_alive()
    assert called == list(range(100))
    host.close()
    for fd in (agent._companion, agent._wake_read, agent._wake_write):
        os.close(fd)
