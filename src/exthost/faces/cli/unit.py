"""Print a systemd unit that starts a host at boot, waits until it is ready, and can reload it.

  exthost unit --config /etc/exthost.toml > /etc/systemd/system/exthost.service
  exthost unit --user > ~/.config/systemd/user/exthost.service
  systemctl daemon-reload && systemctl enable --now exthost

The unit has its own cgroup, so that the kernel can limit the memory and processes of each
extension. The restrictions of the service apply to every extension, too, so the unit has those that
the sandboxes of extensions leave possible; comments in it name the others. The unit has the PATH of
this shell, so that it finds the same commands. Run the verbs that control the host as its user:

  sudo -u USER exthost status --config /etc/exthost.toml
"""

import argparse
import os
import pwd
import shutil
import stat
import sys
from pathlib import Path

from exthost.errors import UsageError
from exthost.faces.cli.common import Args, add_config_option, config_path, say, show_json
from exthost.faces.cli.mcp_service import add_http_options, check_http_options, http_arguments
from exthost.faces.cli.python_command import PYTHON_COMMAND
from exthost.faces.cli.web_service import add_web_options

# The time that systemd gives the host until all extensions are ready, and until all have drained.
START_SECONDS = 300
STOP_SECONDS = 90

# The restrictions that every unit can have. Extensions inherit them.
_HARDENING = (
    "# These hold for the host and for every extension.",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "RestrictRealtime=yes",
    "ProtectClock=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectHostname=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=~@clock @module @obsolete @raw-io @reboot @swap",
    "SystemCallErrorNumber=EPERM",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "NoNewPrivileges=yes",
)

# The capabilities that a host of root keeps from all its extensions. It needs others itself, to
# give an extension a user of its own and to make sandboxes and cgroups.
_UNUSED_CAPABILITIES = (
    *("CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_BOOT", "CAP_SYS_TIME", "CAP_SYS_PACCT"),
    *("CAP_SYS_TTY_CONFIG", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_BPF"),
    *("CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE", "CAP_AUDIT_CONTROL", "CAP_AUDIT_READ"),
    "CAP_LINUX_IMMUTABLE",
)

_REASONS = (
    "# Not set, because the sandboxes of extensions need what these take away:",
    "# RestrictNamespaces, PrivateUsers (each sandbox is a namespace),",
    "# ProtectProc, ProcSubset, ProtectKernelTunables (a sandbox mounts a new /proc),",
    "# ProtectControlGroups (the host makes a cgroup for each extension),",
    "# MemoryDenyWriteExecute (Node and other runtimes compile at run time).",
    "# Not set, because extensions may need the files: ProtectSystem, ProtectHome, PrivateTmp,",
    "# PrivateDevices. Set them in a drop-in (systemctl edit) if yours do not.",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--user", action="store_true", help="a unit for your own service manager, without root"
    )
    parser.add_argument(
        "--run-as", metavar="USER", help="the user of the host (default: you, unless you are root)"
    )
    add_http_options(parser)
    add_web_options(parser)
    add_config_option(parser)


def run(args: Args) -> int:
    check_http_options(args)
    if args.user and args.run_as is not None:
        raise UsageError(
            "X1316", "a unit of --user runs as that user", help="remove --user or --run-as"
        )
    config = _absolute_path(config_path(args))
    for text in (args.run_as or "", config):
        if not text.isprintable():
            raise UsageError(
                "X1316",
                f"{text!r} has a control character, which a unit cannot have",
                help="choose another name",
            )
    user = "" if args.user else args.run_as or _own_name()
    if user == "root" and args.run_as is None:
        say("warning: this unit runs as root: name another user with --run-as")
    if args.run_as is not None and not _user_exists(args.run_as):
        say(f"warning: there is no user {args.run_as} here: the unit starts where there is one")
    path = search_path(os.environ.get("PATH", ""))
    if not Path(config).exists():
        say(f"warning: there is no {config} yet: the unit fails without it")
    text = unit_text(run_command(args), config=config, user=user, path=path)
    if args.json:
        show_json({"unit": text})
    else:
        print(text, end="")
    return 0


def run_command(args: Args) -> list[str]:
    """Return the command line that the unit executes."""
    command = [*_program(), "run", "--quiet", "--config", _absolute_path(config_path(args))]
    command += http_arguments(args)
    if args.web is not None:
        command += ["--web", str(args.web)]
    return command


def search_path(path: str) -> str:
    """Return a PATH with only its absolute folders, because the unit has another working
    directory."""
    return ":".join(part for part in path.split(":") if part.startswith("/") and part.isprintable())


def unit_text(command: list[str], *, config: str, user: str, path: str) -> str:
    """Return the text of the unit. With an empty `user` it is a unit for a user's own service
    manager. `path` is the environment variable PATH of the host."""
    lines = [
        "[Unit]",
        f"Description=exthost: extensions of {_escape_specifiers(config)}",
        "Documentation=man:exthost(1)",
        *(["After=network.target"] if user else []),
        "",
        "[Service]",
        "Type=notify",
        *([f"User={user}"] if user and user != "root" else []),
        f"WorkingDirectory={_escape_specifiers(str(Path(config).parent))}",
        *([f"Environment={_quote_assignment('PATH', path)}"] if path else []),
        f"ExecStart={' '.join(map(_quote_argument, command))}",
        "ExecReload=kill -HUP $MAINPID",
        "# The host ends its extensions itself; systemd kills the rest.",
        "KillMode=mixed",
        f"TimeoutStartSec={START_SECONDS}",
        f"TimeoutStopSec={STOP_SECONDS}",
        "Restart=on-failure",
        "RestartSec=2",
        "# The kernel caps the memory and the processes of each extension.",
        "Delegate=yes",
        "OOMPolicy=continue",
        "UMask=0077",
        "KeyringMode=private",
        *_restrictions(user),
        *_REASONS,
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if user else 'default.target'}",
        "",
    ]
    return "\n".join(lines)


