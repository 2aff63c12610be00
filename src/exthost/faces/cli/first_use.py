"""Asks at the terminal about extensions that are new (`[trust] new = "ask"`), for `run` and
`inspect`; and says at the start of a host how its lock applies."""

import shlex

from exthost.config import Config
from exthost.config.discovery.configfile import find_extensions
from exthost.config.discovery.first_use import extension_digest, remember_agreement
from exthost.config.discovery.locked_specs import read_lock_state
from exthost.config.lock_file import LOCK_NAME
from exthost.faces.cli.common import Args, plural, say
from exthost.faces.cli.lock_edit import record_extensions
from exthost.faces.cli.terminal_question import ask_on_terminal
from exthost.launch.network_grant import describe_network
from exthost.model.spec import Spec


def ask_about_new(args: Args, config: Config, target: str | None = None) -> None:
    """Show each new extension of the config, or the one that `target` names, and ask whether to
    start it. A yes is remembered; if there is a lock, its record is written. Without a terminal
    no person is asked, and the extension stays refused."""
    if config.trust.new != "ask":
        return
    for spec in find_extensions(config).specs:
        is_new = spec.refusal is not None and spec.refusal.rule == "new"
        if not is_new or target not in (None, spec.id):
            continue
        digest = extension_digest(spec)
        _show(spec)
        answer = ask_on_terminal(f"Start {spec.id} now and later? [y/N] ")
        if answer is None:
            say(f"{spec.id} needs your approval, and this is not a terminal")
        elif answer and extension_digest(spec) != digest:
            say(f"{spec.id} changed after it was shown: try again, to see what it is now")
        elif answer:
            remember_agreement(config, spec, digest)
            if read_lock_state(config).lock is not None:
                record_extensions(args, [spec.id])


def _show(spec: Spec) -> None:
    """Print what an extension is, and what it asks for."""
    say(f"{spec.id} is new: neither the config nor {LOCK_NAME} names it")
    say(f"  found in: {spec.manifest_file or spec.origin}")
    say(f"  runs: {shlex.join(spec.argv)}")
    names = sorted({*spec.env, *spec.requires.env, *(item.secret for item in spec.settings)} - {""})
    asked = {
        "variables": names,
        "programs": spec.requires.bins,
        "hooks": spec.declared_hooks,
        "tools": [tool.name for tool in spec.declared_tools],
    }
    for kind, items in asked.items():
        if items:
            say(f"  {kind}: {', '.join(items)}")
    if spec.permissions is None or spec.sandbox == "off":
        say("  it has no sandbox: it can do what you can do")
    else:
        network = describe_network(spec.permissions.network)
        grants = ", ".join(spec.permissions.filesystem) or "none"
        say(f"  in a sandbox; network {network}; granted paths: {grants}")


def say_lock(config: Config) -> None:
    """Print how the lock of the config applies, if there is one."""
    state = read_lock_state(config)
    if state.lock is not None and state.mode != "off":
        verb = "is enforced" if state.mode == "enforce" else "is compared, and differences reported"
        say(f"{LOCK_NAME} {verb}: {plural(len(state.lock.records), 'record')}")
