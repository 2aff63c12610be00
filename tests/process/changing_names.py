"""A program that sends requests through the proxy of an extension, while the addresses of the
requested host change. `test_changing_names.py` runs it and examines what it prints.

The proxy lets an extension reach only the hosts of a policy, and adds a secret header for one of
them. An attacker with a name server could let that host's name lead to another server. So this
program has a name server whose answers change. It runs in a network of its own:

    unshare --map-root-user --net --mount python -m tests.process.changing_names FOLDER

The network has no interface except loopback, with the addresses FIRST, SECOND and OTHER. Servers
listen at each of them and record the heads of their requests. The program prints a JSON object: for
each step the reply that the client got, and the heads that each server got.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exthost.model.launch_plan import InjectedHeader, ProxyPolicy
from exthost.process.network_proxy import NetworkProxy

FIRST, SECOND, OTHER = "198.51.100.1", "198.51.100.2", "198.51.100.3"
# The host that gets the secret header, and another host of the policy.
API, OTHER_HOST = "api.test.example", "other.test.example"
WAIT_SECONDS = 20.0

_TYPE_A = 1


class NameServer:
    """Answers queries for addresses. Each query for the API takes the next list of addresses."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(4096)
            end, labels = 12, []  # a header of 12 bytes, then each label after its length
            while query[end]:
                labels.append(query[end + 1 : end + 1 + query[end]].decode())
                end += 1 + query[end]
            question = query[12 : end + 5]
            addresses: list[str] = []
            if struct.unpack(">H", question[-4:-2])[0] == _TYPE_A:
                is_api = ".".join(labels).lower() == API
                addresses = self.answers.pop(0) if is_api and self.answers else [OTHER]
            # The id of the query, "a response without an error", and the number of records.
            head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(addresses), 0, 0)
            records = b"".join(
                # A pointer to the name in the question, the type, the class, a time to live of 0.
                b"\xc0\x0c" + struct.pack(">HHIH", _TYPE_A, 1, 0, 4) + socket.inet_aton(address)
                for address in addresses
            )
            self._socket.sendto(head + question + records, client)


class WebServer:
    """Answers each request with its address, or with a redirect if the path names a URL."""

    def __init__(self, address: str) -> None:
        self.heads: list[str] = []
        self._address = address
        self._listener = socket.create_server((address, 80))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                head = b""
                while b"\r\n\r\n" not in head and (data := connection.recv(65536)):
                    head += data
                self.heads.append(head.decode())
                target = head.split()[1].decode()
                if target.startswith("/to/"):
                    status = f"302 Found\r\nLocation: {target[4:]}"
                else:
                    status = "200 OK"
                body = self._address.encode()
                reply = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                connection.sendall(reply + body)


def make_network(folder: Path) -> None:
    """Set the addresses of this network namespace, and its name server."""
    commands: Sequence[Sequence[str]] = [
        ("ip", "link", "set", "lo", "up"),
        *(("ip", "address", "add", f"{item}/32", "dev", "lo") for item in (FIRST, SECOND, OTHER)),
    ]
    for command in commands:
        subprocess.run(command, check=True, timeout=WAIT_SECONDS)
    for name, text in (
        ("resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n"),
        ("nsswitch.conf", "hosts: dns\n"),
    ):
        file = folder / name
        file.write_text(text)
        mount = ["mount", "--bind", str(file), f"/etc/{name}"]
        subprocess.run(mount, check=True, timeout=WAIT_SECONDS)


def main(folder: Path) -> None:
    """Make the network, its servers and the proxy, make the requests, and print what happened."""
    make_network(folder)
    names = NameServer()
    servers = {address: WebServer(address) for address in (FIRST, SECOND, OTHER)}
    policy = ProxyPolicy(
        (f"{API}:80", f"{FIRST}:80", f"{OTHER_HOST}:80", f"{OTHER}:80"),
        headers=(InjectedHeader(API, 80, "Authorization", "Bearer s3cret"),),
    )
    proxy = NetworkProxy(policy, "tester")
    # The proxy waits for a listening socket, which the sandbox of an extension would send.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.socket(fileno=os.dup(proxy.child_end)) as channel:
            socket.send_fds(channel, [b"\0"], [listener.fileno()])
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": address}))
    steps: dict[str, Any] = {}

    def request(step: str, url: str, *answers: list[str]) -> None:
        """Request a URL, with these answers of the name server, and record what happens."""
        names.answers = list(answers)
        try:
            with opener.open(url, timeout=WAIT_SECONDS) as response:
                reply = response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                reply = f"{error.code} {error.reason}"
        steps[step] = {
            "reply": reply,
            "unused answers": len(names.answers),
            **{server: list(item.heads) for server, item in servers.items()},
        }
        for item in servers.values():
            item.heads.clear()

    # The name of the host leads to its allowed address, and then to others.
    request("allowed", f"http://{API}/", [FIRST])
    request("changed", f"http://{API}/", [SECOND])
    request("both", f"http://{API}/", [SECOND, FIRST])
    request("changed after the look-up", f"http://{API}/", [FIRST], [SECOND])
    request("private", f"http://{API}/", ["127.0.0.1"])
    request("metadata", f"http://{API}/", ["169.254.169.254"])
    request("upper case and a dot", "http://API.Test.Example.:80/", [FIRST])
    # The server redirects the client, which repeats the request elsewhere.
    request("redirect to another host", f"http://{API}/to/http://{OTHER_HOST}/", [FIRST])
    request("redirect to an address", f"http://{API}/to/http://{OTHER}/", [FIRST])
    request("redirect to its own address", f"http://{API}/to/http://{FIRST}/", [FIRST])
    request("redirect to itself", f"http://{API}/to/http://{API.upper()}./", [FIRST], [FIRST])
    request("redirect and change", f"http://{API}/to/http://{API}/", [FIRST], [OTHER])
    proxy.close()
    print(json.dumps(steps))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