def _restrictions(user: str) -> list[str]:
    """Return the lines that restrict the service. Each of them forbids programs to gain privileges
    if the service has a user, and a bubblewrap that is setuid would need them."""
    bwrap = shutil.which("bwrap")
    if bwrap is not None and Path(bwrap).stat().st_mode & stat.S_ISUID:
        return ["# No restriction that implies NoNewPrivileges, because bubblewrap is setuid here."]
    if not user:  # a user's own service manager has no capabilities
        return [*_HARDENING]
    bounding_set = "~" + " ".join(_UNUSED_CAPABILITIES) if user == "root" else ""
    return [*_HARDENING, f"CapabilityBoundingSet={bounding_set}"]


def _program() -> list[str]:
    program_path = Path(sys.argv[0])
    if (
        program_path.name == "exthost"
        and program_path.is_absolute()
        and os.access(program_path, os.X_OK)
    ):
        return [str(program_path)]
    program = shutil.which("exthost")
    return [program] if program is not None else [*PYTHON_COMMAND]


def _absolute_path(path: str) -> str:
    return str(Path(path).absolute())


def _own_name() -> str:
    """Return the name of this process's user, or the number of a user without a name, which a unit
    may have as well."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _user_exists(user: str) -> bool:
    """Return whether this machine has the user. A number is accepted as a user id."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return user.isdecimal()
    return True


def _quote_assignment(name: str, value: str) -> str:
    """Return a quoted assignment for `Environment=`, where `$` is not special."""
    escaped = _escape_specifiers(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}={escaped}"'


def _escape_specifiers(text: str) -> str:
    """Return the text with `%` doubled, which systemd would expand as a specifier."""
    return text.replace("%", "%%")


def _quote_argument(argument: str) -> str:
    """Return an argument of `ExecStart=`, quoted for systemd."""
    escaped = (
        _escape_specifiers(argument).replace("\\", "\\\\").replace("$", "$$").replace('"', '\\"')
    )
    is_plain = all(char.isalnum() or char in "/._-:=@+,[]" for char in argument)
    return escaped if is_plain and argument else f'"{escaped}"'
