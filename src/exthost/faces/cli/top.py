"""Show the extensions of a running host, live: calls a second, durations, resources, failures.

Failed extensions come first. Keys: ↑ ↓ (or k, j) and PgUp, PgDn select · r restarts · s stops ·
l shows its log, t its messages (q, Esc or Ctrl-C comes back) · / filters by id, state or dialect,
Enter ends the filter, Esc clears it · o sorts by another column · ? shows the keys · q leaves.
Ctrl-C leaves, too, with the exit code 130.

P50 and P99 are durations of the last calls, measured while somebody watches; ERR counts calls that
failed, FLY those in flight and waiting, RST restarts; BRK is the circuit breaker, if it is not
closed. CPU and memory are those of the whole process tree. PID and UP, the time since its start,
are shown if the terminal has 100 columns. Without a terminal, or with --json, one sample is
printed.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from exthost.errors import ExthostError, escape_controls
from exthost.faces.cli.common import Args, add_config_option, config_path, plural, say, show_json
from exthost.faces.cli.python_command import PYTHON_COMMAND
from exthost.faces.cli.table_selection import TableSelection
from exthost.faces.cli.terminal import Terminal
from exthost.faces.cli.text_width import truncate
from exthost.faces.cli.top_layout import DEFAULT_ORDER, arrange, order_rows, table_lines
from exthost.faces.cli.top_rates import Rates
from exthost.host.control.client import HostClient, ask
from exthost.host.control.protocol import ControlRequest

# The time limit of a request that a running host answers at once.
ANSWER_SECONDS = 10.0

# The time between two samples. A sample is cheap even for a host with hundreds of extensions.
SAMPLE_SECONDS = 1.0

# The time limit of a restart or a stop. The host completes it even after the limit.
VERB_SECONDS = 120.0

# The keys that end a view of a log or of messages, and how often the view is checked for its end.
_LEAVE_KEYS = frozenset({"q", "escape", "ctrl-c", ""})
_VIEW_POLL_SECONDS = 0.2

SAMPLE_REQUEST = ControlRequest("status", params={"measure": True})
KEYS = "↑↓ select · r restart · s stop · l log · t traffic · / filter · o sort · ? · q quit"

HELP = (
    "Keys of exthost top",
    "",
    "  ↑ ↓, k j         select an extension; PgUp and PgDn move by ten",
    "  r                restart it: PID and UP show the new process",
    "  s                stop it",
    "  l                its log, as it is written; q or Esc comes back",
    "  t                its messages, as they are sent; q or Esc comes back",
    "  /                filter by id, state or dialect; Enter ends it, Esc clears it",
    "  o                sort by state, id, calls/s, P99, errors, CPU, memory, uptime",
    "  q                leave",
    "",
    "Any key comes back to the table.",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)


def run(args: Args) -> int:
    with HostClient(config_path(args), timeout=ANSWER_SECONDS) as client:
        if args.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return _print_once(args, client)
        with Terminal() as terminal:
            _LiveTop(args, client, terminal).run()
    return 0


def _print_once(args: Args, client: HostClient) -> int:
    """Print the table, or JSON, without keys. Return the exit code."""
    rates = Rates()
    # Rates are computed from two samples.
    rates.add(client.ask(SAMPLE_REQUEST, timeout=ANSWER_SECONDS)["extensions"], time.monotonic())
    time.sleep(SAMPLE_SECONDS)
    reply = client.ask(SAMPLE_REQUEST, timeout=ANSWER_SECONDS)
    rows = order_rows(rates.add(reply["extensions"], time.monotonic()))
    if args.json:
        clients = reply["clients"]
        show_json({"host": reply["host"], "clients": clients, "extensions": rows})
        return 0
    width = shutil.get_terminal_size((120, 24)).columns
    for line in table_lines(rows, width):
        print(line)
    clients = len(reply["clients"])
    others = f", {plural(clients, 'client')}" if clients else ""
    say(f"{plural(len(rows), 'extension')} of process {reply['host']['pid']}{others}")
    return 0


class _LiveTop:
    """The live display: samples the host once a second, draws the table, and handles keys."""

    def __init__(self, args: Args, client: HostClient, terminal: Terminal) -> None:
        self._args = args
        self._client = client
        self._terminal = terminal
        self._rates = Rates()
        self._rows: list[Any] = []
        self._host: dict[str, Any] = {}
        self._clients = 0
        self._selection = TableSelection()
        self._note = ""
        self._shows_help = False

    def run(self) -> None:
        """Show the table and handle keys until the user leaves."""
        next_sample = 0.0
        while True:
            now = time.monotonic()
            if now >= next_sample:
                self._take_sample(now)
                next_sample = now + SAMPLE_SECONDS
            self._draw()
            for key in self._terminal.read_keys(max(0.0, next_sample - time.monotonic())):
                if not self._handle_key(key):
                    return

    def _take_sample(self, now: float) -> None:
        reply = self._client.ask(SAMPLE_REQUEST, timeout=ANSWER_SECONDS)
        self._host = reply["host"]
        self._clients = len(reply["clients"])
        self._rows = self._rates.add(reply["extensions"], now)

    # -- drawing -----------------------------------------------------------------------------

    def _draw(self) -> None:
        """Draw a headline, the table, a line about the selected extension, and the keys."""
        width, height = self._terminal.size()
        if self._shows_help:
            text = [truncate(line, width) for line in HELP]
            self._terminal.draw([*text, *[""] * (height - len(text))][:height])
            return
        selection = self._selection
        rows = selection.filter_rows(self._rows)
        index = selection.find_index(rows)
        counts = f"{len(rows)} of " if selection.pattern else ""
        counts += plural(len(self._rows), "extension")
        trouble_count = sum(
            row["state"] in ("failed", "refused", "open", "backoff") for row in rows
        )
        headline = f"exthost top · process {self._host['pid']} · {counts}"
        headline += f" · {trouble_count} in trouble" if trouble_count else ""
        headline += f" · {plural(self._clients, 'client')}" if self._clients else ""
        headline += f" · by {selection.order}" if selection.order != DEFAULT_ORDER else ""
        # Three lines are not part of the table: the headline, the detail and the keys.
        table = arrange(rows, width, max(2, height - 3), index)
        lines = [truncate(headline, width), *table.lines]
        error = rows[index].get("last_error") if rows else None
        detail = self._note or (f"{selection.id}: {error['message']}" if error else "")
        if selection.is_typing or selection.pattern:
            detail = f"/{selection.pattern}"
        lines += [""] * max(0, height - 2 - len(lines))
        detail = truncate(escape_controls(" ".join(detail.split())), width)
        lines += [detail, truncate(KEYS, width)]
        # The headline is one line above the table.
        self._terminal.draw(lines[:height], table.selected + 1 if rows else -1)

    # -- keys --------------------------------------------------------------------------------

    def _handle_key(self, key: str) -> bool:
        """Handle a key. Return False for a key that ends the display. Raises KeyboardInterrupt for
        Ctrl-C."""
        if self._shows_help:
            self._shows_help = False
            return True
        if key == "?" and not self._selection.is_typing:
            self._shows_help = True
            return True
        if self._selection.handle_key(key, self._rows):
            # A note about a restart or stop stays visible while a filter is typed or cleared.
            if not self._selection.is_typing and key != "escape":
                self._note = ""
            return True
        if key == "ctrl-c":  # the key sends no signal, because the terminal is in raw mode
            raise KeyboardInterrupt
        if key in ("q", ""):
            return False
        selected = self._selection.id
        if selected and key in ("r", "s"):
            self._send_verb("restart" if key == "r" else "stop", selected)
        elif selected and key in ("l", "t"):
            self._run_verb(["logs", "-f"] if key == "l" else ["trace"], selected)
        return True

    def _send_verb(self, verb: str, name: str) -> None:
        """Restart or stop an extension. A thread waits for it, so that the display continues."""
        self._note = f"{name}: {verb} …"

        def send() -> None:
            try:
                row = ask(config_path(self._args), ControlRequest(verb, name), timeout=VERB_SECONDS)
                self._note = f"{name}: {verb}: {row['state']}"
            except ExthostError as error:
                self._note = f"{name}: {verb}: {error.message} [{error.code}]"

        threading.Thread(target=send, daemon=True).start()

    def _run_verb(self, verb: list[str], name: str) -> None:
        """Run another verb in the terminal until q, Esc or Ctrl-C is pressed, or it ends."""
        names = ["--", name] if name.startswith("-") else [name]  # otherwise it would be an option
        command = [*PYTHON_COMMAND, *verb, "--config", config_path(self._args), *names]
        # Ctrl-C is to end the other program only. A handler that does nothing is not inherited by
        # it, as SIG_IGN would be.
        previous_handler = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            with self._terminal.shows_output():
                print(f"{' '.join(verb)} {name}: q comes back", flush=True)
                with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
                    while process.poll() is None:
                        if _LEAVE_KEYS & set(self._terminal.read_keys(_VIEW_POLL_SECONDS)):
                            process.send_signal(signal.SIGINT)
                            break
        finally:
            signal.signal(signal.SIGINT, previous_handler)
