"""A program that simulates the agents of many nodes, with processes that answer every call.

    python -m soak.simulated_agents

It reads lines from stdin: `connect HOST:PORT NONCE` opens the connection of one more agent, and
`drop` ends all connections, as if all nodes were lost. It ends at the end of stdin.
"""

import json
import os
import selectors
import socket
import time

from exthost.cluster.link import HEARTBEAT_SECONDS, Link, NodeConnection
from exthost.cluster.messages import encode_exit, hello, stream_numbers
from exthost.cluster.multiplexer import Kind
from exthost.process.exit_status import ExitStatus


class SimulatedAgent:
    """One agent. Its processes speak morphir, and return the parameters of each call."""

    def __init__(self, selector: selectors.BaseSelector, address: str, nonce: str) -> None:
        self._selector = selector
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.sendall(nonce.encode() + b"\n")
        self._socket.setblocking(False)
        self._processes: dict[int, bytes] = {}  # an incomplete line of each, by the stdin's number
        self.link = Link(NodeConnection(self._socket), self._watch_writable)
        selector.register(self._socket, selectors.EVENT_READ, self)
        self.link.send_message(0, hello())

    def _watch_writable(self, is_waiting: bool) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_waiting else 0)
        self._selector.modify(self._socket, events, self)

    def handle(self) -> bool:
        """Handle what has arrived. Return False if the connection has ended."""
        self.link.flush()
        try:
            events = self.link.decode(self.link.read())
        except BlockingIOError:
            return True
        except OSError:
            return False
        for kind, stream, payload in events:
            if kind == Kind.DATA:
                self._answer(stream, bytes(payload))
            elif kind == Kind.END and stream in self._processes:
                self._exit(stream)
            elif kind == Kind.MESSAGE and "order" in payload:
                self._start(stream)
        return True

    def _start(self, number: int) -> None:
        stdin, *outputs = stream_numbers(number)
        self._processes[stdin] = b""
        self.link.perform(self.link.multiplexer.open_incoming, stdin)
        for stream in outputs:
            self.link.perform(self.link.multiplexer.open_outgoing, stream)
        self.link.send_message(number, {"started": number})

    def _answer(self, stdin: int, data: bytes) -> None:
        self.link.perform(self.link.multiplexer.consume, stdin, len(data))
        *lines, self._processes[stdin] = (self._processes[stdin] + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            result = {"initialize": {"status": "ready"}, "capabilities": []}.get(
                request["method"], request.get("params")
            )
            reply = json.dumps({"id": request["id"], "result": result}).encode() + b"\n"
            self.link.send(stdin + 1, reply)

    def _exit(self, stdin: int) -> None:
        del self._processes[stdin]
        for stream in (stdin + 1, stdin + 2):
            self.link.perform(self.link.multiplexer.end, stream)
        self.link.send_message(stdin - 1, encode_exit(ExitStatus(0, None)))

    def close(self) -> None:
        """End the connection."""
        self._selector.unregister(self._socket)
        self.link.close()


def main() -> None:
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    agents: set[SimulatedAgent] = set()
    commands = b""
    next_beat = time.monotonic()
    while True:
        if time.monotonic() >= next_beat:
            next_beat = time.monotonic() + HEARTBEAT_SECONDS
            for agent in agents:
                agent.link.send_beat()
        ready = selector.select(HEARTBEAT_SECONDS)
        for key, _ in ready:
            if key.data is not None:
                if not key.data.handle():
                    key.data.close()
                    agents.discard(key.data)
                continue
            data = os.read(0, 65536)
            if not data:
                return
            *lines, commands = (commands + data).split(b"\n")
            for line in lines:
                verb, *words = line.decode().split()
                if verb == "connect":
                    agents.add(SimulatedAgent(selector, *words))
                else:
                    for agent in agents:
                        agent.close()
                    agents.clear()


if __name__ == "__main__":
    main()
