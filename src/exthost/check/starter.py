"""Starts processes of the extension under check, and ends each of them."""

import asyncio
import time
from collections.abc import Mapping

from exthost.check.ledger import Ledger
from exthost.check.peer import NoAnswer, Peer
from exthost.check.settings import REPLY_SECONDS
from exthost.dialects.base import Dialect
from exthost.dialects.conformance import Conformance
from exthost.errors import ExthostError
from exthost.launch.admission import Admission
from exthost.launch.limits import limits_of
from exthost.launch.machine_check import find_out, is_known
from exthost.launch.plan import admit, make_state_folder, prepare
from exthost.offer import Offer
from exthost.spec import Spec

# Where replies are given less time than usual, a request of the handshake may still take this many
# times as long: a program starts.
_START_FACTOR = 3


class Starter:
    """Starts processes as the host does: the same program, variables, folder and sandbox."""

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        conformance: Conformance,
        environ: Mapping[str, str],
        ledger: Ledger,
        reply_seconds: float,
    ) -> None:
        self.spec = spec
        self.dialect = dialect
        self.ledger = ledger
        self._conformance = conformance
        self._environ = environ
        limit = limits_of(spec, dialect).handshake or 0.0
        # As long as the host waits, unless replies are given less time than usual.
        is_short = reply_seconds < REPLY_SECONDS
        self._handshake_seconds = min(limit, _START_FACTOR * reply_seconds) if is_short else limit
        self._falls_back = False
        self._peers: list[Peer] = []
        self._admission: Admission | None = None
        self.latest: Peer | None = None  # the process that was started last
        self.start_seconds = 0.0  # how long the slowest start took
        self.all_starts_seconds = 0.0  # how long all starts took

    async def start(self) -> Peer:
        """Start a process, without a handshake. Raises one of our errors."""
        if not is_known(self.spec):
            await asyncio.to_thread(find_out, self.spec)
        if self._admission is None:
            self._admission = admit(self.spec, self.dialect, self._environ)
        launch = prepare(self.spec, self.dialect, self._environ, admission=self._admission)
        peer = Peer(make_state_folder(launch), self.spec, self.dialect, self._conformance)
        self._peers.append(peer)
        self.latest = peer
        return peer

    async def connect(self, *, splits: bool = False) -> tuple[Peer, Offer]:
        """Start a process and shake hands. Raises NoAnswer, or one of our errors."""
        peer = await self.start()
        peer.splits = splits
        try:
            return peer, await self._shake_hands(peer)
        except NoAnswer:
            if self.dialect.fallback is None or self._falls_back or peer.is_alive:
                raise
        # It died of the first request: the dialect knows an older handshake.
        await self.release(peer)
        self._falls_back = True
        peer = await self.start()
        peer.splits = splits
        return peer, await self._shake_hands(peer)

    async def _shake_hands(self, peer: Peer) -> Offer:
        make = self.dialect.fallback if self._falls_back else None
        steps = (make or self.dialect.handshake)(peer.launch.context)
        began = time.perf_counter()
        try:
            offer = await peer.shake_hands(steps, self._handshake_seconds)
            self.start_seconds = max(self.start_seconds, time.perf_counter() - began)
            return offer
        except (NoAnswer, ExthostError):
            if (problem := peer.unfinished_frame()) is not None:
                peer.problems.append((problem, peer.exchange.shown()))
            raise
        finally:
            self.all_starts_seconds += time.perf_counter() - began

    async def release(self, peer: Peer) -> None:
        """Record what the messages of a process showed, and end it."""
        if peer in self._peers:
            self._peers.remove(peer)
            await peer.kill()
        self.ledger.absorb(peer)

    async def release_all(self) -> None:
        """End every process."""
        for peer in list(self._peers):
            await self.release(peer)
